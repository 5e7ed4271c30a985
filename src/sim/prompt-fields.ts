/**
 * Reads the prompt out of a request's body, in each of the APIs that both dialects speak: plain prompts, chat, Responses, Messages.
 * Text and token ids out; what to say when something is missing is the dialect's business.
 */
import { contentText, readTurns, renderChat, type ChatTurn } from './chat-template.ts';
import { readIds, type JsonObject } from './json-fields.ts';
import { encode } from './tokenizer.ts';

export interface ReadPrompt {
  /** Empty when the client sent token ids. */
  readonly text: string;
  readonly ids: Uint32Array;
}

export function promptOfText(text: string): ReadPrompt {
  return { text, ids: encode(text) };
}

/** A text, a list of texts, a list of token ids, or a list of such lists. */
export function readPlainPrompts(prompt: unknown): ReadPrompt[] | undefined {
  const single = readPlainPrompt(prompt);
  if (single !== undefined) return [single];
  if (!Array.isArray(prompt) || prompt.length === 0) return undefined;
  const entries: readonly unknown[] = prompt;
  const prompts = entries.map(readPlainPrompt).filter((entry) => entry !== undefined);
  return prompts.length === entries.length ? prompts : undefined;
}

function readPlainPrompt(prompt: unknown): ReadPrompt | undefined {
  if (typeof prompt === 'string') return promptOfText(prompt);
  const ids = readIds(prompt);
  return ids === undefined ? undefined : { text: '', ids: Uint32Array.from(ids) };
}

/** The whole prompt of a conversation; undefined when it has no readable turn. */
export function readConversation(api: 'chat' | 'responses' | 'messages', body: JsonObject): ReadPrompt | undefined {
  const turns = api === 'responses' ? readInput(body['input']) : readTurns(body['messages']);
  if (turns === undefined || turns.length === 0) return undefined;
  return promptOfText(renderChat([...outerSystem(api, body), ...turns], body['tools']));
}

/** The Responses API's `input`: a text, or a list of messages. */
function readInput(input: unknown): ChatTurn[] | undefined {
  return typeof input === 'string' ? [{ role: 'user', content: input }] : readTurns(input);
}

/** A system text that stands outside the messages. */
function outerSystem(api: 'chat' | 'responses' | 'messages', body: JsonObject): ChatTurn[] {
  const text = api === 'responses' ? body['instructions'] : api === 'messages' ? body['system'] : undefined;
  return text === undefined || text === null ? [] : [{ role: 'system', content: contentText(text) }];
}
