/**
 * The table of cards, and that deploy/ceiling.md shows the same. `WARMLANE_UPDATE=1 npx vitest run test/unit/account/ceiling/cards.test.ts`
 * writes the table there.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { cards, hardwareOf } from '../../../../src/account/ceiling/cards.ts';
import { cardNames } from '../../../../src/account/ceiling/settings.ts';

const page = new URL('../../../../deploy/ceiling.md', import.meta.url);

function tableText(): string {
  const shown = (value: number | undefined) => (value === undefined ? '–' : String(value));
  const rows = cardNames.map((name) => {
    const { name: title, halfTflops, fp8Tflops, bandwidthGBps, memoryGiB, source } = cards[name];
    const figures = [halfTflops, fp8Tflops, bandwidthGBps, memoryGiB].map(shown);
    return `| \`${name}\` | ${title} | ${figures.join(' | ')} | ${source} |`;
  });
  return [
    '| `gpu` | card | BF16/FP16 TFLOP/s | FP8 TFLOP/s | GB/s | GiB | source |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

describe('the table of cards', () => {
  it('is the one in deploy/ceiling.md', () => {
    const text = readFileSync(page, 'utf8');
    const head = text.slice(0, text.indexOf('| `gpu` |'));
    if (process.env['WARMLANE_UPDATE'] === '1') writeFileSync(page, head + tableText());
    expect(readFileSync(page, 'utf8')).toBe(head + tableText());
    expect(head).toContain('## Cards');
  });

  it('has no sparse peak and no slip of a digit: FP8 is twice 16 bits, and ridges are those of real cards', () => {
    for (const name of cardNames) {
      const { halfTflops, fp8Tflops, bandwidthGBps, source } = cards[name];
      expect(source.length).toBeGreaterThan(10);
      if (halfTflops === undefined) continue;
      if (fp8Tflops !== undefined) expect(fp8Tflops / halfTflops).toBeCloseTo(2, 1);
      const ridge = (halfTflops * 1000) / bandwidthGBps;
      expect(ridge, name).toBeGreaterThan(70);
      expect(ridge, name).toBeLessThan(450);
    }
  });
});

describe('the cards of a backend', () => {
  it('add up, and the config beats the table', () => {
    expect(hardwareOf({ gpu: 'h100-sxm', count: 2, pricePerHour: 5 })).toEqual({
      card: 'H100 SXM',
      count: 2,
      halfFlops: 1978e12,
      fp8Flops: 3958e12,
      bandwidth: 6700e9,
      memoryBytes: 160 * 2 ** 30,
      pricePerHour: 5,
    });
    expect(hardwareOf({ gpu: 'h100-sxm', bandwidthGBps: 100, peakTflops: 1, memoryGiB: 10 })).toMatchObject({
      halfFlops: 1e12,
      fp8Flops: 1e12,
      bandwidth: 100e9,
      memoryBytes: 10 * 2 ** 30,
    });
  });

  it('leave absent what nobody said', () => {
    expect(hardwareOf({})).toEqual({ count: 1 });
    expect(hardwareOf({ gpu: 'm4-max' })).toEqual({ card: 'Apple M4 Max (40-core GPU)', count: 1, bandwidth: 546e9 });
  });
});
