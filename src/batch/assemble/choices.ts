/**
 * Puts the chunks of a streamed chat or text completion together: choices by their index, texts joined, tool calls by theirs,
 * log probabilities one behind the other, everything else as it came last. Formats: model servers' reference, chat and completions
 * streams. What an engine would have said besides, unstreamed, is `engine-forms.ts`'s to add.
 */
import { type Assembled, assembledError, type Assembler, isObject, type JsonObject, parseObject } from './assembled.ts';
import { asUnstreamed } from './engine-forms.ts';

interface Choice {
  /** `message` of a chat answer; undefined for text. */
  readonly message: JsonObject | undefined;
  readonly rest: JsonObject;
  readonly calls: Map<number, JsonObject>;
}

/** Kinds of members in a delta whose text comes in pieces. */
const pieces: ReadonlySet<string> = new Set(['content', 'reasoning_content', 'reasoning', 'refusal']);
/** More choices or calls than any request asks for are a fault. */
const mostIndexed = 1024;

export function createChoicesAssembler(format: 'chat' | 'completions'): Assembler {
  const top: JsonObject = {};
  const choices = new Map<number, Choice>();
  const usages: JsonObject[] = [];
  let error: unknown;
  let isDone = false;
  let fault: string | undefined;
  let keptChars = 0;

  function choiceOf(index: unknown): Choice | undefined {
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= mostIndexed) return undefined;
    const known = choices.get(index);
    if (known !== undefined) return known;
    const made: Choice = {
      message: format === 'chat' ? { role: 'assistant', content: null } : undefined,
      rest: { index },
      calls: new Map(),
    };
    choices.set(index, made);
    return made;
  }

  function takeChoice(chunk: JsonObject): void {
    const choice = choiceOf(chunk.index ?? 0);
    if (choice === undefined) {
      fault = 'a choice has no valid index';
      return;
    }
    for (const [key, value] of Object.entries(chunk)) {
      if (key === 'index') continue;
      if (key === 'delta') {
        if (isObject(value) && choice.message !== undefined) takeDelta(choice.message, choice.calls, value);
      } else if (key === 'text') choice.rest.text = joined(choice.rest.text, value);
      else if (key === 'logprobs') choice.rest.logprobs = joinedLists(choice.rest.logprobs, value);
      else if (key === 'token_ids' || key === 'prompt_token_ids')
        choice.rest[key] = joinedList(choice.rest[key], value);
      else if (value !== null || !(key in choice.rest)) choice.rest[key] = value;
    }
  }

  return {
    get keptChars() {
      return keptChars;
    },
    event(_name, data) {
      if (data === '[DONE]') {
        isDone = true;
        return;
      }
      const chunk = parseObject(data);
      if (chunk === undefined) {
        fault ??= 'an event is no JSON object';
        return;
      }
      if (chunk.error !== undefined && chunk.error !== null) error ??= chunk.error;
      else if (chunk.object === 'error') error ??= chunk;
      for (const [key, value] of Object.entries(chunk)) {
        if (key === 'choices') {
          objectsOf(value).forEach(takeChoice);
        } else if (key === 'usage') {
          if (isObject(value)) noteUsage(usages, value, chunk);
        } else if (value !== null || !(key in top)) top[key] = value;
      }
      keptChars += sizeOf(chunk, data);
    },
    end(engine): Assembled {
      if (error !== undefined) return assembledError(error);
      if (fault !== undefined) return { kind: 'broken', message: `The answer can't be put together: ${fault}.` };
      const all = [...choices.entries()].toSorted(([a], [b]) => a - b).map(([, choice]) => choice);
      const isWhole = isDone && all.length > 0 && all.every(({ rest }) => typeof rest.finish_reason === 'string');
      if (!isWhole) return { kind: 'broken', message: 'The stream ended before its answer was complete.' };
      const { id, created, model, object: _chunk, ...others } = top;
      const whole: JsonObject = {
        id,
        object: format === 'chat' ? 'chat.completion' : 'text_completion',
        created,
        model,
        choices: all.map(wholeChoice),
        ...usageOf(usages),
        ...others,
      };
      return { kind: 'whole', body: JSON.stringify(asUnstreamed(whole, { engine, format })) };
    },
  };
}

function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** What a chunk adds to what is kept: its texts and lists, not the names that every chunk repeats. */
function sizeOf(chunk: JsonObject, data: string): number {
  const names = ['id', 'object', 'model', 'system_fingerprint'].reduce((sum, key) => {
    const value = chunk[key];
    return typeof value === 'string' ? sum + value.length + key.length : sum;
  }, 0);
  return Math.max(0, data.length - names);
}

function takeDelta(message: JsonObject, calls: Map<number, JsonObject>, delta: JsonObject): void {
  for (const [key, value] of Object.entries(delta)) {
    if (pieces.has(key)) message[key] = joined(message[key], value);
    else if (key === 'tool_calls') {
      for (const call of objectsOf(value)) takeCall(calls, call);
    } else if (key === 'function_call') {
      if (isObject(value)) message[key] = joinedFunction(isObject(message[key]) ? message[key] : {}, value);
    } else if (value !== null || !(key in message)) message[key] = value;
  }
}

function takeCall(calls: Map<number, JsonObject>, { index, ...piece }: JsonObject): void {
  const at = typeof index === 'number' && index >= 0 && index < mostIndexed ? index : 0;
  const call = calls.get(at) ?? {};
  for (const [key, value] of Object.entries(piece)) {
    if (key === 'function' && isObject(value))
      call.function = joinedFunction(isObject(call.function) ? call.function : {}, value);
    else if (value !== null) call[key] ??= value;
  }
  calls.set(at, call);
}

/** The name comes once, the arguments in pieces. */
function joinedFunction(known: JsonObject, piece: JsonObject): JsonObject {
  const name = known.name ?? piece.name;
  const text = joined(known.arguments ?? '', piece.arguments);
  return { ...known, ...piece, ...(name === undefined ? {} : { name }), arguments: text };
}

function wholeChoice({ message, rest, calls }: Choice): JsonObject {
  if (message === undefined) return rest;
  const list = [...calls.entries()].toSorted(([a], [b]) => a - b).map(([, call]) => call);
  const { index, ...others } = rest;
  return { index, message: list.length === 0 ? message : { ...message, tool_calls: list }, ...others };
}

function joined(known: unknown, piece: unknown): unknown {
  if (typeof piece !== 'string') return known ?? null;
  return typeof known === 'string' ? known + piece : piece;
}

/** The known list grows in place: it is nobody else's, and a copy for each token would be quadratic. */
function joinedList(known: unknown, piece: unknown): unknown {
  if (!Array.isArray(piece)) return known ?? piece;
  if (!Array.isArray(known)) return piece;
  for (const one of piece) known.push(one);
  return known;
}

/** Lists of the same name one behind the other: `{"content": […]}` and `{"tokens": […], "token_logprobs": […], …}`. */
function joinedLists(known: unknown, piece: unknown): unknown {
  if (!isObject(piece)) return known ?? piece;
  if (!isObject(known)) return piece;
  for (const [key, value] of Object.entries(piece)) known[key] = joinedList(known[key], value);
  return known;
}

/**
 * Usage as it was told at last. A running count replaces the one before it; of llama-server's, which counts each choice in a
 * chunk of its own (R18), all are kept: its chunks have `timings`.
 */
function noteUsage(usages: JsonObject[], usage: JsonObject, chunk: JsonObject): void {
  if (!isObject(chunk.timings)) usages.length = 0;
  usages.push(usage);
}

/** The prompt counts once, what was generated for all choices: an unstreamed answer of llama-server has the first choice's alone. */
function usageOf(usages: readonly JsonObject[]): { usage?: JsonObject } {
  const [first] = usages;
  if (first === undefined) return {};
  if (usages.length === 1) return { usage: first };
  const output = usages.reduce((sum, { completion_tokens: tokens }) => sum + numberOf(tokens), 0);
  return { usage: { ...first, completion_tokens: output, total_tokens: numberOf(first.prompt_tokens) + output } };
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
