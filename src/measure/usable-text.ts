/**
 * The text of one answer that must be JSON, or that may call tools, while it runs: by choice and by call, bounded, for one
 * question at its end, which is whether it parses. Nothing of the text leaves this object, and it is dropped with the answer.
 * Exists only where such checks are on and the request asked for such an answer.
 */
import type { UselessReason } from '../domain/assessment.ts';
import type { AnswerShape } from '../domain/job.ts';
import type { StreamFormat } from '../domain/names.ts';
import { isObject, type JsonObject } from './dialect/facts.ts';
import { type Piece, readAnswerPieces, readEventPieces } from './usable-pieces.ts';

/** One text that must parse: a choice's own, or a call's arguments. */
interface Part {
  readonly kind: 'text' | 'call';
  readonly choice: number;
  text: string;
}

export class UsableText {
  readonly #format: StreamFormat;
  readonly #shape: AnswerShape;
  readonly #maxBytes: number;
  readonly #parts = new Map<string, Part>();
  /** Choices that refused: these need not be JSON. */
  readonly #refused = new Set<number>();
  /** A whole answer's bytes until it is complete. */
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Too long, or not understood: nothing is said of it. */
  #lost = false;
  #streamed = false;

  constructor(format: StreamFormat, shape: AnswerShape, maxBytes: number) {
    this.#format = format;
    this.#shape = shape;
    this.#maxBytes = maxBytes;
  }

  /** One event of a stream; `[start, end)` is its data. */
  event(data: Buffer, start: number, end: number): void {
    if (this.#lost) return;
    this.#streamed = true;
    const text = data.toString('utf8', start, end);
    const whole = parseObject(text);
    if (whole !== undefined) this.#take(readEventPieces(this.#format, whole));
    else if (text.includes('\n')) {
      for (const line of text.split('\n')) this.#takeLine(line);
    } else this.#takeLine(text);
  }

  /** A piece of an answer that is not a stream. */
  answer(chunk: Buffer): void {
    if (this.#lost || !this.#fits(chunk.length)) return;
    this.#chunks.push(Buffer.from(chunk));
  }

  /** Something of the answer passed unread. */
  lose(): void {
    this.#lost = true;
    this.#drop();
  }

  /**
   * The answer came whole: what is wrong with it. All text is dropped.
   * @returns undefined when it can't be told
   */
  judge(): readonly UselessReason[] | undefined {
    if (!this.#streamed && !this.#lost) {
      const whole = parseObject(Buffer.concat(this.#chunks).toString('utf8'));
      if (whole === undefined) this.#lost = true;
      else {
        this.#bytes = 0;
        this.#take(readAnswerPieces(this.#format, whole));
      }
    }
    const reasons = this.#lost ? undefined : this.#reasons();
    this.lose();
    return reasons;
  }

  #reasons(): UselessReason[] {
    const reasons: UselessReason[] = [];
    const parts = [...this.#parts.values()];
    const calls = parts.filter(({ kind }) => kind === 'call');
    // A call without arguments may have none at all.
    if (this.#shape.tools === true && calls.some(({ text }) => text.trim() !== '' && !parses(text)))
      reasons.push('tool_arguments');
    if (this.#shape.json === true && this.#textsFail(parts, new Set(calls.map(({ choice }) => choice))))
      reasons.push('response_format');
    return reasons;
  }

  /** A choice that called a tool need not say anything besides; one that refused did not promise JSON. */
  #textsFail(parts: readonly Part[], calling: ReadonlySet<number>): boolean {
    const texts = parts.filter(({ kind }) => kind === 'text');
    if (texts.length === 0) return calling.size === 0 && this.#refused.size === 0;
    return texts.some(
      ({ choice, text }) => !this.#refused.has(choice) && !(text.trim() === '' && calling.has(choice)) && !parses(text),
    );
  }

  #takeLine(line: string): void {
    if (line.trim() === '' || line.trim() === '[DONE]') return;
    const json = parseObject(line);
    if (json === undefined) this.lose();
    else this.#take(readEventPieces(this.#format, json));
  }

  #take(pieces: readonly Piece[]): void {
    for (const piece of pieces) {
      if (piece.kind === 'refusal') {
        this.#refused.add(piece.choice);
        continue;
      }
      if (piece.kind === 'text' && this.#shape.json !== true) continue;
      if (!this.#fits(piece.text.length)) return;
      const id = `${piece.kind} ${piece.choice} ${piece.id}`;
      const part = this.#parts.get(id);
      if (part === undefined) this.#parts.set(id, { kind: piece.kind, choice: piece.choice, text: piece.text });
      else part.text += piece.text;
    }
  }

  /** Also bounds the number of parts: each costs as much as some text. */
  #fits(bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#bytes + this.#parts.size * partBytes <= this.#maxBytes) return true;
    this.lose();
    return false;
  }

  #drop(): void {
    this.#chunks = [];
    this.#parts.clear();
  }
}

const partBytes = 64;

function parseObject(text: string): JsonObject | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
