/** What is kept of one decision: the prediction, its cause where it falls short, and what else was considered. Pure. */
import type { PolicyName, RouteNote } from '../domain/routing.ts';
import type { ConsideredBackend, MissCause } from '../domain/routing.ts';
import type { Decision } from './route.ts';
import type { Look } from './warm/port.ts';

/** The rest of a large fleet says nothing more. */
const mostConsidered = 16;

export interface NoteParts {
  readonly policy: PolicyName;
  readonly look: Look;
  /** absent when the target was chosen by others than a policy */
  readonly decision: Decision | undefined;
  /** where it was sent */
  readonly backend: string;
}

export function noteOf({ policy, look, decision, backend }: NoteParts): RouteNote {
  const { promptTokens, reusableTokens, reusableAt, divergence } = look;
  const note: { -readonly [key in keyof RouteNote]: RouteNote[key] } = {
    policy,
    promptTokens,
    reusableTokens,
    predictedTokens: look.held.get(backend)?.tokens ?? 0,
  };
  if (reusableAt !== undefined) note.reusableAt = reusableAt;
  const cause: MissCause | undefined = reusableTokens > note.predictedTokens ? 'rerouted' : look.cause(backend);
  if (cause !== undefined) note.cause = cause;
  if (divergence !== undefined) note.divergence = divergence;
  const cost = decision?.ranked.find((one) => one.backend.name === backend)?.cost;
  if (cost !== undefined) note.cost = cost;
  if (decision !== undefined) note.considered = consideredOf(decision, look);
  return note;
}

function consideredOf({ ranked, left, candidates }: Decision, look: Look): readonly ConsideredBackend[] {
  const considered: { -readonly [key in keyof ConsideredBackend]: ConsideredBackend[key] }[] = [];
  for (let i = 0; i < ranked.length && considered.length < mostConsidered; i += 1) {
    const one = ranked[i];
    if (one === undefined) break;
    const { backend, cost } = one;
    const heldTokens = look.held.get(backend.name)?.tokens ?? 0;
    considered.push(
      cost === undefined ? { backend: backend.name, heldTokens } : { backend: backend.name, heldTokens, cost },
    );
  }
  for (let i = 0; i < left.length && considered.length < mostConsidered; i += 1) {
    const one = left[i];
    if (one === undefined) break;
    const heldTokens = look.held.get(one.backend.name)?.tokens ?? 0;
    considered.push({ backend: one.backend.name, heldTokens, left: one.why });
  }
  for (const { weight, backend } of candidates) {
    if (weight === 1) continue;
    const one = considered.find((view) => view.backend === backend.name);
    if (one === undefined) continue;
    one.weight = weight;
    if (weight < (backend.weight ?? 1)) one.startsSlowly = true;
  }
  return considered;
}
