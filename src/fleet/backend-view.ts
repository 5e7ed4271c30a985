/** Makes what others see of one backend from what is known of it. Pure: settings come before findings. */
import type { BackendView } from '../domain/fleet.ts';
import { adviceFor, noModels, type AdviceEvidence } from './advice.ts';
import type { BackendFacts } from './facts.ts';
import type { HealthState } from './health.ts';
import type { BackendSettings } from './settings.ts';

export interface ViewInput {
  readonly facts: BackendFacts | undefined;
  readonly health: HealthState;
  readonly ghostSlots: number;
  readonly evidence: AdviceEvidence;
}

export function viewOf(settings: BackendSettings, input: ViewInput): BackendView {
  const { facts, health } = input;
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
    advice: Object.freeze(advice),
  });
}
