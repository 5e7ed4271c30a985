/** Every recorded exchange, held against what the engine itself said and counted. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { itlSamplesMs } from '../../../src/measure/itl.ts';
import {
  counterMoved,
  engineCounts,
  listRecorded,
  loadRecorded,
  ranAlone,
  type Recorded,
} from '../../support/recorded.ts';
import { observeRecorded } from '../../support/observe.ts';

const all = listRecorded().map(({ server, name }) => loadRecorded(server, name));
const generating = all.filter((one) => ranAlone(one) && one.meta.end === 'complete');
const streams = all.filter((one) => one.headers.get('content-type')?.startsWith('text/event-stream'));

describe('counts are the engine’s own', () => {
  it('has something to look at', () => {
    expect(generating.length).toBeGreaterThan(35);
    expect(streams.length).toBeGreaterThan(40);
  });

  it.each(generating)('$server/$name', (recorded) => {
    const engine = engineCounts(recorded);
    const { tokens } = observeRecorded(recorded, 'as recorded');
    expect(tokens.output?.value).toBe(engine.output);
    // vLLM counts the prompt once for each choice; the record counts it once (C039).
    const prompts = recorded.name === 'chat-n2' && recorded.server === 'vllm' ? 2 : 1;
    if (tokens.prompt !== undefined) expect(tokens.prompt.value * prompts).toBe(engine.prompt);
    else expect(recorded.body.includes('"usage"')).toBe(false);
    if (tokens.cached !== undefined) expect(tokens.cached.value).toBe(engine.cached);
    // llama-server tells cache hits everywhere; vLLM without usage tells nothing at all.
    else expect(recorded.server === 'vllm' || recorded.name === 'embeddings').toBe(true);
  });

  it.each(streams)('$server/$name: the same record however the bytes are cut', (recorded) => {
    const asCame = observeRecorded(recorded, 'as recorded');
    expect(observeRecorded(recorded, 'byte by byte')).toEqual(asCame);
    const factsOf = ({ tokens, events, finishReasons, responseModel }: RequestRecord) => ({
      tokens,
      events,
      finishReasons,
      responseModel,
    });
    expect(factsOf(observeRecorded(recorded, 'whole'))).toEqual(factsOf(asCame));
    const length = recorded.body.length;
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer({ min: 1, max: length - 1 }), { maxLength: 12 }), (cuts) => {
        cuts.sort((a, b) => a - b);
        expect(factsOf(observeRecorded(recorded, { cuts }))).toEqual(factsOf(asCame));
      }),
      { numRuns: 15 },
    );
  });

  it.each(streams)('$server/$name: n token events of a choice give n − 1 gaps', (recorded) => {
    const { events, stamps, figures } = observeRecorded(recorded, 'as recorded');
    const choices = new Set(stamps?.choice ?? [0]).size;
    expect(itlSamplesMs(stamps)).toHaveLength(Math.max(0, events - choices));
    if (events > choices) expect(figures.maxItlMs).toBeCloseTo(Math.max(...itlSamplesMs(stamps)), 6);
  });
});

/** TPOT as the engine saw it, in ms, where it says so. */
function engineTpotMs(recorded: Recorded): number | undefined {
  if (recorded.server === 'vllm') {
    const seconds = counterMoved(recorded, 'vllm:request_time_per_output_token_seconds_sum');
    const requests = counterMoved(recorded, 'vllm:request_time_per_output_token_seconds_count') ?? 1;
    return seconds === undefined ? undefined : (seconds * 1000) / requests;
  }
  const told = [...recorded.body.toString('utf8').matchAll(/"predicted_per_token_ms":([\d.]+)/g)].at(-1)?.[1];
  return told === undefined ? undefined : Number(told);
}

describe('TPOT agrees with the engine’s own', () => {
  const timed = streams.filter((one) => generating.includes(one) && engineTpotMs(one) !== undefined);

  it.each(timed)('R22 $server/$name', (recorded) => {
    const { figures } = observeRecorded(recorded, 'as recorded');
    // On two busy cores a read comes some milliseconds after the engine’s stamp. vLLM held the first tokens of the
    // Responses stream back altogether, which the wire alone can’t say.
    const tolerance = recorded.name === 'responses-stream' ? 0.15 : 0.09;
    const engineMs = engineTpotMs(recorded) ?? 0;
    expect(figures.tpotMs).toBeGreaterThan(engineMs * (1 - tolerance));
    expect(figures.tpotMs).toBeLessThan(engineMs * (1 + tolerance));
  });

  it.each(streams)(
    '$server/$name: E2E = TTFT + TPOT × (n − 1) over the visible window wherever nothing is marked',
    (recorded) => {
      const { figures, tokens, marks, finishReasons } = observeRecorded(recorded, 'as recorded');
      if (figures.tpotWindow !== 'visible') return;
      if (marks.length > 0 || finishReasons.length !== 1 || figures.tpotMs === undefined) return;
      const { ttftMs = Number.NaN, tpotMs, e2eMs } = figures;
      expect(ttftMs + tpotMs * ((tokens.output?.value ?? 0) - 1)).toBeCloseTo(e2eMs ?? Number.NaN, 6);
    },
  );
});
