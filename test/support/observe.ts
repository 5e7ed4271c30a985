/**
 * Drives scanner and observer in memory, as the relay does: a scripted answer with a moment for each read, or a recorded
 * one with its own moments, cut as the test wants.
 */
import type { EndpointKind, Engine, Outcome, StreamFormat } from '../../src/domain/names.ts';
import type { Job } from '../../src/domain/job.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { createObserver, type Observer, type ObserverStart } from '../../src/measure/observer.ts';
import type { MeasureSettings } from '../../src/measure/settings.ts';
import { createLineScanner } from '../../src/relay/line-scanner.ts';
import { createSseScanner } from '../../src/relay/sse-scanner.ts';
import type { Recorded } from './recorded.ts';

export const measureSettings: MeasureSettings = {
  maxStamps: 100_000,
  maxEventBytes: 1_048_576,
  maxAnswerValueBytes: 262_144,
  prefixHitShare: 0.5,
};

export interface Scene {
  readonly format?: StreamFormat;
  readonly engine?: Engine;
  readonly choices?: number;
  readonly maxOutputTokens?: number;
  readonly settings?: Partial<MeasureSettings>;
  readonly outcome?: Outcome;
  /** Moments of sent and head, in ms after the start. */
  readonly sentMs?: number;
  readonly headMs?: number;
  readonly lag?: ObserverStart['lag'];
  readonly prefills?: ObserverStart['prefills'];
  readonly requestId?: string;
  /** Moment of the request's last byte. */
  readonly startMs?: number;
}

/** Bytes that came in one read, in as many pieces as given, at a moment in ms after the request's last byte. */
export type Read = readonly [atMs: number, ...pieces: (string | Buffer)[]];

const endpoints: Readonly<Record<StreamFormat, EndpointKind>> = {
  chat: 'chat',
  completions: 'completions',
  responses: 'responses',
  messages: 'messages',
  llama_native: 'native_completion',
  ollama_chat: 'ollama_chat',
  ollama_generate: 'ollama_generate',
  unknown: 'other',
};

export function jobOf(scene: Scene): Job {
  const format = scene.format ?? 'chat';
  return {
    requestId: scene.requestId ?? 'req-1',
    endpoint: endpoints[format],
    method: 'POST',
    target: '/v1/chat/completions?x=1',
    format,
    generates: true,
    model: 'm',
    stream: true,
    choices: scene.choices ?? 1,
    ...(scene.maxOutputTokens === undefined ? {} : { maxOutputTokens: scene.maxOutputTokens }),
    bodyBytes: 100,
    readable: true,
    lane: 'online',
    usage: { byClient: false },
    measured: true,
  };
}

/** An observer whose request was received at `startMs` and sent to a backend. */
export function startObserver(scene: Scene): { observer: Observer; startMs: number } {
  const startMs = scene.startMs ?? 1000;
  const job = jobOf(scene);
  const observer = createObserver(
    { ...measureSettings, ...scene.settings },
    {
      head: { requestId: job.requestId, method: job.method, target: job.target, receivedMs: startMs - 0.5 },
      wallMs: 1_800_000_000_000,
      ...(scene.lag === undefined ? {} : { lag: scene.lag }),
      ...(scene.prefills === undefined ? {} : { prefills: scene.prefills }),
    },
  );
  observer.mark('receivedLast', startMs);
  observer.classified(job);
  observer.attempt({ backend: 'b1', engine: scene.engine ?? 'openai', atMs: startMs });
  observer.mark('sent', startMs + (scene.sentMs ?? 0));
  if (scene.headMs !== undefined) observer.mark('head', startMs + scene.headMs);
  return { observer, startMs };
}

/** Plays reads through the right scanner into the observer; whole flags per event are returned. */
export function playReads(observer: Observer, scene: Scene, startMs: number, reads: readonly Read[]): number[] {
  const flags: number[] = [];
  const format = scene.format ?? 'chat';
  const create = format.startsWith('ollama') ? createLineScanner : createSseScanner;
  const scanner = create(
    { maxEventBytes: scene.settings?.maxEventBytes ?? measureSettings.maxEventBytes },
    (data, start, end, name) => flags.push(observer.event(data, start, end, name)),
    () => observer.gaveUp('event_too_large'),
  );
  let lastMs = startMs;
  for (const [atMs, ...pieces] of reads) {
    lastMs = startMs + atMs;
    observer.mark('firstByte', lastMs);
    observer.beginRead(lastMs);
    for (const piece of pieces) {
      const buffer = Buffer.from(piece);
      observer.responseBytes(buffer.length);
      scanner.push(buffer, 0, buffer.length);
    }
    observer.endRead();
  }
  observer.beginRead(lastMs);
  scanner.end();
  observer.endRead();
  return flags;
}

export function observe(scene: Scene, reads: readonly Read[]): RequestRecord {
  const { observer, startMs } = startObserver(scene);
  playReads(observer, scene, startMs, reads);
  const endMs = startMs + (reads.at(-1)?.[0] ?? 0);
  observer.mark('end', endMs);
  return observer.finish({ outcome: scene.outcome ?? 'ok', spokenBy: 'backend', status: 200, atMs: endMs });
}

/** An answer that isn't streamed, in one piece at `atMs`. */
export function observeAnswer(scene: Scene, atMs: number, body: string | Buffer): RequestRecord {
  const { observer, startMs } = startObserver(scene);
  observer.mark('firstByte', startMs + atMs);
  observer.answer(Buffer.from(body));
  observer.mark('end', startMs + atMs);
  return observer.finish({ outcome: scene.outcome ?? 'ok', spokenBy: 'backend', status: 200, atMs: startMs + atMs });
}

/** How a recorded body is handed over: as it came, all at once, byte by byte, or cut at random places. */
export type Cutting = 'as recorded' | 'whole' | 'byte by byte' | { readonly cuts: readonly number[] };

const formats: readonly (readonly [string, StreamFormat])[] = [
  ['/v1/chat/completions', 'chat'],
  ['/v1/completions', 'completions'],
  ['/v1/responses', 'responses'],
  ['/v1/messages', 'messages'],
  ['/completion', 'llama_native'],
  ['/infill', 'llama_native'],
];

export function sceneOf(recorded: Recorded): Scene {
  const { body } = recorded.request;
  const json: unknown = body.length === 0 ? {} : JSON.parse(body.toString('utf8'));
  const asked = json as { n?: number; max_output_tokens?: number }; // our own recording
  return {
    format: formats.find(([path]) => path === recorded.request.path)?.[1] ?? 'unknown',
    engine: recorded.server,
    headMs: recorded.headMicros / 1000,
    ...(asked.n === undefined ? {} : { choices: asked.n }),
    ...(asked.max_output_tokens === undefined ? {} : { maxOutputTokens: asked.max_output_tokens }),
  };
}

export function readsOf(recorded: Recorded, cutting: Cutting): Read[] {
  const asCame = recorded.reads.flatMap(({ atMicros, segments }) =>
    segments.length === 0 ? [] : [[atMicros / 1000, Buffer.concat(segments)] as const],
  );
  if (cutting === 'as recorded') return asCame;
  const endMs = recorded.endMicros / 1000;
  if (cutting === 'whole') return [[endMs, recorded.body]];
  if (cutting === 'byte by byte') {
    return asCame.map(([atMs, bytes]) => [atMs, ...[...bytes].map((byte) => Buffer.from([byte]))]);
  }
  const cuts = [...cutting.cuts, recorded.body.length];
  return cuts.map((end, i) => [endMs, recorded.body.subarray(cuts[i - 1] ?? 0, end)] as const);
}

export function observeRecorded(recorded: Recorded, cutting: Cutting, extra: Scene = {}): RequestRecord {
  const scene = { ...sceneOf(recorded), ...extra };
  const streamed = recorded.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (streamed) return observe(scene, readsOf(recorded, cutting));
  return observeAnswer(scene, recorded.endMicros / 1000, recorded.body);
}
