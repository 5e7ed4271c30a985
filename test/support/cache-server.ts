/**
 * A model server whose tokens are words and whose cache follows a rule at choice: for caches that the simulated engines
 * don't have, wrong ones among them. Computing a word takes time, finding it takes none.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface CacheAsk {
  readonly words: readonly string[];
  readonly model: string;
  readonly session: string;
}

/** How many of the words come from the cache, given what was asked before. */
export type CacheRule = (ask: CacheAsk, before: readonly CacheAsk[]) => number;

export interface CacheServerSettings {
  readonly rule: CacheRule;
  readonly reports: boolean;
  readonly models?: readonly { readonly id: string; readonly parent?: string; readonly root?: string }[];
  readonly owner?: string;
  readonly perWordMs?: number;
}

export interface CacheServer {
  readonly url: string;
  close(): Promise<void>;
}

const commonOf = (a: readonly string[], b: readonly string[]): number => {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
};
const most = (counts: readonly number[]) => Math.max(0, ...counts);
const isWhole = (part: readonly string[], whole: readonly string[]) => commonOf(part, whole) === part.length;

const prefix: CacheRule = ({ words }, before) =>
  Math.min(words.length - 1, most(before.map((one) => commonOf(one.words, words))));

export const cacheRules = {
  prefix,
  none: () => 0,
  whole: ({ words }, before) =>
    before.some((one) => one.words.length === words.length && isWhole(one.words, words)) ? words.length - 1 : 0,
  /** What was asked before must be the beginning of what is asked now. */
  growing: ({ words }, before) =>
    Math.min(words.length - 1, most(before.filter((one) => isWhole(one.words, words)).map((one) => one.words.length))),
  session: (ask, before) =>
    prefix(
      ask,
      before.filter((one) => one.session === ask.session),
    ),
  byModel: (ask, before) =>
    prefix(
      ask,
      before.filter((one) => one.model === ask.model),
    ),
  /** Wrong: looks only at what stands behind the first words. */
  stale: ({ words }, before) =>
    Math.min(words.length - 1, most(before.map((one) => commonOf(one.words.slice(2), words.slice(2))))),
  /** Every other request meets another engine. */
  turns: (ask, before) =>
    prefix(
      ask,
      before.filter((_, index) => index % 2 === before.length % 2),
    ),
} satisfies Record<string, CacheRule>;

export async function startCacheServer(settings: CacheServerSettings): Promise<CacheServer> {
  const before: CacheAsk[] = [];
  const server = createServer((request, response) => void serve(request, response, { settings, before }));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface ChatRequest {
  readonly model: string;
  readonly user?: string;
  readonly stream?: boolean;
  readonly max_tokens: number;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly tools?: readonly object[];
  readonly lora?: readonly object[];
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { settings, before }: { readonly settings: CacheServerSettings; readonly before: CacheAsk[] },
): Promise<void> {
  const { models = [{ id: 'm' }], owner = 'somebody', perWordMs = 0.1 } = settings;
  const json = (status: number, body: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  if (request.url === '/v1/models') {
    json(200, { object: 'list', data: models.map((model) => ({ object: 'model', owned_by: owner, ...model })) });
    return;
  }
  if (request.url === '/lora-adapters' && owner === 'llamacpp') {
    response.writeHead(200, { 'content-type': 'application/json' }).end('[{"id":0,"path":"a.gguf","scale":1}]');
    return;
  }
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer); // a stream without encoding gives buffers
  if (request.url !== '/v1/chat/completions') {
    json(404, { error: { message: 'no such route', type: 'not_found' } });
    return;
  }
  const body = JSON.parse(Buffer.concat(pieces).toString()) as ChatRequest; // only the doctor asks here
  const text = body.messages.map(({ role, content }) => `<${role}> ${content}`).join(' ');
  const ask: CacheAsk = {
    words: `${body.tools === undefined ? '' : `${JSON.stringify(body.tools)} `}${text}`.split(/\s+/),
    // Another adapter makes another model.
    model: `${body.model}${body.lora === undefined ? '' : JSON.stringify(body.lora)}`,
    session: body.user ?? '',
  };
  const cached = settings.rule(ask, before);
  before.push(ask);
  await new Promise((resolve) => void setTimeout(resolve, 3 + perWordMs * (ask.words.length - cached)));
  const usage = {
    prompt_tokens: ask.words.length,
    completion_tokens: body.max_tokens,
    ...(settings.reports ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
  };
  if (body.stream !== true) {
    json(200, {
      choices: [{ index: 0, message: { role: 'assistant', content: 'and so on' }, finish_reason: 'length' }],
      usage,
    });
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const event = (choices: readonly object[], more: object = {}) =>
    response.write(`data: ${JSON.stringify({ choices, ...more })}\n\n`);
  for (let index = 0; index < Math.min(400, body.max_tokens) && !response.destroyed; index += 1) {
    event([{ index: 0, delta: { content: 'on ' }, finish_reason: null }]);
    await new Promise((resolve) => void setTimeout(resolve, 2));
  }
  event([{ index: 0, delta: {}, finish_reason: 'length' }]);
  event([], { usage });
  response.end('data: [DONE]\n\n');
}
