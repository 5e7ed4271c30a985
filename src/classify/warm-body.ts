/**
 * Makes of one request's body another that only brings its prompt, or the prompt's beginning, into a cache: the same bytes
 * member by member, so that it is the same prompt to the engine and to the warm index, but for what bounds the output: one
 * token, streamed. Works on whole bodies, seldom; not for a client's request.
 */
import { createJsonWalk, type JsonKind, type JsonSink } from '../platform/json-walk.ts';
import { findEndpoint } from './endpoint-table.ts';

export interface WarmBody {
  readonly body: Buffer;
  /** Messages at its beginning that are the other request's own; undefined: all that it has. */
  readonly messages?: number;
}

/**
 * Bounds of the output and of its form, which a prefill has no use for, or which forbid so short an answer; and who asked, which
 * no engine renders.
 */
const dropped: ReadonlySet<string> = new Set([
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'max_new_tokens',
  'min_tokens',
  'min_new_tokens',
  'n_predict',
  'num_predict',
  'n_cmpl',
  'n',
  'best_of',
  'stream',
  'stream_options',
  'logprobs',
  'top_logprobs',
  'decoder_input_details',
  'n_probs',
  'echo',
  'store',
  'user',
  'metadata',
  'safety_identifier',
  'prompt_cache_key',
  'request_id',
  'priority',
  'service_tier',
]);

/** What each kind of route calls its bound, behind the keys of the objects that it lies in. */
function boundOf(path: string, members: readonly Member[]): readonly string[] {
  const { reads, format } = findEndpoint('POST', path);
  if (reads === 'responses') return ['max_output_tokens'];
  if (reads === 'ollama') return ['options', 'num_predict'];
  if (format === 'llama_native') return ['n_predict'];
  if (reads !== 'native' && reads !== 'invocations') return ['max_tokens'];
  const found = boundByPromptKey.find(([key]) => members.some((member) => member.key === key));
  return found === undefined ? ['max_tokens'] : found[1];
}

/** Routes that several engines have: what each calls its prompt tells whose body it is. */
const boundByPromptKey: readonly (readonly [string, readonly string[]])[] = [
  // TGI
  ['inputs', ['parameters', 'max_new_tokens']],
  // SGLang
  ['text', ['sampling_params', 'max_new_tokens']],
  ['input_ids', ['sampling_params', 'max_new_tokens']],
  ['instances', ['parameters', 'sampling_params', 'max_new_tokens']],
  // vLLM's token route
  ['token_ids', ['sampling_params', 'max_tokens']],
];

interface Bounded {
  readonly object: Buffer;
  readonly members: readonly Member[];
}

/** The last member of an object: the bound itself, or what was there under its first key with the bound in it. */
function boundMember({ object, members }: Bounded, [key = '', ...inner]: readonly string[]): Buffer {
  if (inner.length === 0) return Buffer.from(`"${key}":1`);
  const old = members.findLast((member) => member.key === key && member.kind === 'object');
  const value = old === undefined ? Buffer.from('{}') : object.subarray(old.valueStart, old.end);
  return Buffer.concat([Buffer.from(`"${key}":`), withBound(value, inner)]);
}

function withBound(object: Buffer, bound: readonly string[]): Buffer {
  const members = membersOf(object) ?? [];
  const kept = members.filter(({ key }) => !dropped.has(key) && key !== bound[0]);
  const all = kept.map(({ start, end }) => object.subarray(start, end));
  return enclosed('{', [...all, boundMember({ object, members }, bound)], '}');
}

/** Behind a beginning that ends with instructions: nearly all chat templates want somebody to speak. */
const opener = Buffer.from('{"role":"user","content":"."}');

/**
 * @param path of the route that it goes to
 * @param messages how many of its messages to keep, counted from the first; all unless given
 * @returns undefined for a body that is no JSON object, or has no such list of messages
 */
export function warmBody(body: Buffer, path: string, messages?: number): WarmBody | undefined {
  const members = membersOf(body);
  if (members === undefined) return undefined;
  const bound = boundOf(path, members);
  const kept: Buffer[] = [];
  let isCut = messages === undefined;
  for (const { key, start, valueStart, end, kind } of members) {
    if (dropped.has(key) || key === bound[0]) continue;
    const isList = messages !== undefined && kind === 'array' && (key === 'messages' || key === 'input');
    if (!isList) {
      kept.push(body.subarray(start, end));
      continue;
    }
    const cut = firstElements(body.subarray(valueStart, end), messages);
    if (cut === undefined || isCut) return undefined;
    isCut = true;
    kept.push(Buffer.concat([body.subarray(start, valueStart), withOpener(cut)]));
  }
  if (!isCut) return undefined;
  kept.push(boundMember({ object: body, members }, bound));
  if (bound[0] === 'max_output_tokens') kept.push(Buffer.from('"store":false'));
  const whole = enclosed('{', [...kept, Buffer.from('"stream":true')], '}');
  return messages === undefined ? { body: whole } : { body: whole, messages };
}

const comma = Buffer.from(',');

interface Member {
  readonly key: string;
  /** The key's opening quote. */
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
  readonly kind: JsonKind;
}

function membersOf(body: Buffer): readonly Member[] | undefined {
  const members: Member[] = [];
  let open = { key: '', start: 0, valueStart: 0, kind: 'null' as JsonKind };
  const sink: JsonSink = {
    objectBegin() {},
    keyBegin(at) {
      open = { ...open, start: at };
    },
    keyEnd(at) {
      open = { ...open, key: body.toString('utf8', open.start + 1, at) };
      return undefined;
    },
    valueBegin(kind, at) {
      open = { ...open, kind, valueStart: at };
    },
    valueEnd(at) {
      members.push({ ...open, end: at });
    },
  };
  const walk = createJsonWalk(sink);
  walk.push(body);
  return walk.end() === undefined ? members : undefined;
}

/** The elements themselves. @param array valid JSON @returns undefined when there are fewer */
function firstElements(array: Buffer, count: number): readonly Buffer[] | undefined {
  const elements: Buffer[] = [];
  let depth = 0;
  let start = 1;
  for (let at = 0; at < array.length && elements.length < count; at += 1) {
    const byte = array[at];
    if (byte === 0x22) at = stringEnd(array, at);
    else if (byte === 0x7b || byte === 0x5b) depth += 1;
    else if (byte === 0x7d || byte === 0x5d) depth -= 1;
    const isEnd = depth === 0 || (depth === 1 && byte === 0x2c);
    if (!isEnd) continue;
    const element = array.subarray(start, at);
    if (element.some((one) => one > 0x20)) elements.push(element);
    start = at + 1;
  }
  return elements.length < count ? undefined : elements;
}

/** @returns the index of the closing quote */
function stringEnd(bytes: Buffer, from: number): number {
  let at = from + 1;
  while (at < bytes.length && bytes[at] !== 0x22) at += bytes[at] === 0x5c ? 2 : 1;
  return at;
}

function withOpener(elements: readonly Buffer[]): Buffer {
  const last = elements.at(-1);
  const speaks = last !== undefined && /"role"\s*:\s*"user"/.test(last.toString('latin1'));
  const all = speaks ? elements : [...elements, opener];
  return enclosed('[', all, ']');
}

function enclosed(opening: string, parts: readonly Buffer[], closing: string): Buffer {
  const between = parts.flatMap((part, at) => (at === 0 ? [part] : [comma, part]));
  return Buffer.concat([Buffer.from(opening), ...between, Buffer.from(closing)]);
}
