/**
 * The requests that the doctor sends: small chats that begin with a nonce, so that no cache knows them, in words that
 * each engine understands. Pure.
 */
import type { Engine } from '../../domain/names.ts';

export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface ChatAsk {
  readonly model: string | undefined;
  readonly messages: readonly Message[];
  readonly maxTokens: number;
  readonly stream: boolean;
  /** Field by field, over the rest. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Engines that take `ignore_eos`, for an answer of exactly so many tokens. */
const takesIgnoreEos: ReadonlySet<Engine> = new Set<Engine>(['vllm', 'llama-server', 'sglang']);

export function chatBody(ask: ChatAsk, engine: Engine | undefined): Readonly<Record<string, unknown>> {
  return {
    ...(ask.model === undefined ? {} : { model: ask.model }),
    messages: ask.messages,
    max_tokens: ask.maxTokens,
    temperature: 0,
    stream: ask.stream,
    ...(ask.stream ? { stream_options: { include_usage: true } } : {}),
    ...(engine !== undefined && takesIgnoreEos.has(engine) ? { ignore_eos: true } : {}),
    ...ask.extra,
  };
}

/** One question that any model answers at some length. */
export function countingMessages(nonce: string): readonly Message[] {
  return [{ role: 'user', content: `${nonce}: count from 1 to 200, a number on each line, nothing else.` }];
}

const letters = 'bcdfghjkmnpqrstvwxz';

/** Eight letters that nobody sent before; letters, since digits are split by some tokenisers and dates by others. */
export function nonceFrom(random: () => number): string {
  let nonce = '';
  for (let index = 0; index < 8; index += 1) nonce += letters[Math.floor(random() * letters.length)] ?? 'b';
  return nonce;
}
