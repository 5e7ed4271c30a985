/**
 * Finds out what answers at an address: the engine, its facts and its health, in one bounded round of probes.
 * Asks only routes that wake nothing and generate nothing, but SGLang's `/health` (see `health-answer.ts`).
 */
import type { Engine } from '../domain/names.ts';
import type { Clock } from '../platform/clock.ts';
import { readLlamaServer } from './engines/llama-server.ts';
import { looksLikeOllama, readOllama } from './engines/ollama.ts';
import { looksLikeSglang, readSglang } from './engines/sglang.ts';
import { looksLikeTgi, readTgi } from './engines/tgi.ts';
import { looksLikeVllm, readVllm } from './engines/vllm.ts';
import { known, readModelList, type Ask, type BackendFacts, type EngineReading, type ModelList } from './facts.ts';
import { healthPath, readHealthAnswer, worstOf } from './health-answer.ts';
import type { ProbeOutcome } from './health.ts';
import { isFailure, type ProbeFetch, type ProbeResult } from './probe-port.ts';

export interface DetectOptions {
  /** Engine that the config names: not doubted. */
  readonly configured?: Engine;
  /** What was found last time, given while the server has not gone away since: spares the guessing. */
  readonly previous?: Pick<BackendFacts, 'engine' | 'engineKnown'>;
}

export interface Detection {
  readonly outcome: ProbeOutcome;
  /** Absent when too little answered: what was known before holds. */
  readonly facts?: BackendFacts;
  /** A model server for certain: an engine was recognised, or it lists models. */
  readonly recognised: boolean;
}

/** An `Ask` whose questions share one time limit, counted from now. */
export function boundedAsk(fetch: ProbeFetch, clock: Clock, limits: { timeoutMs: number; signal?: AbortSignal }): Ask {
  const { signal, timeoutMs } = limits;
  const endMs = clock.nowMs() + timeoutMs;
  return async (path) => {
    const leftMs = endMs - clock.nowMs();
    if (leftMs <= 0) return { failure: 'timeout', detail: `nothing left of ${timeoutMs} ms` };
    return fetch(path, signal === undefined ? { timeoutMs: leftMs } : { timeoutMs: leftMs, signal });
  };
}

export async function detect(ask: Ask, options: DetectOptions): Promise<Detection> {
  const listing = await ask('/v1/models');
  if (isFailure(listing)) return { outcome: { kind: 'failed', failure: listing.failure }, recognised: false };
  const models = readModelList(listing);
  const named = options.configured ?? engineOf(listing, models);
  // Not its health route: a 503 here is no engine's word for its death.
  const outcome = readHealthAnswer('openai', listing);
  if (outcome.kind !== 'ok' && outcome.kind !== 'auth') {
    const recognised = named !== undefined;
    return recognised && outcome.kind === 'loading'
      ? { outcome, facts: factsOf(named, {}), recognised }
      : { outcome, recognised };
  }
  const { engine, sure } = await settleEngine(ask, named, { models, previous: options.previous });
  const health = healthPath(engine, options.previous === undefined ? 'unknown' : 'up');
  // Their list of models has said it already.
  const spoken = engine === 'llama-server' || engine === 'openai';
  const [reading, answer] = await Promise.all([readEngine(engine, ask, models), spoken ? listing : ask(health)]);
  const answers = [answer, ...reading.decisive];
  return {
    outcome: worstOf([outcome, ...answers.map((one) => readHealthAnswer(engine, one))]),
    facts: { ...factsOf(engine, reading.facts), engineKnown: sure },
    recognised: sure,
  };
}

async function settleEngine(
  ask: Ask,
  named: Engine | undefined,
  hints: { models: ModelList | undefined; previous: DetectOptions['previous'] },
): Promise<{ engine: Engine; sure: boolean }> {
  if (named !== undefined) return { engine: named, sure: true };
  const listed = hints.models !== undefined;
  if (hints.previous !== undefined)
    return { engine: hints.previous.engine, sure: listed || hints.previous.engineKnown };
  const guessed = await guess(ask);
  return { engine: guessed ?? 'openai', sure: listed || guessed !== undefined };
}

/** llama-server signs each answer, also while it loads and when it refuses; the others sign their models. */
function engineOf(listing: ProbeResult, models: ModelList | undefined): Engine | undefined {
  if (!isFailure(listing) && listing.headers['server'] === 'llama.cpp') return 'llama-server';
  if (models?.owner === 'llamacpp') return 'llama-server';
  return models?.owner === 'vllm' || models?.owner === 'sglang' ? models.owner : undefined;
}

async function guess(ask: Ask): Promise<Engine | undefined> {
  const signs = await Promise.all([looksLikeVllm(ask), looksLikeSglang(ask), looksLikeTgi(ask), looksLikeOllama(ask)]);
  const engines: readonly Engine[] = ['vllm', 'sglang', 'tgi', 'ollama'];
  return engines[signs.indexOf(true)];
}

async function readEngine(engine: Engine, ask: Ask, models: ModelList | undefined): Promise<EngineReading> {
  switch (engine) {
    case 'llama-server':
      return readLlamaServer(ask, models);
    case 'vllm':
      return readVllm(ask, models);
    case 'sglang':
      return readSglang(ask, models);
    case 'tgi':
      return readTgi(ask, models);
    case 'ollama':
      return readOllama(ask, models);
    case 'openai':
      return { facts: known({ models: models?.ids, contextTokens: models?.contextTokens }), decisive: [] };
  }
}

function factsOf(engine: Engine, facts: EngineReading['facts']): BackendFacts {
  return { engine, engineKnown: true, models: [], router: false, slotsReadable: false, advice: [], ...facts };
}
