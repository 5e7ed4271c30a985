/**
 * From an event's bytes to its facts, for one stream in one dialect: end markers, empty data, errors, broken JSON, two
 * objects in one event, and the fast path for plain deltas. Never throws and keeps no bytes past the call.
 */
import type { Engine, StreamFormat } from '../../domain/names.ts';
import { EventFlag } from '../../domain/tap.ts';
import { readChat } from './chat.ts';
import { readCompletions } from './completions.ts';
import { readError } from './error.ts';
import { createEventTemplates } from './event-template.ts';
import { bare, isObject, signFacts, type DialectReader, type EventFacts, type JsonObject } from './facts.ts';
import { readLlamaNative } from './llama-native.ts';
import { readMessages } from './messages.ts';
import { readOllama } from './ollama.ts';
import { readResponses } from './responses.ts';

export const dialects: Readonly<Record<StreamFormat, DialectReader>> = {
  chat: readChat,
  completions: readCompletions,
  responses: readResponses,
  messages: readMessages,
  llama_native: readLlamaNative,
  ollama_chat: readOllama,
  ollama_generate: readOllama,
  unknown: () => signFacts,
};

const doneFacts = bare(EventFlag.done);
const malformedFacts: EventFacts = { ...bare(0), malformed: true };
const doneMarker = Buffer.from('[DONE]');
const bracket = 91;
const lf = 10;

export interface EventReader {
  /** `[start, end)` of `data`, and the name, as `StreamTap.event` gets them. */
  read(data: Buffer, start: number, end: number, name: string): EventFacts;
}

/** @param engine decides what an empty text means (R14) */
export function createEventReader(format: StreamFormat, engine: Engine | undefined): EventReader {
  const dialect = dialects[format];
  const readObject = (json: JsonObject, name: string): EventFacts => {
    const error = readError(json, name);
    const facts = dialect(json, { engine, name });
    if (error === undefined) return facts;
    return { ...facts, flags: (facts.flags & ~EventFlag.sign) | EventFlag.error, error };
  };
  const templates = createEventTemplates(readObject);

  const parse = (text: string, name: string): EventFacts | undefined => {
    try {
      const json: unknown = JSON.parse(text);
      return isObject(json) ? readObject(json, name) : signFacts;
    } catch {
      return undefined;
    }
  };

  return {
    read(data, start, end, name) {
      const known = templates.match(data, start, end, name);
      if (known !== undefined) return known;
      if (data[start] === bracket && isDone(data, start, end)) return doneFacts;
      const text = data.toString('utf8', start, end);
      if (text.trim() === '') return signFacts;
      const facts = parse(text, name) ?? parseLines(text, name, parse);
      if (facts !== undefined) {
        templates.learn(data, start, end, name, facts);
        return facts;
      }
      if (name === 'error')
        return { ...bare(EventFlag.error), malformed: true, error: { message: 'unreadable error event' } };
      return malformedFacts;
    },
  };
}

function isDone(data: Buffer, start: number, end: number): boolean {
  let last = end;
  while (last > start && (data[last - 1] ?? 0) <= 32) last -= 1;
  return last - start === doneMarker.length && data.compare(doneMarker, 0, doneMarker.length, start, last) === 0;
}

/**
 * Some servers put two objects into one event, a data line each (C014). CHOICE: when the joined lines are no JSON but
 * each line is, each counts as an event of its own.
 */
function parseLines(
  text: string,
  name: string,
  parse: (text: string, name: string) => EventFacts | undefined,
): EventFacts | undefined {
  if (!text.includes(String.fromCharCode(lf))) return undefined;
  let chain: EventFacts | undefined;
  for (const line of text.split('\n').toReversed()) {
    if (line.trim() === '') continue;
    const facts = line.trim() === '[DONE]' ? doneFacts : parse(line, name);
    if (facts === undefined) return undefined;
    chain = chain === undefined ? facts : { ...facts, next: chain };
  }
  return chain;
}
