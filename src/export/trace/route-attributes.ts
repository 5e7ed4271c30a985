/** A routing decision as attributes of spans: what was predicted, what came of it, and what it was reckoned to cost. Pure. */
import type { RequestRecord } from '../../domain/record.ts';
import { put, type Writable } from './span.ts';

export function putRoute(attributes: Writable, { routing, tokens, assessment }: RequestRecord): void {
  if (routing === undefined) return;
  attributes['warmlane.route.policy'] = routing.policy;
  attributes['warmlane.route.tokens.reusable'] = routing.reusableTokens;
  attributes['warmlane.route.tokens.predicted'] = routing.predictedTokens;
  put(attributes, 'warmlane.route.tokens.delivered', tokens.cached?.value);
  put(attributes, 'warmlane.route.reusable_at', routing.reusableAt);
  put(attributes, 'warmlane.route.cause', routing.cause);
  const missed = assessment?.missed ?? [];
  if (missed.length > 0) {
    attributes['warmlane.route.missed.causes'] = missed.map(({ cause }) => cause);
    attributes['warmlane.route.missed.tokens'] = missed.map((one) => one.tokens);
  }
}

/** Seconds. */
export function putCost(attributes: Writable, { routing }: RequestRecord): void {
  const cost = routing?.cost;
  if (cost === undefined) return;
  const { total, queue, slot, prefill, copy, stall, decode, burden, network, bonus } = cost;
  attributes['warmlane.route.cost'] = micro(total);
  attributes['warmlane.route.cost.queue'] = micro(queue);
  attributes['warmlane.route.cost.slot'] = micro(slot);
  attributes['warmlane.route.cost.prefill'] = micro(prefill);
  attributes['warmlane.route.cost.copy'] = micro(copy);
  attributes['warmlane.route.cost.stall'] = micro(stall);
  attributes['warmlane.route.cost.decode'] = micro(decode);
  attributes['warmlane.route.cost.burden'] = micro(burden);
  attributes['warmlane.route.cost.network'] = micro(network);
  attributes['warmlane.route.cost.bonus'] = micro(bonus);
}

function micro(seconds: number): number {
  return Math.round(seconds * 1e6) / 1e6;
}
