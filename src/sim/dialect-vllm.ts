/**
 * vLLM's HTTP API over the simulated engine: routes, order of checks, and the life of one generating request.
 * Wire forms are in `vllm/`. Head at once, even behind a full batch; an abort reaches the engine as soon as the socket closes.
 */
import type { Clock } from '../platform/clock.ts';
import type { Dialect, Exchange, ServerLife } from './dialect.ts';
import { createEngine, type Engine } from './engine.ts';
import { prepareGeneration } from './generation.ts';
import { isJsonObject, readIds, readString, type JsonObject } from './json-fields.ts';
import { createSeededRandom } from './seeded-random.ts';
import type { VllmServerSettings } from './server-settings.ts';
import { createPieceBook, encode } from './tokenizer.ts';
import { createChatFormat, createCompletionsFormat } from './vllm/chat.ts';
import type { FormatDeps, VllmFormat } from './vllm/format.ts';
import { readVllmAsk, type VllmAsk, type VllmRoute } from './vllm/intake.ts';
import { createMessagesFormat, messagesErrorBody } from './vllm/messages.ts';
import { createVllmMetrics } from './vllm/metrics.ts';
import { createResponsesFormat } from './vllm/responses.ts';
import * as words from './vllm/words.ts';
import { renderChat, readTurns } from './chat-template.ts';

const generatingRoutes: Readonly<Record<string, VllmRoute>> = {
  '/v1/chat/completions': 'chat',
  '/v1/completions': 'completions',
  '/v1/responses': 'responses',
  '/v1/messages': 'messages',
};

const formats: Readonly<Record<VllmRoute, (deps: FormatDeps) => VllmFormat>> = {
  chat: createChatFormat,
  completions: createCompletionsFormat,
  responses: createResponsesFormat,
  messages: createMessagesFormat,
};

/** Tokens that `/detokenize` can turn back; enough for what one person tries out. */
const rememberedPieces = 65_536;

export function createVllmDialect(settings: VllmServerSettings, clock: Clock): Dialect {
  const cache = settings.engine.cache;
  const blockTokens = cache.kind === 'blocks' ? cache.blockTokens : 0;
  const metrics = createVllmMetrics({
    model: settings.model,
    startedSeconds: clock.wallMs() / 1000,
    blockTokens,
    blocks: cache.kind === 'blocks' ? cache.blocks : 0,
    prefixCaching: cache.kind === 'blocks' && cache.prefixCaching,
  });
  const engine: Engine = createEngine(settings.engine, { clock, onStep: (tokens) => metrics.step(tokens) });
  const random = createSeededRandom(settings.engine.seed);
  const book = createPieceBook(rememberedPieces);
  let life: ServerLife = 'ready';

  const nowSeconds = () => Math.floor(clock.wallMs() / 1000);
  const json = (exchange: Exchange, status: number, body: unknown) =>
    words.sendJson(exchange.reply, clock.wallMs(), {
      status,
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  const refuse = (exchange: Exchange, refusal: words.VllmRefusal, route?: VllmRoute) =>
    json(exchange, refusal.status, route === 'messages' ? messagesErrorBody(refusal) : words.errorBody(refusal));
  const empty = (exchange: Exchange, status: number) =>
    exchange.reply.whole({ status, headers: words.wholeHeaders(clock.wallMs(), { bytes: 0 }), body: '' });
  const isFull = () => {
    const { running, waiting } = engine.view();
    return settings.maxQueuedRequests !== undefined && running + waiting >= settings.maxQueuedRequests;
  };

  function generate(exchange: Exchange, route: VllmRoute, body: JsonObject): void {
    if (life !== 'ready') return refuse(exchange, life === 'dead' ? words.engineDead : words.shuttingDown, route);
    const header = exchange.headers['x-vllm-priority'];
    const ask = readVllmAsk(route, body, {
      settings,
      ...(typeof header === 'string' ? { priorityHeader: header } : {}),
    });
    if ('refusal' in ask) return refuse(exchange, ask.refusal, route);
    if (isFull()) {
      metrics.rejected();
      return refuse(exchange, words.busy, route);
    }
    if (settings.frontendMs === 0) return run(exchange, ask, clock.nowMs());
    const arrivedMs = clock.nowMs();
    const timer = clock.timer(settings.frontendMs, () => run(exchange, ask, arrivedMs));
    exchange.reply.onGone(() => timer.cancel());
  }

  /** From the head to the end. */
  function run(exchange: Exchange, ask: VllmAsk, arrivedMs: number): void {
    const { reply } = exchange;
    const generation = prepareGeneration(ask.generation, { engine, answer: settings.answer, random });
    const format = formats[ask.route]({
      ask,
      plans: generation.plans,
      reply,
      id: requestId(exchange, random),
      model: settings.model,
      createdSeconds: nowSeconds(),
      promptTokensDetails: settings.promptTokensDetails,
      blockTokens,
    });
    const breakOff = (refusal: words.VllmRefusal) =>
      ask.stream ? format.fail(refusal) : refuse(exchange, refusal, ask.route);
    if (ask.stream) {
      reply.open({ status: 200, headers: words.streamHeaders(clock.wallMs()) });
      format.opened?.();
    }
    // A request that raced with others for the last place is refused only here: with a stream that is after the head.
    if (isFull()) {
      metrics.rejected();
      return breakOff(words.busy);
    }
    reply.onGone(() => generation.abort());
    const lastMs = generation.plans.map(() => arrivedMs);
    generation.start({
      token(choice, index, atMs) {
        metrics.token(index, atMs - (lastMs[choice] ?? atMs));
        lastMs[choice] = atMs;
        if (ask.stream) format.token(choice, index);
      },
      ended(_choice, end) {
        if (end.reason === 'stop' || end.reason === 'length') metrics.ended(end, arrivedMs);
      },
      done(ends) {
        if (reply.over) return;
        if (ends.some((end) => end.reason === 'failed')) breakOff(words.engineDead);
        else if (ask.stream) format.finish(ends);
        else words.sendJson(reply, clock.wallMs(), { status: 200, body: format.body(ends), inTwoWrites: true });
      },
    });
  }

  const plain: Readonly<Record<string, (exchange: Exchange) => void>> = {
    'GET /health': (exchange) => empty(exchange, life === 'dead' ? 503 : 200),
    'GET /ping': (exchange) => empty(exchange, life === 'dead' ? 503 : 200),
    'POST /ping': (exchange) => empty(exchange, life === 'dead' ? 503 : 200),
    'GET /version': (exchange) => json(exchange, 200, { version: words.vllmVersion }),
    'GET /load': (exchange) => json(exchange, 200, { server_load: 0 }),
    'GET /v1/models': (exchange) => json(exchange, 200, modelList(settings, nowSeconds())),
    'GET /metrics'(exchange) {
      const body = metrics.render(engine);
      const head = { bytes: Buffer.byteLength(body), type: 'text/plain; version=1.0.0; charset=utf-8' };
      exchange.reply.whole({ status: 200, headers: words.wholeHeaders(clock.wallMs(), head), body });
    },
    'POST /tokenize': (exchange) => withBody(exchange, (body) => json(exchange, 200, tokenizeAnswer(body))),
    'POST /detokenize': (exchange) =>
      withBody(exchange, (body) => json(exchange, 200, { prompt: book.decode(readIds(body['tokens']) ?? []) })),
    'POST /v1/messages/count_tokens': (exchange) =>
      withBody(exchange, (body) =>
        json(exchange, 200, {
          input_tokens: encode(renderChat(readTurns(body['messages']) ?? [], body['tools'])).length,
        }),
      ),
    'POST /reset_prefix_cache'(exchange) {
      engine.clearCache();
      json(exchange, 200, { success: true });
    },
  };

  function tokenizeAnswer(body: JsonObject): object {
    const turns = readTurns(body['messages']);
    const ids = book.remember(
      turns === undefined ? (readString(body, 'prompt') ?? '') : renderChat(turns, body['tools']),
    );
    return { count: ids.length, max_model_len: settings.contextTokens, tokens: [...ids], token_strs: null };
  }

  function withBody(exchange: Exchange, use: (body: JsonObject) => void): void {
    let body: unknown;
    try {
      body = JSON.parse(exchange.body.toString());
    } catch {
      return refuse(exchange, words.badJson(exchange.body));
    }
    if (isJsonObject(body)) use(body);
    else refuse(exchange, words.invalidField('', 'Input should be a valid dictionary'));
  }

  function handle(exchange: Exchange): void {
    const { method, path } = exchange;
    if (!isAllowed(exchange, settings.apiKey)) {
      const body = '{"error":"Unauthorized"}';
      const headers = words.wholeHeaders(clock.wallMs(), { bytes: body.length, type: 'application/json' });
      return exchange.reply.whole({ status: 401, headers, body });
    }
    const route = generatingRoutes[path];
    if (route !== undefined && method === 'POST') return withBody(exchange, (body) => generate(exchange, route, body));
    const answer = plain[`${method} ${path}`];
    if (answer !== undefined) return answer(exchange);
    const isKnown = route !== undefined || Object.keys(plain).some((key) => key.endsWith(` ${path}`));
    if (!isKnown) return json(exchange, 404, { detail: 'Not Found' });
    const body = '{"detail":"Method Not Allowed"}';
    const headers = words.wholeHeaders(clock.wallMs(), { bytes: body.length, type: 'application/json' });
    exchange.reply.whole({ status: 405, headers: [...headers, 'allow', method === 'GET' ? 'POST' : 'GET'], body });
  }

  return {
    engine,
    handle,
    enter(next) {
      life = next;
      if (next === 'dead') engine.fail(words.engineDead.message);
      if (next === 'silent') engine.freeze();
    },
  };
}

/** The key guards what is under these paths, and nothing else. */
function isAllowed(exchange: Exchange, apiKey: string | undefined): boolean {
  if (apiKey === undefined || !/^\/(v1|v2|inference|cohere)\//.test(exchange.path)) return true;
  return exchange.headers.authorization === `Bearer ${apiKey}`;
}

/** The client's `X-Request-Id`, else 16 hex digits. */
function requestId(exchange: Exchange, random: () => number): string {
  const header = exchange.headers['x-request-id'];
  if (typeof header === 'string' && header !== '') return header;
  const half = () =>
    Math.floor(random() * 4_294_967_296)
      .toString(16)
      .padStart(8, '0');
  return half() + half();
}

function modelList(settings: VllmServerSettings, createdSeconds: number): object {
  const permission = {
    id: 'modelperm-simulated',
    object: 'model_permission',
    created: createdSeconds,
    allow_create_engine: false,
    allow_sampling: true,
    allow_logprobs: true,
    allow_search_indices: false,
    allow_view: true,
    allow_fine_tuning: false,
    organization: '*',
    group: null,
    is_blocking: false,
  };
  const { model } = settings;
  const entry = {
    id: model,
    object: 'model',
    created: createdSeconds,
    owned_by: 'vllm',
    root: model,
    parent: null,
    max_model_len: settings.contextTokens,
  };
  return { object: 'list', data: [{ ...entry, permission: [permission] }] };
}
