/**
 * One request through a whole warmlane to a scripted backend, and all that can be known of it afterwards: what the client
 * got, what the backend saw and when it wrote, what was recorded. And the ways in which one body can come over a socket.
 */
import type { Engine } from '../../src/domain/names.ts';
import type { RecordMark, RequestRecord } from '../../src/domain/record.ts';
import { fin, send, trickle, type ScriptStep } from '../../src/sim/fault-steps.ts';
import type { ScriptedConnection, ScriptedServer, ScriptedServerSettings } from '../../src/sim/faults.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { chunk, lastChunk, responseHead, sseHead } from '../../src/sim/sse-script.ts';
import type { ConfigChange, Proxy } from './proxy.ts';
import { R0, type RawAnswer, type RawClient } from './raw-http.ts';
import { type Stage, usersOf } from './stage.ts';

export interface PassOptions {
  /** Bytes of the request; R0 unless given. */
  readonly request?: string | Uint8Array;
  /** What the config says the backend is; unless given, the scripted backend is found to be an OpenAI-compatible one. */
  readonly engine?: Engine;
  readonly change?: ConfigChange;
  readonly timeoutMs?: number;
}

export interface Passed {
  readonly answer: RawAnswer;
  readonly record: RequestRecord;
  readonly client: RawClient;
  readonly proxy: Proxy;
  readonly backend: ScriptedServer;
  /** The request as the backend got it. */
  readonly asked: RawRequest;
  readonly connection: ScriptedConnection;
  /** Monotonic moments at which the backend wrote, on the clock of the record. */
  readonly writesMs: readonly number[];
}

export async function pass(
  stage: Stage,
  onRequest: NonNullable<ScriptedServerSettings['onRequest']>,
  options: PassOptions = {},
): Promise<Passed> {
  const backend = await scripted(stage, onRequest, options.engine);
  const proxy = await stage.proxy(backend, { change: backendsAre([backend], options.engine, options.change) });
  return again(stage, { proxy, backend }, options);
}

/** The next request through a proxy that is already there. */
export async function again(
  stage: Stage,
  { proxy, backend }: Pick<Passed, 'proxy' | 'backend'>,
  options: Pick<PassOptions, 'request' | 'timeoutMs'> = {},
): Promise<Passed> {
  const before = (await proxy.records(0)).length;
  const client = await stage.client(proxy);
  client.send(options.request ?? R0);
  const answer = await client.answer(options.timeoutMs);
  const record = (await proxy.records(before + 1))[before];
  const asked = usersOf(backend).at(-1);
  if (record === undefined || asked === undefined) throw new Error('the request left no trace');
  const connection = backend.connectionOf(asked);
  const writesMs = connection.events.filter(({ kind }) => kind === 'wrote').map(({ atMs }) => atMs);
  return { answer, record, client, proxy, backend, asked, connection, writesMs };
}

export function scripted(
  stage: Stage,
  onRequest: NonNullable<ScriptedServerSettings['onRequest']>,
  engine: Engine = 'openai',
): Promise<ScriptedServer> {
  const known = engine === 'vllm' || engine === 'llama-server' ? engine : 'openai';
  return stage.backend({ onRequest, probes: { engine: known } });
}

/** The configuration change that tells the engine of the backends. */
export function backendsAre(
  backends: readonly ScriptedServer[],
  engine: Engine | undefined,
  change: ConfigChange = {},
): ConfigChange {
  if (engine === undefined) return change;
  return {
    ...change,
    fleet: { ...change.fleet, backends: backends.map(({ url, port }) => ({ url, name: `b${port}`, engine })) },
  };
}

/** How one body of an event stream can come: each a script whose client must get the same bytes. */
export type Way = 'whole' | 'byte by byte' | 'a chunk for each byte' | 'until the close';
export const ways: readonly Way[] = ['whole', 'byte by byte', 'a chunk for each byte', 'until the close'];

export function played(body: string | Uint8Array, way: Way): ScriptStep[] {
  const bytes = Buffer.from(body as Uint8Array);
  switch (way) {
    case 'whole':
      return [Buffer.concat([Buffer.from(sseHead()), chunk(bytes), Buffer.from(lastChunk)])];
    case 'byte by byte':
      return [trickle(Buffer.concat([Buffer.from(sseHead()), chunk(bytes), Buffer.from(lastChunk)]))];
    case 'a chunk for each byte': {
      const chunks = Buffer.concat([...bytes].map((byte) => chunk(Buffer.from([byte]))));
      return [send(sseHead()), trickle(chunks, chunk('x').length), send(lastChunk)];
    }
    case 'until the close':
      return [
        send(responseHead(200, { 'Content-Type': 'text/event-stream', Connection: 'close' })),
        trickle(bytes, 7),
        fin(),
      ];
  }
}

/** A stream of events, each a chunk and a write of its own, with a pause before each. */
export function paced(everyMs: number, ...events: readonly string[]): ScriptStep[] {
  return [send(sseHead()), ...events.flatMap((event) => [everyMs, send(chunk(event))]), send(lastChunk)];
}

/** A record's marks, less those that the way of the bytes or the machine made. */
export function marksOf(record: RequestRecord): readonly RecordMark[] {
  return record.marks.filter((mark) => mark !== 'coalesced' && mark !== 'loop_lag');
}

/** What every record of the same answer must say alike, however its bytes came. */
export function factsOf(record: RequestRecord) {
  const { outcome, status, events, tokens, finishReasons, responseModel, streamed } = record;
  return { outcome, status, events, tokens, finishReasons, responseModel, streamed, marks: marksOf(record) };
}

/** Gaps between consecutive moments. */
export function gapsOf(moments: ArrayLike<number>): number[] {
  return Array.from(moments)
    .slice(1)
    .map((atMs, i) => atMs - (moments[i] ?? Number.NaN));
}
