/**
 * The closed table of what each path is for. A path that isn't in it is `other` and passes through.
 * Decides nothing about the body; `wanted-keys.ts` says which keys of it are read for each endpoint.
 */
import { unreadId } from '../domain/job.ts';
import type { EndpointKind, StreamFormat } from '../domain/names.ts';
import { findControl } from './control-routes.ts';
import { isPlainPath, ownNames, readKeptPath, type Referring } from './kept-paths.ts';
import { matchedPath, splitTarget } from './request-path.ts';
import type { ControlKey } from './settings.ts';

/** How a body is read: which keys have a meaning in it. */
export type BodyReading =
  | 'chat'
  | 'chat_batch'
  | 'completions'
  | 'invocations'
  | 'native'
  | 'responses'
  | 'messages'
  | 'ollama'
  | 'model_only'
  | 'generation'
  | 'nothing';

export interface Endpoint {
  readonly kind: EndpointKind;
  readonly format: StreamFormat;
  /** Takes an engine slot and yields tokens. */
  readonly generates: boolean;
  /** The answer is read for tokens and counts. */
  readonly measured: boolean;
  readonly reads: BodyReading;
  /** The body is to be scanned before the request can be classified. */
  readonly readsBody: boolean;
  /** When the answer streams: if asked for, unless refused (Ollama), always (TGI's /generate_stream). */
  readonly streams: 'asked' | 'unless_refused' | 'always';
  /** An engine-changing route, and the key that opens it. */
  readonly control?: ControlKey;
  /** Id in the path of something that one backend keeps (a response, a conversation, a stored chat). */
  readonly pathId?: string;
  /** What else the path may name of that kind: by other readings than the plain one. */
  readonly morePathIds?: readonly string[];
  /** Its body refers to what a backend keeps as this route's does, whatever else it `reads`. */
  readonly refersBy?: Referring;
  /** Its answer names something that is kept from now on. */
  readonly keeps?: true;
  /** Model named by the path. */
  readonly pathModel?: string;
}

/** @param target as received, with query */
export function findEndpoint(method: string, target: string): Endpoint {
  const { path } = splitTarget(target);
  const exact = table.get(rowKey(method, path));
  if (exact !== undefined) return exact;
  const control = findControl(method, path);
  if (control !== undefined) return withKept({ ...other, kind: 'control', control }, method, path);
  const matched = matchedPath(path);
  const found = table.get(rowKey(method, matched)) ?? findByPattern(method, matched);
  if (found !== undefined && isPlainPath(path)) return found;
  return withKept(found ?? (takesBody(method) ? otherWithBody : other), method, path);
}

/** With all that a server could find in a path where it isn't in plain sight. @param path undecoded */
function withKept(found: Endpoint, method: string, path: string): Endpoint {
  const { ids, refersBy } = readKeptPath(takesBody(method), path);
  if (ids.length === 0 && refersBy === undefined) return found;
  const pathId = found.pathId ?? ids.find((id) => id !== unreadId);
  const more = ids.filter((id) => id !== pathId);
  return {
    ...found,
    ...(pathId === undefined ? {} : { pathId }),
    ...(more.length === 0 ? {} : { morePathIds: more }),
    ...(refersBy === undefined ? {} : { refersBy }),
  };
}

const other: Endpoint = {
  kind: 'other',
  format: 'unknown',
  generates: false,
  measured: false,
  reads: 'nothing',
  readsBody: false,
  streams: 'asked',
};
/** Unknown routes still go where their model is served. */
const otherWithBody: Endpoint = { ...other, reads: 'model_only', readsBody: true };

function generating(kind: EndpointKind, format: StreamFormat, reads: BodyReading): Endpoint {
  return { kind, format, generates: true, measured: true, reads, readsBody: true, streams: 'asked' };
}

function serving(kind: EndpointKind, measured: boolean): Endpoint {
  return { ...otherWithBody, kind, measured };
}

const chat = generating('chat', 'chat', 'chat');
const completions = generating('completions', 'completions', 'completions');
const responses = generating('responses', 'responses', 'responses');
const nativeCompletion = generating('native_completion', 'llama_native', 'native');
/** Generates, in a format of its own that is not read event by event. */
const foreignCompletion = generating('native_completion', 'unknown', 'native');
const ollamaChat = { ...generating('ollama_chat', 'ollama_chat', 'ollama'), streams: 'unless_refused' as const };
const ollamaGenerate = {
  ...generating('ollama_generate', 'ollama_generate', 'ollama'),
  streams: 'unless_refused' as const,
};
const embeddings = serving('embeddings', true);
const rerank = serving('rerank', true);
const tokenize = serving('tokenize', false);
/** The prompt that they show, or count, is that of the earlier answer too. */
const tokenizeResponse: Endpoint = { ...tokenize, refersBy: 'responses' };
const transcription: Endpoint = { ...serving('audio', true), generates: true };
const models: Endpoint = { ...other, kind: 'models' };

const writes = ['POST', 'PUT'] as const;

const rows: readonly (readonly [Endpoint, readonly string[]])[] = [
  [chat, ['/v1/chat/completions', '/chat/completions', '/api/v0/chat/completions']],
  [generating('chat', 'chat', 'chat_batch'), ['/v1/chat/completions/batch']],
  [generating('chat', 'unknown', 'chat'), ['/cohere/v2/chat', '/api/v1/chat']],
  [completions, ['/v1/completions', '/api/v0/completions']],
  [responses, ['/v1/responses', '/responses', '/v1/responses/compact']],
  [generating('messages', 'messages', 'messages'), ['/v1/messages']],
  [nativeCompletion, ['/completion', '/completions']],
  [generating('infill', 'llama_native', 'native'), ['/infill']],
  [foreignCompletion, ['/', '/generate', '/inference/v1/generate', '/vertex_generate']],
  [{ ...foreignCompletion, streams: 'always' }, ['/generate_stream']],
  [generating('other', 'unknown', 'invocations'), ['/invocations']],
  [ollamaChat, ['/api/chat']],
  [ollamaGenerate, ['/api/generate']],
  [embeddings, ['/v1/embeddings', '/embeddings', '/embedding', '/v2/embed', '/pooling', '/encode']],
  [embeddings, ['/api/embed', '/api/embeddings', '/api/v0/embeddings']],
  [rerank, ['/rerank', '/reranking', '/v1/rerank', '/v1/reranking', '/v2/rerank']],
  [rerank, ['/score', '/v1/score', '/classify', '/v1/classify', '/generative_scoring']],
  [transcription, ['/v1/audio/transcriptions', '/v1/audio/translations']],
  [serving('audio', false), ['/v1/audio/speech']],
  [tokenize, ['/tokenize', '/detokenize', '/v1/tokenize', '/v1/detokenize', '/chat_tokenize', '/apply-template']],
  [tokenize, ['/v1/messages/count_tokens']],
  [tokenizeResponse, ['/v1/responses/input_tokens', '/responses/input_tokens', '/v1/responses/render']],
  [tokenize, ['/v1/chat/completions/input_tokens', '/chat/completions/input_tokens']],
  [tokenize, ['/v1/chat/completions/render', '/v1/completions/render', '/v1/messages/render']],
  [tokenize, ['/v1/chat/completions/derender', '/v1/completions/derender']],
];

/** Its answer is read for the id of what it makes, which is for its tenant alone. */
const newConversation: Endpoint = { ...otherWithBody, measured: true, keeps: true };

/** llama-server's route to steer a running generation, which its body names: it goes where that runs. */
const generationControl = '/v1/chat/completions/control';

const table: ReadonlyMap<string, Endpoint> = new Map([
  ...rows.flatMap(([endpoint, paths]) =>
    paths.flatMap((path) => writes.map((method) => [rowKey(method, path), endpoint] as const)),
  ),
  [rowKey('POST', generationControl), { ...otherWithBody, reads: 'generation' }],
  [rowKey('POST', '/v1/conversations'), newConversation],
  ...['/v1/models', '/models'].flatMap((path) =>
    ['GET', 'HEAD'].map((method) => [rowKey(method, path), models] as const),
  ),
]);

function rowKey(method: string, path: string): string {
  return `${method} ${path}`;
}

function takesBody(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH';
}

/** Paths with a name in them: what is kept under that name is kept by one backend. */
function findByPattern(method: string, path: string): Endpoint | undefined {
  const base = takesBody(method) ? otherWithBody : other;
  const kept = /^\/v1\/(responses|conversations|chat\/completions)\/([^/]+)(?:\/|$)/.exec(path);
  if (kept?.[2] !== undefined && path !== generationControl) {
    const isResponse = kept[1] === 'responses';
    // With a slash behind it, say.
    if (takesBody(method) && kept[1] !== 'conversations' && ownNames.has(kept[2])) return undefined;
    return { ...base, pathId: kept[2], ...(isResponse ? { kind: 'responses', format: 'responses' } : {}) };
  }
  const model = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
  return model === undefined ? undefined : { ...base, pathModel: fromUtf8(model) };
}

/** Decoded paths hold one character a byte. */
function fromUtf8(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
