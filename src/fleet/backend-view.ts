/** Makes what others see of one backend from what is known of it. Pure: settings come before findings. */
import type { BackendHealth, BackendView } from '../domain/fleet.ts';
import { adviceFor, noModels, type AdviceEvidence } from './advice.ts';
import type { BreakerState } from './breaker.ts';
import type { BackendFacts } from './facts.ts';
import type { HealthState } from './health.ts';
import type { BackendSettings } from './settings.ts';

export interface ViewInput {
  readonly facts: BackendFacts | undefined;
  readonly health: HealthState;
  readonly ghostSlots: number;
  readonly evidence: AdviceEvidence;
  readonly breaker: { readonly state: BreakerState; readonly sinceMs: number };
  /** Since when it is to take no new work; undefined while it may. */
  readonly drainedSinceMs: number | undefined;
  readonly backSinceMs: number | undefined;
  readonly restarts: number;
}

/** What is said of a backend's health: what was asked of it comes before what was found. */
export interface ShownHealth {
  readonly health: BackendHealth;
  readonly reason: string;
  readonly sinceMs: number;
}

export function shownHealth({
  health,
  breaker,
  drainedSinceMs,
}: Pick<ViewInput, 'health' | 'breaker' | 'drainedSinceMs'>): ShownHealth {
  if (drainedSinceMs !== undefined) return { health: 'draining', reason: 'asked', sinceMs: drainedSinceMs };
  const takesWork = health.health === 'up' || health.health === 'unknown';
  if (breaker.state === 'open' && takesWork) return { health: 'down', reason: 'ejected', sinceMs: breaker.sinceMs };
  return health;
}

export function viewOf(settings: BackendSettings, input: ViewInput): BackendView {
  const { facts, backSinceMs, restarts, breaker } = input;
  const health = shownHealth(input);
  const { weight, labels, source } = settings;
  const slots = settings.maxInFlight ?? facts?.slots;
  const engineKnown = settings.engine !== undefined || facts?.engineKnown === true;
  const models = settings.models ?? facts?.models ?? [];
  const advice = facts === undefined ? [] : [...adviceFor(facts, settings, input.evidence)];
  if (health.health === 'up' && !engineKnown && models.length === 0) advice.push(noModels);
  return Object.freeze({
    name: settings.name,
    url: settings.url,
    engine: settings.engine ?? facts?.engine ?? 'openai',
    engineKnown,
    ...(facts?.version === undefined ? {} : { version: facts.version }),
    health: health.health,
    healthReason: health.reason,
    healthSinceMs: health.sinceMs,
    models: Object.freeze([...models]),
    ...(slots === undefined ? {} : { slots }),
    ghostSlots: input.ghostSlots,
    ...(facts?.contextTokens === undefined ? {} : { contextTokens: facts.contextTokens }),
    ...(facts?.blockTokens === undefined ? {} : { blockTokens: facts.blockTokens }),
    ...(facts?.kvTokens === undefined ? {} : { kvTokens: facts.kvTokens }),
    ...(facts?.modelSize === undefined ? {} : { modelSize: facts.modelSize }),
    ...(facts?.maxSequences === undefined ? {} : { maxSequences: facts.maxSequences }),
    ...(weight === undefined ? {} : { weight }),
    ...(labels === undefined ? {} : { labels }),
    ...(source === undefined ? {} : { source }),
    ...(backSinceMs === undefined ? {} : { backSinceMs }),
    ...(restarts === 0 ? {} : { restarts }),
    ...(breaker.state === 'trial' ? { onTrial: true as const } : {}),
    advice: Object.freeze(advice),
  });
}
