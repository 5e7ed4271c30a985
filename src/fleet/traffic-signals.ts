/**
 * What an answer of the traffic says about its backend: the engines' own words for draining, loading and death.
 * Pure; the pipeline reports the result to the fleet.
 */
import type { FleetSignal } from './health.ts';

export interface AnswerSeen {
  readonly status: number;
  /** The answer's beginning as text; '' where it wasn't read. */
  readonly body: string;
  /** When the request was sent, monotonic ms. */
  readonly sentMs: number;
  /** Of a generating route: an engine slot took it. */
  readonly generates: boolean;
}

/** @returns undefined when the answer says nothing about health, as each 4xx (C062, C065) */
export function signalOfAnswer(answer: AnswerSeen): FleetSignal | undefined {
  const { status, body, sentMs, generates } = answer;
  if (status < 400) return { kind: 'answered', sentMs, generates };
  if (status === 500 && body.includes('cannot schedule new futures after shutdown')) return { kind: 'drainingAnswer' };
  if (status === 503 && /\bloading model\b/i.test(body)) return { kind: 'loadingAnswer' };
  return undefined;
}

/** @param message of an error event inside a stream; vLLM's words for an engine that died (R06) */
export function signalOfStreamError(message: string): FleetSignal | undefined {
  return /EngineCore encountered an issue|EngineDeadError|engine is dead/i.test(message)
    ? { kind: 'engineDied' }
    : undefined;
}
