import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { setUpCollector } from '../../../src/cli/collector.ts';

const mib = 1024 * 1024;

function setUp(cores: number, sizes: number[]) {
  const flags: string[] = [];
  const looks: (() => void)[] = [];
  setUpCollector({
    cores,
    setFlag: (flag) => flags.push(flag),
    youngBytes: () => (sizes.shift() ?? 0) * mib,
    later: (_, look) => looks.push(look),
  });
  return { flags, looks };
}

describe('the garbage collector’s set-up', () => {
  it('lets the young generation grow to its bound in one step, and no further', () => {
    const { flags, looks } = setUp(4, [2, 2, 16]);
    expect(flags.at(-1)).toBe('--semi-space-growth-factor=8');
    looks.shift()?.();
    expect(flags.at(-1)).toBe('--semi-space-growth-factor=8');
    looks.shift()?.();
    expect(flags.at(-1)).toBe('--semi-space-growth-factor=1');
  });

  it('lets none grow that one step would take past the bound', () => {
    expect(setUp(4, [12]).flags.at(-1)).toBe('--semi-space-growth-factor=1');
  });

  it('lets it grow again after V8 made it small', () => {
    const { flags, looks } = setUp(4, [16, 1, 1, 16]);
    expect(flags.at(-1)).toBe('--semi-space-growth-factor=1');
    looks.shift()?.();
    expect(flags.at(-1)).toBe('--semi-space-growth-factor=16');
    const before = flags.length;
    looks.shift()?.();
    expect(flags).toHaveLength(before);
    looks.shift()?.();
    expect(flags.at(-1)).toBe('--semi-space-growth-factor=1');
    expect(looks).toHaveLength(1);
  });

  it('keeps compiled code over minutes of quiet', () => {
    expect(setUp(4, [16]).flags).toEqual(
      expect.arrayContaining(['--gc-memory-reducer-start-delay-ms=2147483647', '--retain-maps-for-n-gc=255']),
    );
  });

  it('is done before the rest is loaded, which makes the first full collection', () => {
    const main = readFileSync(new URL('../../../src/main.ts', import.meta.url), 'utf8');
    const early = [...main.matchAll(/^import .* from '(.*)';$/gm)].map(([, from]) => from);
    expect(early.filter((from) => from?.startsWith('.'))).toEqual(['./cli/collector.ts', './cli/line-buffer.ts']);
    expect(main.indexOf('setUpCollector({')).toBeLessThan(main.indexOf("await import('./cli/run.ts')"));
  });

  it('sets no flag that this Node does not know', () => {
    const known = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8', maxBuffer: 16 * mib }).stdout;
    const names = setUp(1, [2]).flags.map((flag) => flag.replace(/^--(no-)?/, '').replace(/=.*/, ''));
    expect(names.length).toBeGreaterThan(6);
    expect(names.filter((name) => !known.includes(`--${name} (`))).toEqual([]);
  });

  it('does without helper threads on one core, and only there', () => {
    expect(setUp(1, [16]).flags).toContain('--no-concurrent-marking');
    expect(setUp(2, [16]).flags).not.toContain('--no-concurrent-marking');
  });
});
