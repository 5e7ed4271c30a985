/** The prompt trace, end to end: what a running warmlane wrote of real requests is what `warmlane replay` plays. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTraceReader } from '../../src/sim/traces/read-trace.ts';
import { laptopVllmServer } from '../../src/sim/server-settings.ts';
import { instantVllm } from '../../src/sim/settings.ts';
import { chat, createFindingWorld, words, type FindingWorld } from '../support/finding-world.ts';
import { startProxy } from '../support/proxy.ts';

let world: FindingWorld;
let folder: string;
beforeEach(() => {
  world = createFindingWorld();
  folder = mkdtempSync(join(tmpdir(), 'prompt-trace-'));
});
afterEach(async () => {
  await world.close();
  rmSync(folder, { recursive: true });
});

describe('the prompt trace of a running warmlane', () => {
  it('holds no word of a prompt, shows which began alike, and is read as a trace', async () => {
    const file = join(folder, 'prompts.jsonl');
    const sim = await world.sim({ ...laptopVllmServer, engine: instantVllm });
    const proxy = await startProxy([sim.url], { promptTrace: { file, maxBytes: 1_000_000 } });
    const shared = words(1500, 'shared');
    for (const own of ['apple', 'pear'])
      await chat(proxy.url, { prompt: `${shared} ${words(700, own)}`, maxTokens: 3 });
    await chat(proxy.url, { prompt: words(2200, 'other'), maxTokens: 3 });
    await proxy.records(3);
    await proxy.app.stop();
    const text = readFileSync(file, 'utf8');
    for (const word of ['shared', 'apple', 'pear', 'other', 'user', 'model']) expect(text).not.toContain(word);
    const reader = createTraceReader({ name: 'own', seed: 1, maxRequests: 10 });
    for (const line of text.split('\n')) reader.line(line);
    const { trace, badLines } = reader.end();
    expect(badLines).toBe(0);
    expect(trace.requests.map(({ outputTokens }) => outputTokens)).toEqual([3, 3, 3]);
    const [one, two, three] = trace.requests.map(({ hashIds }) => hashIds);
    expect(one?.[0]).toBe(two?.[0]);
    expect(one?.at(-1)).not.toBe(two?.at(-1));
    expect(three?.[0]).not.toBe(one?.[0]);
  });
});
