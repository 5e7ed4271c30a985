/**
 * Every recorded exchange of the real servers, through a whole warmlane over real sockets: whole, one byte a write, and with
 * its own timing. The same bytes come out (decision 3's sense), and its tokens are counted as its engine counted them.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { ReplayPace } from '../../src/sim/replay.ts';
import { slackMs, watchLoop } from '../support/moments.ts';
import { observeRecorded } from '../support/observe.ts';
import {
  engineCounts,
  listRecorded,
  loadRecorded,
  ranAlone,
  type Recorded,
  type RecordedServer,
} from '../support/recorded.ts';
import { endsByItself, startReplaying, type Replayed, type Replaying } from '../support/replaying.ts';

const all = listRecorded().map(({ server, name }) => loadRecorded(server, name));
const of = (server: RecordedServer) => all.filter((recorded) => recorded.server === server);
const counted = (recorded: Recorded) => ranAlone(recorded) && recorded.meta.end === 'complete';
/** The only one that warmlane turns into something else, a true status (R03): here its head doesn't wait for that. */
const unheld = { relay: { headHoldMs: 0 } };

/** Fields that belong to one connection, or that a proxy may write anew. */
const ownFields = new Set(['connection', 'keep-alive', 'transfer-encoding', 'cache-control', 'date', 'x-request-id']);

function expectSame({ answer, record }: Replayed, recorded: Recorded, body = recorded.body): void {
  expect(answer.status).toBe(recorded.status);
  for (const [name, value] of recorded.headers)
    if (!ownFields.has(name)) expect([name, answer.headers[name]]).toEqual([name, value]);
  const streamed = recorded.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (streamed)
    expect(answer.headers).toMatchObject({
      'x-accel-buffering': 'no',
      'cache-control': expect.stringContaining('no-transform') as string,
    });
  if (recorded.meta.end !== 'closed by server') {
    expect(answer.body.equals(body)).toBe(true);
    expect(answer.complete).toBe(recorded.meta.end === 'complete');
  } else {
    expect(answer.body.subarray(0, body.length).equals(body)).toBe(true);
    expect(answer.body.toString('utf8', body.length)).toMatch(/^data: \{"error":\{[^\n]*\}\}\n\n$/);
    expect(answer.complete).toBe(false);
  }
  expect(record.streamed).toBe(streamed);
  expect(record.outcome).toBe(outcomeOf(recorded));
}

function outcomeOf(recorded: Recorded): RequestRecord['outcome'] {
  if (!endsByItself(recorded)) return 'client_abort';
  if (recorded.meta.end === 'closed by server') return 'upstream_truncated';
  if (recorded.status === 503 || recorded.status === 429) return 'rejected';
  if (recorded.status >= 500) return 'upstream_error';
  if (recorded.status >= 400) return 'client_error';
  return /^(engine-died|error-in-stream|error-busy-in-stream)/.test(recorded.name) ? 'upstream_error' : 'ok';
}

function expectCounts({ tokens }: RequestRecord, recorded: Recorded): void {
  const engine = engineCounts(recorded);
  expect(tokens.output?.value).toBe(engine.output);
  // vLLM counts the prompt once for each choice; the record counts it once (C039).
  const prompts = recorded.name === 'chat-n2' && recorded.server === 'vllm' ? 2 : 1;
  if (tokens.prompt !== undefined) expect(tokens.prompt.value * prompts).toBe(engine.prompt);
  else expect(recorded.body.includes('"usage"')).toBe(false);
  if (tokens.cached !== undefined) expect(tokens.cached.value).toBe(engine.cached);
  else expect(recorded.server === 'vllm' || recorded.name === 'embeddings').toBe(true);
}

/** The record that the bytes alone make, without sockets; absent where the request is no JSON to make it from. */
function observedAlone(recorded: Recorded): RequestRecord | undefined {
  return recorded.name.endsWith('error-bad-json') ? undefined : observeRecorded(recorded, 'as recorded');
}

it('has something to play', () => {
  expect(all.length).toBeGreaterThan(65);
  expect(all.filter(counted).length).toBeGreaterThan(35);
});

describe.each(['llama-server', 'vllm'] as const)('what %s sent', (server) => {
  let replaying: Replaying;
  beforeAll(async () => {
    replaying = await startReplaying(server, unheld);
  });
  afterAll(() => replaying.close());

  it.each(of(server))('passes whole in one write: $name', async (recorded) => {
    const replayed = await replaying.play(recorded, { kind: 'whole' });
    expectSame(replayed, recorded);
    if (counted(recorded)) expectCounts(replayed.record, recorded);
  });

  it.each(of(server))(
    'passes one byte a write: $name',
    async (recorded) => {
      const replayed = await replaying.play(recorded, { kind: 'cut' });
      expectSame(replayed, recorded);
      if (counted(recorded)) expectCounts(replayed.record, recorded);
      expect(replayed.record.events).toBe(observedAlone(recorded)?.events ?? 0);
    },
    60_000,
  );
});

describe.each(['llama-server', 'vllm'] as const)('what %s sent', (server) => {
  let replaying: Replaying;
  beforeAll(async () => {
    replaying = await startReplaying(server, { ...unheld, upstreamClient: 'undici' });
  });
  afterAll(() => replaying.close());

  it.each(of(server))('passes by way of undici, too: $name', async (recorded) => {
    const replayed = await replaying.play(recorded, { kind: 'reads' });
    expectSame(replayed, recorded);
    if (counted(recorded)) expectCounts(replayed.record, recorded);
  });
});

/** All at the same time, each at its own pace; a long one is played faster, so that none takes longer than this. */
const longestMs = 4000;
/** What warmlane may come after the backend's write, besides the loop's own lag: forty streams run at a time. */
const lateMs = 75;

describe.each(['llama-server', 'vllm'] as const)('what %s sent', (server) => {
  let replaying: Replaying;
  const played = new Map<string, Promise<Replayed>>();
  beforeAll(async () => {
    replaying = await startReplaying(server, unheld);
    watchLoop();
    for (const recorded of of(server)) {
      const result = replaying.play(recorded, paceOf(recorded));
      result.catch(() => {});
      played.set(recorded.name, result);
    }
  });
  afterAll(() => replaying.close());

  it.each(of(server))(
    'passes with its own timing: $name',
    async (recorded) => {
      const replayed = await played.get(recorded.name);
      if (replayed === undefined) throw new Error('not played');
      expectSame(replayed, recorded);
      if (counted(recorded)) expectCounts(replayed.record, recorded);
      const { timeline, events } = replayed.record;
      const alone = observedAlone(recorded);
      expect(events).toBe(alone?.events ?? 0);
      expectPace(replayed, recorded);
      for (const moment of ['firstToken', 'lastToken', 'finish'] as const) {
        if (alone?.timeline[moment] === undefined) continue;
        const writtenMs = replayed.writesMs[readOf(recorded, alone, moment)] ?? Number.NaN;
        expect(timeline[moment]).toBeGreaterThanOrEqual(writtenMs);
        expect(timeline[moment]).toBeLessThan(writtenMs + lateMs + slackMs());
      }
    },
    30_000,
  );
});

/** The backend itself kept the recorded pace: its writes took no less than the recorded reads. */
function expectPace({ writesMs }: Replayed, recorded: Recorded): void {
  expect(writesMs).toHaveLength(recorded.reads.length);
  const spanMs = (recorded.endMicros - (recorded.reads[0]?.atMicros ?? 0)) / 1000 / paceOf(recorded).speed;
  expect((writesMs.at(-1) ?? Number.NaN) - (writesMs[0] ?? Number.NaN)).toBeGreaterThan(spanMs - lateMs - slackMs());
}

/** Number of the recorded read that brought this moment. */
function readOf(recorded: Recorded, alone: RequestRecord, moment: 'firstToken' | 'lastToken' | 'finish'): number {
  const { [moment]: atMs = Number.NaN, receivedLast = Number.NaN } = alone.timeline;
  const micros = (atMs - receivedLast) * 1000;
  return recorded.reads.findIndex((read) => Math.abs(read.atMicros - micros) < 1);
}

function paceOf(recorded: Recorded): ReplayPace & { readonly speed: number } {
  return { kind: 'recorded', speed: Math.max(1, recorded.endMicros / 1000 / longestMs) };
}

describe('decision 3: the same requests without usage asked for', () => {
  const member = ',"stream_options":{"include_usage":true}';
  const usageEvent = /data: \{"id":[^\n]*"choices":\[\],[^\n]*"usage":\{[^\n]*\n\n/g;
  const asking = of('vllm').filter(
    (recorded) =>
      recorded.request.body.includes(member) &&
      recorded.meta.end === 'complete' &&
      recorded.status === 200 &&
      usageEvent.test(recorded.body.toString()),
  );
  let replaying: Replaying;
  beforeAll(async () => {
    replaying = await startReplaying('vllm');
  });
  afterAll(() => replaying.close());

  it('are many', () => {
    expect(asking.length).toBeGreaterThan(10);
  });

  it.each(asking)(
    'decision 3: are asked with it, and give all bytes but the usage event: $name',
    async (recorded) => {
      const body = recorded.request.body.toString();
      const without = body.replace(member, '');
      const expected = Buffer.from(recorded.body.toString().replaceAll(usageEvent, ''));
      expect(expected.length).toBeLessThan(recorded.body.length);
      for (const pace of [{ kind: 'whole' }, { kind: 'reads' }, { kind: 'cut' }] as const) {
        const replayed = await replaying.play(recorded, pace, without);
        expect(replayed.asked.text()).toBe(without.replace('{', `{${member.slice(1)},`));
        expectSame(replayed, recorded, expected);
        if (counted(recorded)) expectCounts(replayed.record, recorded);
        expect(replayed.record.tokens.output?.source).toMatch(/usage|events_ids/);
      }
    },
    60_000,
  );
});
