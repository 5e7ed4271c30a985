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

  it('does without helper threads on one core, and only there', () => {
    expect(setUp(1, [16]).flags).toContain('--no-concurrent-marking');
    expect(setUp(2, [16]).flags).not.toContain('--no-concurrent-marking');
  });
});
