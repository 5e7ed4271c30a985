/**
 * Copies an answer while it passes to its client: a client port around the client's own, given to the relay of a request
 * whose answer may be kept. Changes nothing but one header of the head. Bounded; past the bound it forgets and only passes on.
 * Without a cache no request has one, and the relay writes to its client directly.
 */
import type { RequestRecord } from '../domain/record.ts';
import type { ByteBudget } from '../platform/byte-budget.ts';
import type { ClientFraming, ClientPort, ClientRefused } from '../platform/client-port.ts';
import { plainChunks } from './plain-chunks.ts';
import { keptHeaders, type StoredAnswer } from './stored-answer.ts';

export interface Recording {
  /** What the relay writes to. */
  readonly client: ClientPort;
  /** The answer's end can't be told from a break (it ends with its connection): it is not kept. Idempotent. */
  drop(): void;
  /** The request is over: keeps the answer if it came whole and well. */
  settle(record: RequestRecord): void;
}

export interface RecordingSettings {
  readonly maxAnswerBytes: number;
  /** All answers that are being recorded. */
  readonly budget: ByteBudget;
  /** Name and value that the client gets beside the answer's headers. */
  readonly told: readonly [string, string];
  readonly nowMs: () => number;
  readonly keep: (answer: StoredAnswer) => void;
}

/** An answer that says so of itself was not read as it should be, or not to its end. */
const unfit: ReadonlySet<string> = new Set([
  'no_end_marker',
  'encoded_answer',
  'reading_failed',
  'malformed_event',
  'event_too_large',
]);

export function recordAnswer(client: ClientPort, settings: RecordingSettings): Recording {
  const port = new RecordingClient(client, settings);
  return {
    client: port,
    drop: () => port.drop(),
    settle(record) {
      const answer = isFit(record) ? port.whole() : undefined;
      port.drop();
      if (answer === undefined) return;
      const { prompt, output } = record.tokens;
      settings.keep({
        headers: answer.headers,
        body: answer.body,
        storedMs: settings.nowMs(),
        ...(prompt === undefined ? {} : { promptTokens: prompt.value }),
        ...(output === undefined ? {} : { outputTokens: output.value }),
      });
    },
  };
}

function isFit({ outcome, status, spokenBy, marks }: RequestRecord): boolean {
  return outcome === 'ok' && status === 200 && spokenBy === 'backend' && !marks.some((mark) => unfit.has(mark));
}

/** A backend that is a warmlane has said something of the kind itself. */
function withOwn(rawHeaders: readonly string[], [own, value]: readonly [string, string]): readonly string[] {
  const headers: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.toLowerCase() !== own) headers.push(name, rawHeaders[i + 1] ?? '');
  }
  headers.push(own, value);
  return headers;
}

class RecordingClient implements ClientPort {
  readonly #client: ClientPort;
  readonly #settings: RecordingSettings;
  #pieces: Buffer[] = [];
  #bytes = 0;
  #headers: readonly string[] | undefined;
  #announced: number | undefined;
  #state: 'open' | 'ended' | 'dropped' = 'open';

  constructor(client: ClientPort, settings: RecordingSettings) {
    this.#client = client;
    this.#settings = settings;
  }

  get takesChunks(): boolean {
    return this.#client.takesChunks;
  }

  get gone(): boolean {
    return this.#client.gone;
  }

  get refusedWith(): ClientRefused | undefined {
    return this.#client.refusedWith;
  }

  get bufferedBytes(): number {
    return this.#client.bufferedBytes;
  }

  onGone(listener: () => void): void {
    this.#client.onGone(listener);
  }

  onDrain(listener: () => void): void {
    this.#client.onDrain(listener);
  }

  head(status: number, reason: string, rawHeaders: readonly string[], framing: ClientFraming): void {
    const { told, maxAnswerBytes } = this.#settings;
    this.#headers = status === 200 && framing.kind !== 'none' ? keptHeaders(rawHeaders) : undefined;
    if (framing.kind === 'length') this.#announced = framing.bytes;
    if (this.#headers === undefined || (this.#announced ?? 0) > maxAnswerBytes) this.drop();
    this.#client.head(status, reason, withOwn(rawHeaders, told), framing);
  }

  cork(): void {
    this.#client.cork();
  }

  uncork(): void {
    this.#client.uncork();
  }

  writeChunks(wire: Buffer): boolean {
    if (this.#state === 'open') {
      const pieces = plainChunks(wire);
      if (pieces === undefined) this.drop();
      else for (const piece of pieces) this.#copy(piece);
    }
    return this.#client.writeChunks(wire);
  }

  write(payload: Buffer): boolean {
    if (this.#state === 'open') this.#copy(payload);
    return this.#client.write(payload);
  }

  end(): void {
    if (this.#state === 'open') this.#state = 'ended';
    this.#client.end();
  }

  cut(): void {
    this.drop();
    this.#client.cut();
  }

  drop(): void {
    this.#state = 'dropped';
    this.#settings.budget.give(this.#bytes);
    this.#bytes = 0;
    this.#pieces = [];
  }

  /** Undefined unless the client was given all of it. */
  whole(): { readonly headers: readonly string[]; readonly body: Buffer } | undefined {
    if (this.#state !== 'ended' || this.#headers === undefined || this.#client.gone) return undefined;
    if (this.#announced !== undefined && this.#announced !== this.#bytes) return undefined;
    return { headers: this.#headers, body: Buffer.concat(this.#pieces, this.#bytes) };
  }

  /** A copy: the read's memory is used again. */
  #copy(piece: Buffer): void {
    const { maxAnswerBytes, budget } = this.#settings;
    if (this.#bytes + piece.length > maxAnswerBytes || !budget.take(piece.length)) {
      this.drop();
      return;
    }
    this.#bytes += piece.length;
    this.#pieces.push(Buffer.from(piece));
  }
}
