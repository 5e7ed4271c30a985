import { spawnSync } from 'node:child_process';
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
    expect(looks).toHaveLength(0);
  });

  it('keeps compiled code over minutes of quiet', () => {
    expect(setUp(4, [16]).flags).toContain('--gc-memory-reducer-start-delay-ms=600000');
  });

  it('sets no flag that this Node does not know', () => {
    const known = spawnSync(process.execPath, ['--v8-options'], { encoding: 'utf8', maxBuffer: 16 * mib }).stdout;
    const names = setUp(1, [2]).flags.map((flag) => flag.replace(/^--(no-)?/, '').replace(/=.*/, ''));
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => !known.includes(`--${name} (`))).toEqual([]);
  });

  it('does without helper threads on one core, and only there', () => {
    expect(setUp(1, [16]).flags).toContain('--no-concurrent-marking');
    expect(setUp(2, [16]).flags).not.toContain('--no-concurrent-marking');
  });
});
