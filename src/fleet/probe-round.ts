/**
 * One round of probes of one backend: as much as is needed now, all together, within one time limit.
 * Decides nothing about health; the caller feeds the outcome to `health.ts`.
 */
import type { Engine } from '../domain/names.ts';
import { detect, type DetectOptions } from './detect.ts';
import { readBusySlots } from './engines/llama-server.ts';
import type { Ask, BackendFacts } from './facts.ts';
import { healthPath, readHealthAnswer } from './health-answer.ts';
import type { HealthState, ProbeOutcome } from './health.ts';

/** Facts of one that is up are read anew so often: models come and go, and a quick restart leaves no other trace. */
const factsMaxAgeMs = 60_000;

export interface RoundInput {
  readonly health: HealthState;
  readonly facts: BackendFacts | undefined;
  /** Age of the facts in ms; Infinity when they must be read anew. */
  readonly factsAgeMs: number;
  /** Ask which slots are busy, too. */
  readonly wantsSlots: boolean;
  readonly configured: Engine | undefined;
}

export interface RoundResult {
  readonly outcome: ProbeOutcome;
  readonly facts?: BackendFacts;
  readonly busySlots?: number;
}

export async function runRound(ask: Ask, input: RoundInput): Promise<RoundResult> {
  const { facts, health } = input;
  if (facts === undefined || needsFacts(input)) return readAll(ask, input);
  const path = healthPath(facts.engine, health.health);
  const outcome = readHealthAnswer(facts.engine, await ask(path));
  if (outcome.kind !== 'ok') return { outcome };
  if (health.health === 'down' || health.health === 'loading') return readAll(ask, input);
  const busySlots = input.wantsSlots && facts.slotsReadable ? await readBusySlots(ask) : undefined;
  return busySlots === undefined ? { outcome } : { outcome, busySlots };
}

/** One that is down or loading is first asked for its health alone; one that refused the key has to be asked for facts. */
function needsFacts(input: RoundInput): boolean {
  const { health } = input.health;
  if (health === 'auth' || health === 'unknown') return true;
  // The health route of an unknown engine is its list of models, which is all its facts.
  return health === 'up' && (input.factsAgeMs >= factsMaxAgeMs || input.facts?.engine === 'openai');
}

async function readAll(ask: Ask, input: RoundInput): Promise<RoundResult> {
  const { facts, configured } = input;
  const stayed = input.health.health === 'up' || input.health.health === 'auth';
  const options: DetectOptions = {
    ...(configured === undefined ? {} : { configured }),
    ...(stayed && facts !== undefined ? { previous: facts } : {}),
  };
  const { outcome, facts: found } = await detect(ask, options);
  return found === undefined ? { outcome } : { outcome, facts: found };
}
