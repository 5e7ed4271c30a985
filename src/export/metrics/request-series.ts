/**
 * The series that belong to one label set, at hand: each is looked up in the meter when a record first has the figure.
 * Figures come in milliseconds and are booked in seconds; what a record doesn't have is not booked.
 */
import type { CounterName, HistogramName } from '../../domain/catalogue.ts';
import { generatingEndpoints } from '../../domain/names.ts';
import { type Figures, isWarmUp, type RequestRecord } from '../../domain/record.ts';
import type { Sketch } from '../../platform/sketch.ts';
import type { Counter, Meter } from './meter.ts';
import type { LabelValues } from './series.ts';

type Slot<Kept> = { kept: Kept | undefined };

export class RequestSeries {
  readonly #meter: Meter;
  readonly #labels: LabelValues;
  readonly #requests: Counter;
  readonly #ttft = slot<Sketch>();
  readonly #ttfa = slot<Sketch>();
  readonly #itl = slot<Sketch>();
  readonly #tpot = slot<Sketch>();
  readonly #duration = slot<Sketch>();
  readonly #lastToken = slot<Sketch>();
  readonly #queue = slot<Sketch>();
  readonly #engineQueue = slot<Sketch>();
  readonly #connect = slot<Sketch>();
  readonly #overhead = slot<Sketch>();
  readonly #splitPrefill = slot<Sketch>();
  readonly #jointPrefill = slot<Sketch>();
  readonly #prompt = slot<Counter>();
  readonly #output = slot<Counter>();
  readonly #reasoning = slot<Counter>();
  readonly #cached = slot<Counter>();
  readonly #cacheable = slot<Counter>();
  readonly #estimated = slot<Counter>();
  readonly #promptSize = slot<Sketch>();
  readonly #outputSize = slot<Sketch>();
  readonly #attempts = slot<Counter>();
  readonly #retries = slot<Counter>();
  readonly #received = slot<Counter>();
  readonly #sent = slot<Counter>();

  constructor(meter: Meter, words: readonly string[]) {
    const [model, backend, endpoint, outcome, warmth, lane, stream, engine] = words;
    this.#meter = meter;
    this.#labels = { model, backend, endpoint, outcome, warmth, lane, stream, engine };
    this.#requests = meter.counter('warmlane.requests', this.#labels);
  }

  add(record: RequestRecord): void {
    const { figures } = record;
    this.#requests.value += 1;
    this.#time(this.#ttft, 'gen_ai.server.time_to_first_token', figures.ttftMs);
    this.#time(this.#ttfa, 'warmlane.time_to_first_answer', figures.ttfaMs);
    this.#time(this.#tpot, 'gen_ai.server.time_per_output_token', figures.tpotMs);
    this.#time(this.#queue, 'warmlane.queue.duration', figures.queueMs);
    this.#time(this.#engineQueue, 'warmlane.engine_queue.duration', figures.engineQueueMs);
    this.#time(this.#connect, 'warmlane.connect.duration', figures.connectMs);
    this.#time(this.#overhead, 'warmlane.overhead.duration', figures.overheadMs);
    if (record.method === 'POST' && modelled.has(record.endpoint)) {
      this.#time(this.#duration, 'gen_ai.server.request.duration', figures.durationMs);
      this.#time(this.#lastToken, 'warmlane.time_to_last_token', figures.e2eMs);
    }
    if (record.itl !== undefined) this.#sketch(this.#itl, 'warmlane.inter_token_latency').join(record.itl);
    this.#addPrefill(figures);
    this.#addTokens(record);
    this.#addAttempts(record);
    // Bytes that no client sent or got.
    if (isWarmUp(record)) return;
    this.#count(this.#received, 'warmlane.io', record.requestBytes, 'receive');
    this.#count(this.#sent, 'warmlane.io', record.responseBytes, 'transmit');
  }

  /** The failed ones under what ended each; the last one, unless it is among them, under the request's own end. */
  #addAttempts({ attempts, failedAttempts = [], outcome, reason }: RequestRecord): void {
    for (const [index, failed] of failedAttempts.entries()) {
      this.#meter.count('warmlane.attempts', failed);
      if (index > 0) this.#meter.count('warmlane.retries', { backend: failed.backend, outcome: failed.outcome });
    }
    const others = attempts - failedAttempts.length;
    if (outcome === 'ok' || reason === undefined) this.#count(this.#attempts, 'warmlane.attempts', others);
    else if (others > 0) this.#meter.count('warmlane.attempts', { ...this.#labels, reason }, others);
    this.#count(this.#retries, 'warmlane.retries', failedAttempts.length === 0 ? attempts - 1 : others);
  }

  #addPrefill({ prefillMs, prefillKind }: Figures): void {
    if (prefillMs === undefined || prefillKind === undefined) return;
    const kept = prefillKind === 'split' ? this.#splitPrefill : this.#jointPrefill;
    kept.kept ??= this.#meter.histogram('warmlane.prefill.duration', { ...this.#labels, prefill: prefillKind });
    kept.kept.add(prefillMs / 1000);
  }

  #addTokens({ tokens }: RequestRecord): void {
    const { prompt, output, reasoning, cached } = tokens;
    this.#count(this.#prompt, 'gen_ai.client.inference.usage.input_tokens', prompt?.value);
    this.#count(this.#output, 'gen_ai.client.inference.usage.output_tokens', output?.value);
    this.#count(this.#reasoning, 'gen_ai.client.inference.usage.reasoning.output_tokens', reasoning?.value);
    // Both or neither: their ratio is the hit rate.
    if (cached !== undefined && prompt !== undefined) {
      this.#count(this.#cached, 'gen_ai.client.inference.usage.cache_read.input_tokens', cached.value);
      this.#count(this.#cacheable, 'warmlane.tokens.cacheable', prompt.value);
    }
    if (output?.source === 'events_estimate') this.#count(this.#estimated, 'warmlane.tokens.estimated', output.value);
    if (prompt !== undefined)
      this.#sketch(this.#promptSize, 'gen_ai.client.inference.operation.input_tokens').add(prompt.value);
    if (output !== undefined)
      this.#sketch(this.#outputSize, 'gen_ai.client.inference.operation.output_tokens').add(output.value);
  }

  #time(kept: Slot<Sketch>, name: HistogramName, valueMs: number | undefined): void {
    if (valueMs !== undefined) this.#sketch(kept, name).add(valueMs / 1000);
  }

  #sketch(kept: Slot<Sketch>, name: HistogramName): Sketch {
    return (kept.kept ??= this.#meter.histogram(name, this.#labels));
  }

  #count(kept: Slot<Counter>, name: CounterName, n: number | undefined, direction?: string): void {
    // A zero that was reported is shown as one: absent would mean that nobody told.
    if (n === undefined || !(n >= 0)) return;
    kept.kept ??= this.#meter.counter(name, direction === undefined ? this.#labels : { ...this.#labels, direction });
    kept.kept.value += n;
  }
}

/** Routes whose answers come out of a model. */
const modelled: ReadonlySet<string> = new Set([...generatingEndpoints, 'embeddings', 'rerank', 'audio']);

export class HttpSeries {
  readonly #duration: Sketch;

  constructor(meter: Meter, words: readonly string[]) {
    const [method, status, endpoint, outcome] = words;
    this.#duration = meter.histogram('http.server.request.duration', { method, status, endpoint, outcome });
  }

  add({ figures }: RequestRecord): void {
    this.#duration.add(figures.durationMs / 1000);
  }
}

function slot<Kept>(): Slot<Kept> {
  return { kept: undefined };
}
