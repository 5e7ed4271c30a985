import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runReplay } from '../../../../src/cli/replay/run-replay.ts';
import type { Process } from '../../../../src/cli/process.ts';

let folder: string;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), 'replay-'))));
afterAll(() => rmSync(folder, { recursive: true }));

const lines = Array.from({ length: 30 }, (_, index) =>
  JSON.stringify({
    timestamp: index * 700,
    input_length: 1500,
    output_length: 20,
    hash_ids: [0, index % 5, 100 + index],
  }),
);

function file(name: string, content: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function run(args: readonly string[], over: Partial<Process> = {}) {
  const said = { out: '', err: '' };
  const process: Process = {
    argv: [],
    env: {},
    out: (text) => void (said.out += text),
    err: (text) => void (said.err += text),
    onSignal: () => () => {},
    onUncaught() {},
    exit() {},
    ...over,
  };
  return { code: await runReplay(args, process), ...said };
}

describe('warmlane replay', () => {
  it('leaves batch out unless told otherwise, and says how much that was', async () => {
    const both = lines.map((line, index) =>
      index % 3 === 0 ? line : JSON.stringify({ ...(JSON.parse(line) as object), lane: 'batch' }),
    );
    const path = file('lanes.jsonl', both.join('\n'));
    const few = ['--policy', 'round-robin', '--backends', '1'];
    const online = await run([path, ...few]);
    expect(online.out).toContain('  10 requests in ');
    expect(online.out).toContain('20 requests of lane batch left out; --lane all plays them too');
    const requestsOf = async (lane: string) => {
      const { out } = await run([path, ...few, '--json', '--lane', lane]);
      const { trace } = JSON.parse(out) as { trace: { requests: number; leftOut: number; lane: string } };
      return [trace.lane, trace.requests, trace.leftOut];
    };
    expect(await requestsOf('all')).toEqual(['all', 30, 0]);
    expect(await requestsOf('batch')).toEqual(['batch', 20, 10]);
    const only = file('only-batch.jsonl', both[1] ?? '');
    const alone = await run([only]);
    expect(alone.code).toBe(1);
    expect(alone.err).toContain('1 request of lane batch; --lane all or --lane batch plays them');
    expect((await run([path, '--lane', 'both'])).code).toBe(2);
    expect((await run(['--generate', 'conversation', '--lane', 'all'])).code).toBe(2);
  });

  it('warns where prompts are too short for the blocks of the trace, and only there', async () => {
    const short = lines.map((line) => JSON.stringify({ ...(JSON.parse(line) as object), input_length: 76 }));
    const few = ['--policy', 'round-robin', '--backends', '1'];
    const { out } = await run([file('short.jsonl', short.join('\n')), ...few]);
    expect(out.replaceAll(/\s+/g, ' ')).toContain('Warning: prompts of 76 tokens on average are short beside');
    const json = (await run([file('short.jsonl', short.join('\n')), ...few, '--json'])).out;
    expect((JSON.parse(json) as { trace: { warnings: string[] } }).trace.warnings).toHaveLength(1);
    expect((await run([file('long.jsonl', lines.join('\n')), ...few])).out).not.toContain('Warning');
  });

  it('prints a table of policies for each fleet, and the fleets side by side', async () => {
    const { code, out, err } = await run([
      file('a.jsonl', lines.join('\n')),
      '--backends',
      '1,2',
      '--policy',
      'warm,round-robin',
    ]);
    expect(err).toBe('');
    expect(code).toBe(0);
    expect(out).toContain('Replay of a.jsonl');
    expect(out).toContain('30 requests in 20 s');
    expect(out).toMatch(/\n2 backends, 307k tokens of KV each, load × 1, about 1\.48 requests\/s\n/);
    expect(out).toMatch(/\n {2}warm +100 % +\d/);
    expect(out).toMatch(/\n {2}round-robin +100 % +\d/);
    expect(out).toContain('Good answers, side by side');
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(130);
  });

  it('says what was changed of the engine, and how much of its KV is in slots and how much in RAM', async () => {
    const path = file('e.jsonl', lines.slice(0, 3).join('\n'));
    const { out } = await run([
      ...[path, '--policy', 'warm', '--engine', 'llama-laptop', '--backends', '1,2'],
      ...['--kv-tokens', '32768', '--max-sequences', '4', '--step-tokens', '512'],
    ]);
    expect(out).toContain('\n  Changed: 4 requests at once, 512 prompt tokens a step.\n');
    expect(out).toContain('\n1 backend, tokens of KV each: 32.8k in slots, 32.8k in RAM, load × 1');
    expect(out).toContain('32.8k + 32.8k');
    const unchanged = await run([path, '--policy', 'warm']);
    expect(unchanged.out).not.toContain('Changed:');
    expect(unchanged.out).not.toContain('in RAM');
  });

  it('prints the same as JSON', async () => {
    const path = file('b.jsonl', lines.join('\n'));
    const { out } = await run([path, '--policy', 'warm', '--json', '--seed', '5', '--capacity', '--limit', '10']);
    expect(JSON.parse(out)).toMatchObject({
      shape: 1,
      trace: { name: 'b.jsonl', format: 'mooncake', requests: 10 },
      seed: 5,
      settings: [
        {
          backends: 4,
          kvTokens: 307_200,
          scale: 1,
          policies: [{ policy: 'warm', requests: 10, unserved: 0, goodShare: 1 }],
        },
      ],
    });
    expect(out).toMatch(/"endlessHitShare":[\d.]+,"pooledHitShare":[\d.]+/);
    expect(out).toMatch(/"capacityScale":("unbounded"|[\d.]+)/);
  });

  it('reads gzip and stdin', async () => {
    const packed = file('c.jsonl.gz', gzipSync(lines.join('\n')));
    expect((await run([packed, '--policy', 'warm'])).code).toBe(0);
    async function* stdin() {
      yield Buffer.from(lines.join('\n'));
    }
    const piped = await run(['-', '--policy', 'warm'], { input: () => stdin() });
    expect(piped.out).toContain('Replay of stdin');
  });

  it('names bad lines, and plays the rest', async () => {
    const { code, err, out } = await run([file('d.jsonl', `${lines[0]}\nnonsense\n${lines[1]}`), '--policy', 'warm']);
    expect(code).toBe(0);
    expect(err).toBe('warmlane replay: line 2 is no JSON object\n');
    expect(out).toContain('1 line could not be read');
  });

  it('fails when there is nothing to play, and says why', async () => {
    const empty = await run([file('e.jsonl', '')]);
    expect(empty).toMatchObject({ code: 1, out: '' });
    expect(empty.err).toContain('no request to play in e.jsonl');
    const absent = await run([join(folder, 'absent')]);
    expect(absent).toMatchObject({ code: 1, out: '' });
    expect(absent.err).toContain('there is no such file');
    const log = await run([file('f.log', '{"time":"t","level":"info","msg":"request"}')]);
    expect(log.err).toContain('telemetry.promptTrace');
  });

  it('says what is wrong with its arguments, and shows its help', async () => {
    const wrong = await run(['--backends', 'many']);
    expect(wrong.code).toBe(2);
    expect(wrong.err).toContain('Try warmlane replay --help.');
    const help = await run(['--help']);
    expect(help.code).toBe(0);
    expect(help.out).toContain('Usage: warmlane replay');
  });

  it('tells a terminal of each policy as it is played', async () => {
    const { err } = await run(['--generate', 'smooth', '--requests', '20', '--policy', 'warm'], { terminal: true });
    expect(err).toMatch(/^4 backends, 307200 KV, load × 1: warm, [\d.]+ % good\n$/);
  });
});
