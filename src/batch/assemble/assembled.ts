/** What a streamed answer comes to once it is put together again. Types, and the few readings of JSON that all formats share. */
import type { Engine } from '../../domain/names.ts';

export type JsonObject = { [key: string]: unknown };

export type Assembled =
  /** JSON text of what the engine would have sent unstreamed */
  | { readonly kind: 'whole'; readonly body: string }
  /** The engine told an error, whatever came before it. `body`: `{"error": …}` as JSON text */
  | { readonly kind: 'error'; readonly status: number | undefined; readonly message: string; readonly body: string }
  /** It ended before it was complete, or can't be read. */
  | { readonly kind: 'broken'; readonly message: string };

export interface Assembler {
  /** One event: the value of its `event:` line ('' without one) and of its data. */
  event(name: string, data: string): void;
  /** Characters kept so far. */
  readonly keptChars: number;
  /** @param engine whose answer it is: what it leaves out of a stream is filled in as it would have */
  end(engine: Engine | undefined): Assembled;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @returns undefined for what is no JSON object */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** An engine's error, nested (`{"error": {…}}`), flat (SGLang) or a plain text. */
export function assembledError(error: unknown): Assembled {
  const shown = isObject(error) ? error : { message: String(error) };
  const { code, message } = shown;
  const status = typeof code === 'number' && code >= 400 && code <= 599 ? code : undefined;
  const told = typeof message === 'string' ? message : 'the engine told an error without a message';
  return { kind: 'error', status, message: told, body: JSON.stringify({ error: shown }) };
}
