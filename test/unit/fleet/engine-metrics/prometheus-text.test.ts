import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maxSamples, maxTextLength, readSamples } from '../../../../src/fleet/engine-metrics/prometheus-text.ts';

const wanted = new Set(['a', 'vllm:x_total', 'b']);
const one = (line: string) => readSamples(`${line}\n`, wanted).samples[0];

describe('Prometheus text', () => {
  it('gives the wanted series with labels and values, and passes over the others', () => {
    const text = [
      '# HELP a Something.',
      '# TYPE a gauge',
      'a 1',
      'ab 2',
      'vllm:x_total{engine="0",model_name="m"} 3.5e+02',
      'vllm:x_bucket{le="+Inf"} 9',
      '',
      'b{} .5 1700000000000',
      '',
    ].join('\n');
    const { samples, malformed, cut } = readSamples(text, wanted);
    expect(samples.map(({ name, value, labels }) => [name, value, Object.fromEntries(labels)])).toEqual([
      ['a', 1, {}],
      ['vllm:x_total', 350, { engine: '0', model_name: 'm' }],
      ['b', 0.5, {}],
    ]);
    expect([malformed, cut]).toEqual([0, false]);
  });

  it('takes escapes, blanks, a trailing comma and a carriage return as the format allows them', () => {
    expect(one('a{x="q\\"\\\\ \\n}" , y="2",} 7\r')).toMatchObject({ value: 7 });
    expect([...(one('a{x="q\\"\\\\ \\n}" , y="2",} 7')?.labels ?? [])]).toEqual([
      ['x', 'q"\\ \n}'],
      ['y', '2'],
    ]);
    expect(one('a{x="1"}7')?.value).toBe(7);
    expect([one('a NaN')?.value, one('a +Inf')?.value, one('a -Inf')?.value]).toEqual([NaN, Infinity, -Infinity]);
  });

  it.each([
    'a',
    'a ',
    'a x',
    'a 1 2 3',
    'a 0x10',
    'a 1e',
    'a{x="1" 1',
    'a{x=1} 1',
    'a{x="1"',
    'a{x="1"y="2"} 1',
    'a{,} 1',
    'a 1 # {} 2',
  ])('counts %j as malformed, and it costs only itself', (line) => {
    const { samples, malformed } = readSamples(`${line}\nb 2\n`, wanted);
    expect([samples.map(({ name }) => name), malformed]).toEqual([['b'], 1]);
  });

  it('stops at its bounds, and says so', () => {
    const many = readSamples('a 1\n'.repeat(maxSamples + 5), wanted);
    expect([many.samples.length, many.cut]).toEqual([maxSamples, true]);
    // The line that the cut goes through is not read as a shorter number.
    const long = readSamples(`${'# x\n'.repeat(maxTextLength / 4 - 1)}a 12345`, wanted);
    expect(long.cut).toBe(true);
    expect(long.samples).toEqual([]);
  });

  it('does not read a shorter number where the answer just stops', () => {
    const { samples, malformed } = readSamples('b 2\na 12345'.slice(0, -3), wanted);
    expect(samples.map(({ name }) => name)).toEqual(['b']);
    expect(malformed).toBe(1);
  });

  it('is quick on a line made to be slow', () => {
    const startMs = performance.now();
    for (const evil of [
      `a ${'1'.repeat(900_000)}x`,
      `a{${'x="\\\\",'.repeat(100_000)}`,
      `a{x="${'\\'.repeat(900_000)}`,
    ])
      expect(readSamples(`${evil}\n`, wanted).samples).toEqual([]);
    expect(performance.now() - startMs).toBeLessThan(1000);
  });

  it('never throws, and gives only wanted names, whatever the bytes', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        'a',
        'b',
        'vllm:x_total',
        '{',
        '}',
        '"',
        '\\',
        ',',
        '=',
        ' ',
        '\n',
        '1',
        '1e9',
        'NaN',
        '#',
        'x="y"',
      ),
      fc.string({ unit: 'binary', maxLength: 5 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const { samples } = readSamples(pieces.join(''), wanted);
        return samples.every(({ name, value }) => wanted.has(name) && typeof value === 'number');
      }),
    );
  });

  it('reads back any label value and any number', () => {
    const escaped = (value: string) => value.replace(/[\\"\n]/g, (char) => (char === '\n' ? '\\n' : `\\${char}`));
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        (label, value) => {
          const [sample] = readSamples(`a{x="${escaped(label)}"} ${value}\n`, wanted).samples;
          return sample !== undefined && sample.labels.get('x') === label && Object.is(sample.value + 0, value + 0);
        },
      ),
    );
  });
});
