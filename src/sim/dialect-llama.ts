/**
 * llama-server's HTTP API over the simulated engine: routes, order of checks, its small pool of HTTP threads.
 * Wire forms are in `llama/`. The head of a streamed answer comes when a slot starts it; until then there is nothing at all.
 */
import type { Clock } from '../platform/clock.ts';
import { readTurns, renderChat } from './chat-template.ts';
import { simulatedHeader, type Dialect, type Exchange, type ServerLife } from './dialect.ts';
import { createEngine } from './engine.ts';
import { prepareGeneration } from './generation.ts';
import { isJsonObject, readFlag, readIds, readString, type JsonObject } from './json-fields.ts';
import { modelListJson, propsJson } from './llama/about.ts';
import { createChatFormat, createCompletionsFormat } from './llama/chat.ts';
import type { LlamaFormat, LlamaFormatDeps } from './llama/format.ts';
import { readLlamaAsk, type LlamaAsk, type LlamaRoute } from './llama/intake.ts';
import { createMessagesFormat } from './llama/messages.ts';
import { createLlamaMetrics } from './llama/metrics.ts';
import { createNativeFormat } from './llama/native.ts';
import { createResponsesFormat } from './llama/responses.ts';
import { createSlotBook } from './llama/slots.ts';
import { runStream } from './llama/stream-run.ts';
import * as words from './llama/words.ts';
import { createSeededRandom, pick } from './seeded-random.ts';
import type { LlamaServerSettings } from './server-settings.ts';
import { createThreadPool } from './thread-pool.ts';
import { createPieceBook, encode, splitPieces } from './tokenizer.ts';

const generatingRoutes: Readonly<Record<string, LlamaRoute>> = {
  '/chat/completions': 'chat',
  '/v1/chat/completions': 'chat',
  '/v1/completions': 'completions',
  '/completion': 'native',
  '/completions': 'native',
  '/infill': 'infill',
  '/responses': 'responses',
  '/v1/responses': 'responses',
  '/v1/messages': 'messages',
};

const formats: Readonly<Record<LlamaRoute, (deps: LlamaFormatDeps) => LlamaFormat>> = {
  chat: createChatFormat,
  completions: createCompletionsFormat,
  native: createNativeFormat,
  infill: createNativeFormat,
  responses: createResponsesFormat,
  messages: createMessagesFormat,
};

/** Open without a key. */
const publicPaths = new Set(['/health', '/v1/health', '/models', '/v1/models']);
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'.split('');
const rememberedPieces = 65_536;

export function createLlamaDialect(settings: LlamaServerSettings, clock: Clock): Dialect {
  const { cache, maxSequences } = settings.engine;
  const contextTokens = cache.kind === 'slots' ? cache.slotTokens : cache.blocks * cache.blockTokens;
  const engine = createEngine(settings.engine, { clock });
  const metrics = createLlamaMetrics();
  const slotBook = createSlotBook();
  const random = createSeededRandom(settings.engine.seed);
  const book = createPieceBook(rememberedPieces);
  const threads = createThreadPool(settings.httpThreads);
  let life: ServerLife = 'ready';
  let tasks = 0;
  let lastTaskMs = 0;

  const nowSeconds = () => Math.floor(clock.wallMs() / 1000);
  const nextId = () => Array.from({ length: 32 }, () => pick(random, alphabet)).join('');
  const json = (exchange: Exchange, body: object) => words.sendJson(exchange, JSON.stringify(body));

  function generate(exchange: Exchange, route: LlamaRoute, release: () => void): void {
    const body = readJson(exchange);
    if (body === undefined) return release();
    const ask = readLlamaAsk(route, body, { slots: maxSequences, contextTokens });
    if ('refusal' in ask) {
      words.refuse(exchange, ask.refusal);
      return release();
    }
    start(exchange, ask, release);
  }

  function start(exchange: Exchange, ask: LlamaAsk, release: () => void): void {
    const generation = prepareGeneration(ask.generation, { engine, answer: settings.answer, random });
    const id = tasks;
    tasks += generation.plans.length;
    const format = formats[ask.route]({ ask, plans: generation.plans, model: settings.model, nextId, nowSeconds });
    runStream({
      clock,
      engine,
      metrics,
      exchange,
      ask,
      format,
      generation,
      pingIntervalMs: ask.pingIntervalMs ?? settings.pingIntervalMs,
      abortPollMs: settings.abortPollMs,
      lastTaskMs: () => lastTaskMs,
      isSilent: () => life === 'silent',
      began: (run) => slotBook.begin(run, { id: id + run.choice, params: ask.params }),
      released: release,
    });
  }

  /** The body, or undefined once it was refused. */
  function readJson(exchange: Exchange): JsonObject | undefined {
    try {
      const body: unknown = JSON.parse(exchange.body.toString());
      if (isJsonObject(body)) return body;
    } catch {
      // Refused below: to this server a body that isn't an object is as bad as one that isn't JSON.
    }
    words.refuse(exchange, words.badJson(exchange.body, settings.badJsonStatus));
    return undefined;
  }

  function withJson(use: (exchange: Exchange, body: JsonObject) => void): (exchange: Exchange) => void {
    return (exchange) => {
      const body = readJson(exchange);
      if (body !== undefined) use(exchange, body);
    };
  }
  const promptTokens = (body: JsonObject) =>
    encode(renderChat(readTurns(body['messages'] ?? body['input']) ?? [], body['tools'])).length;
  const unsupported = (message: string) => (exchange: Exchange) => words.refuse(exchange, words.unsupported(message));
  const health = (exchange: Exchange) => json(exchange, { status: 'ok' });
  const models = (exchange: Exchange) =>
    words.sendJson(exchange, modelListJson(settings.model, contextTokens, nowSeconds()));

  const plain: Readonly<Record<string, (exchange: Exchange) => void>> = {
    'GET /health': health,
    'GET /v1/health': health,
    'GET /models': models,
    'GET /v1/models': models,
    'GET /props': (exchange) => words.sendJson(exchange, propsJson(settings, contextTokens)),
    'GET /slots'(exchange) {
      lastTaskMs = clock.nowMs();
      const { slots } = engine.view();
      if (exchange.query.get('fail_on_no_slot') === '1' && slots.every((slot) => slot.busy))
        return words.refuse(exchange, words.noSlot);
      words.sendJson(exchange, slotBook.json(slots, contextTokens));
    },
    'GET /metrics'(exchange) {
      lastTaskMs = clock.nowMs();
      if (!settings.metrics)
        return words.refuse(
          exchange,
          words.unsupported('This server does not support metrics endpoint. Start it with `--metrics`'),
        );
      const before = ['Process-Start-Time-Unix', '1'];
      words.sendWhole(exchange, {
        status: 200,
        body: metrics.render(engine),
        type: 'text/plain; version=0.0.4',
        before,
      });
    },
    'GET /lora-adapters': (exchange) => words.sendJson(exchange, '[]'),
    'POST /tokenize': withJson((exchange, body) => {
      const text = readString(body, 'content') ?? '';
      const ids = [...book.remember(text)];
      const pieces = splitPieces(text);
      json(exchange, {
        tokens: readFlag(body, 'with_pieces') ? ids.map((id, index) => ({ id, piece: pieces[index] ?? '' })) : ids,
      });
    }),
    'POST /detokenize': withJson((exchange, body) =>
      json(exchange, { content: book.decode(readIds(body['tokens']) ?? []) }),
    ),
    'POST /apply-template': withJson((exchange, body) =>
      json(exchange, { prompt: renderChat(readTurns(body['messages']) ?? [], body['tools']) }),
    ),
    'POST /v1/messages/count_tokens': withJson((exchange, body) =>
      json(exchange, { input_tokens: promptTokens(body) }),
    ),
    'POST /v1/chat/completions/input_tokens': withJson((exchange, body) =>
      json(exchange, { input_tokens: promptTokens(body), object: 'response.input_tokens' }),
    ),
    'POST /v1/responses/input_tokens': withJson((exchange, body) =>
      json(exchange, { input_tokens: promptTokens(body), object: 'response.input_tokens' }),
    ),
    'POST /embeddings': unsupported('This server does not support embeddings. Start it with `--embeddings`'),
    'POST /v1/embeddings': unsupported('This server does not support embeddings. Start it with `--embeddings`'),
    'POST /rerank': unsupported('This server does not support reranking. Start it with `--reranking`'),
    'POST /v1/rerank': unsupported('This server does not support reranking. Start it with `--reranking`'),
  };

  function answer(exchange: Exchange, release: () => void): void {
    const { method, path } = exchange;
    const route = generatingRoutes[path];
    if (route !== undefined && method === 'POST') return generate(exchange, route, release);
    const handler = plain[`${method} ${path}`];
    if (handler === undefined) words.refuse(exchange, words.notFound);
    else handler(exchange);
    release();
  }

  return {
    engine,
    handle(exchange) {
      const isPreflight = exchange.method === 'OPTIONS';
      if (isPreflight) return preflight(exchange);
      // While the model loads, this comes before everything else, the key too.
      if (life === 'loading') return words.refuse(exchange, words.loading);
      if (!isAllowed(exchange, settings.apiKey)) return words.refuse(exchange, words.badKey);
      if (exchange.headers['content-encoding'] !== undefined) {
        const headers = [
          ...words.baseHeaders(exchange),
          'Content-Length',
          '0',
          'Connection',
          'close',
          ...simulatedHeader,
        ];
        return exchange.reply.whole({ status: 415, headers, body: '', close: true });
      }
      threads.run(exchange.reply, (release) => answer(exchange, release));
    },
    enter(next) {
      life = next;
      if (next === 'silent') engine.freeze();
      if (next === 'dead') engine.fail('The engine died.');
    },
  };
}

function preflight(exchange: Exchange): void {
  const cors = [
    ...['Access-Control-Allow-Credentials', 'true'],
    ...['Access-Control-Allow-Methods', 'GET, POST, DELETE, OPTIONS'],
    ...[
      'Access-Control-Allow-Headers',
      '*',
      'Content-Type',
      'text/html',
      'Keep-Alive',
      'timeout=5, max=100',
      'Content-Length',
      '0',
    ],
  ];
  exchange.reply.whole({
    status: 200,
    headers: [...words.baseHeaders(exchange), ...cors, ...simulatedHeader],
    body: '',
  });
}

function isAllowed(exchange: Exchange, apiKey: string | undefined): boolean {
  if (apiKey === undefined || publicPaths.has(exchange.path)) return true;
  const { authorization } = exchange.headers;
  return authorization === `Bearer ${apiKey}` || authorization === apiKey || exchange.headers['x-api-key'] === apiKey;
}
