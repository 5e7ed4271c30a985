import { describe, expect, it } from 'vitest';
import { parseReplayArguments, replayFlags } from '../../../../src/cli/replay/replay-args.ts';
import { replayHelp } from '../../../../src/cli/replay/replay-help.ts';

const parse = (line: string) => parseReplayArguments(line.split(' ').filter((word) => word !== ''));

function problemsOf(line: string): readonly string[] {
  const parsed = parse(line);
  return parsed.kind === 'wrong' ? parsed.problems : [];
}

describe('the arguments of replay', () => {
  it('need a trace or a generator, and no more', () => {
    expect(parse('trace.jsonl')).toMatchObject({ kind: 'replay', source: { kind: 'file', path: 'trace.jsonl' } });
    expect(parse('--generate agents --requests 50 --rate 2')).toMatchObject({
      source: { kind: 'generated', name: 'agents', requests: 50, ratePerSecond: 2 },
    });
    expect(problemsOf('')).toEqual(['name a trace, - for what comes on stdin, or --generate NAME']);
    expect(problemsOf('a b')[0]).toContain('one trace at a time');
    expect(problemsOf('a --generate agents')).toEqual(['a trace or --generate, not both']);
    expect(problemsOf('a --requests 5')[0]).toContain('--limit');
  });

  it('take several fleets and loads', () => {
    expect(parse('t --backends 4,6,8 --kv-tokens 300k,1.2M --scale 0.5,2')).toMatchObject({
      backends: [4, 6, 8],
      kvTokens: [300_000, 1_200_000],
      scales: [0.5, 2],
    });
  });

  it('know policies by name, each once, and all of them', () => {
    expect(parse('t --policy warm,perfect,warm')).toMatchObject({ policies: ['warm', 'perfect'] });
    const all = parse('t');
    expect(all.kind === 'replay' && all.policies.length).toBe(8);
    expect(problemsOf('t --policy round-robn')).toEqual([
      '--policy: there is no "round-robn"; did you mean round-robin?',
    ]);
    expect(problemsOf('t --policy ,')).toEqual(['--policy names none']);
  });

  it('read bounds with their units', () => {
    expect(parse('t --slo-ttft 2s --slo-tpot 50ms')).toMatchObject({ slo: { ttftMs: 2000, tpotMs: 50 } });
    expect(problemsOf('t --slo-ttft 2')[0]).toContain('is no time');
  });

  it('name every problem at once', () => {
    const problems = problemsOf('t --backends 0 --seed x --engine vlm-h100 --limits --json=1 --scale');
    expect(new Set(problems)).toEqual(
      new Set([
        'unknown flag --limits; did you mean --limit?',
        '--json takes no value',
        '--scale needs a value',
        '--engine: there is no "vlm-h100"; did you mean vllm-h100?',
        '--backends "0" is no whole number from 1 to 1000',
        '--seed "x" is no whole number from 0 up',
      ]),
    );
  });

  it('are all in the help, which is had whatever else is wrong', () => {
    expect(parse('--nonsense --help')).toEqual({ kind: 'help' });
    for (const name of Object.keys(replayFlags)) expect(replayHelp()).toContain(`--${name}`);
    for (const word of ['vllm-h100', 'shared-prompts', 'sticky-until-saturated', 'perfect'])
      expect(replayHelp()).toContain(word);
  });
});
