/**
 * How health is asked for on each engine, and what the answer means. Pure.
 * Never a route that calls a model: SGLang's `/health` generates a token, so it is asked only while it isn't up.
 */
import type { BackendHealth } from '../domain/fleet.ts';
import type { Engine } from '../domain/names.ts';
import { isFailure, type ProbeResult } from './probe-port.ts';
import type { ProbeOutcome } from './health.ts';

export function healthPath(engine: Engine, health: BackendHealth): string {
  switch (engine) {
    case 'llama-server':
    case 'vllm':
    case 'tgi':
      return '/health';
    case 'sglang':
      return health === 'up' ? '/get_model_info' : '/health';
    case 'ollama':
      return '/';
    case 'openai':
      return '/v1/models';
  }
}

/** Any answer below 500 but 401 and 403 is a sign of life: a missing route says nothing about health. */
export function readHealthAnswer(engine: Engine, result: ProbeResult): ProbeOutcome {
  if (isFailure(result)) return { kind: 'failed', failure: result.failure };
  if (result.status === 401 || result.status === 403) return { kind: 'auth' };
  if (result.status < 500) return { kind: 'ok' };
  if (result.status !== 503) return { kind: 'bad_status' };
  if (engine === 'sglang' || /\bloading\b/i.test(result.body)) return { kind: 'loading' };
  return { kind: engine === 'vllm' || engine === 'tgi' ? 'engine_dead' : 'bad_status' };
}

const gravest: readonly ProbeOutcome['kind'][] = ['failed', 'engine_dead', 'bad_status', 'loading', 'auth', 'ok'];

/** The gravest of several outcomes of one round. */
export function worstOf(outcomes: readonly ProbeOutcome[]): ProbeOutcome {
  return outcomes.toSorted((a, b) => gravest.indexOf(a.kind) - gravest.indexOf(b.kind))[0] ?? { kind: 'ok' };
}
