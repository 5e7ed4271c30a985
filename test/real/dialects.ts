/**
 * The dialects of the two engines as request bodies: each a way to ask for a short deterministic answer, streamed or not.
 */
import { randomBytes } from 'node:crypto';
import { modelName, type Engine } from './engine.ts';
import type { Ask } from './raw-client.ts';

export interface Dialect {
  readonly name: string;
  readonly path: string;
  /** The body without `stream`. */
  body(prompt: string, maxTokens: number): Record<string, unknown>;
}

const sampling = { model: modelName, temperature: 0 };

const openAiDialects: readonly Dialect[] = [
  {
    name: 'chat',
    path: '/v1/chat/completions',
    body: (prompt, maxTokens) => ({
      ...sampling,
      messages: [{ role: 'user', content: prompt }],
      max_tokens: maxTokens,
    }),
  },
  {
    name: 'completions',
    path: '/v1/completions',
    body: (prompt, maxTokens) => ({ ...sampling, prompt, max_tokens: maxTokens }),
  },
  {
    name: 'responses',
    path: '/v1/responses',
    body: (prompt, maxTokens) => ({ ...sampling, input: prompt, max_output_tokens: maxTokens }),
  },
  {
    name: 'messages',
    path: '/v1/messages',
    body: (prompt, maxTokens) => ({
      ...sampling,
      messages: [{ role: 'user', content: prompt }],
      max_tokens: maxTokens,
    }),
  },
];

const llamaDialects: readonly Dialect[] = [
  {
    name: 'native completion',
    path: '/completion',
    body: (prompt, maxTokens) => ({ temperature: 0, prompt, n_predict: maxTokens }),
  },
  {
    name: 'infill',
    path: '/infill',
    body: (prompt, maxTokens) => ({
      ...{ temperature: 0, n_predict: maxTokens, ignore_eos: true },
      input_prefix: `# ${prompt}\ndef add(a, b):\n    `,
      input_suffix: '\n    return total\n',
    }),
  },
];

export function dialectsOf(kind: Engine['kind']): readonly Dialect[] {
  return kind === 'llama-server' ? [...openAiDialects, ...llamaDialects] : openAiDialects;
}

/** A request id that no other request has. */
export function newRequestId(): string {
  return `real-${randomBytes(8).toString('hex')}`;
}

/** A prompt that no cache holds yet. */
export function freshPrompt(text = 'Write about rivers.'): string {
  return `${randomBytes(6).toString('hex')}: ${text}`;
}

/** A fresh prompt of about `tokens` tokens: seconds of prefill when it is long. */
export function longPrompt(tokens: number): string {
  return `${freshPrompt('')}${'word '.repeat(tokens)}`;
}

/** A streamed chat of exactly `maxTokens` tokens. */
export function streamedChat(
  prompt: string,
  maxTokens: number,
  more: Record<string, unknown> = {},
): Ask & { body: Record<string, unknown> } {
  return {
    path: '/v1/chat/completions',
    body: {
      ...sampling,
      ...{ messages: [{ role: 'user', content: prompt }], max_tokens: maxTokens, ignore_eos: true, stream: true },
      ...more,
    },
  };
}

/** The same ask under a request id, by which its record and its bytes at the engine are found. */
export function withId(ask: Ask, requestId: string): Ask {
  return { ...ask, headers: { ...ask.headers, 'X-Request-Id': requestId } };
}
