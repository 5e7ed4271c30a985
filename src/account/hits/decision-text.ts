/** Why a request went where it went, in one sentence for people: `sent to b2: holds 3,120 of 4,096 prompt tokens; …`. Pure. */
import { isReplayed, isWarmUp, type RequestRecord } from '../../domain/record.ts';
import {
  alikeCosts,
  type ConsideredBackend,
  type RouteCost,
  type RouteNote,
  type RouteReason,
} from '../../domain/routing.ts';

export function decisionText(record: RequestRecord): string {
  const { backend, routeReason, routing, outcome, reason, spokenBy } = record;
  if (isReplayed(record)) return 'sent to no backend: answered from the answer cache';
  if (backend === undefined && outcome === 'ok' && spokenBy === 'warmlane')
    return 'sent to no backend: warmlane answers this itself';
  if (backend === undefined)
    return `sent to no backend: it ended before (${reason === undefined ? outcome : `${outcome}, ${reason}`})`;
  if (isWarmUp(record)) return `sent to ${backend}: to warm it up`;
  const parts = [...reasonText(backend, routeReason, routing), ...againstText(backend, routing)];
  const sent = `${waitedText(record)}sent to ${backend}`;
  return parts.length === 0 ? sent : `${sent}: ${parts.join('; ')}`;
}

/** Costs are those of the moment in which it was sent: what it waited before is in none of them. */
function waitedText({ figures, lane }: RequestRecord): string {
  const { queueMs = 0 } = figures;
  if (queueMs < worthSayingMs) return '';
  const where = lane === 'batch' ? "warmlane's batch lane" : 'warmlane';
  return `waited ${seconds(queueMs / 1000)} in ${where} for a place, then `;
}

const worthSayingMs = 100;

const plain: Readonly<Record<RouteReason, string | undefined>> = {
  only_backend: 'no other backend could have taken it',
  sticky: 'it keeps what this request refers to',
  last_resort: 'no backend that takes work serves its model',
  prefix: undefined,
  load_over_prefix: undefined,
  least_load: undefined,
  session: 'its session is at home there',
  hash: 'by the hash of its beginning',
  round_robin: 'its turn',
};

function reasonText(backend: string, reason: string | undefined, note: RouteNote | undefined): string[] {
  const word = reason !== undefined && Object.hasOwn(plain, reason) ? plain[reason as RouteReason] : reason; // an own key
  return [...(word === undefined ? [] : [word]), ...(note === undefined ? [] : [heldText(backend, note)])];
}

function heldText(backend: string, note: RouteNote): string {
  const { promptTokens, predictedTokens, reusableTokens, reusableAt } = note;
  const of = `of ${grouped(promptTokens)} prompt tokens`;
  if (reusableTokens === 0) return `nobody holds any ${of}`;
  const elsewhere =
    reusableTokens > predictedTokens && reusableAt !== undefined && reusableAt !== backend
      ? `, ${reusableAt} ${grouped(reusableTokens)}`
      : '';
  return `holds ${predictedTokens === 0 ? 'none' : grouped(predictedTokens)} ${of}${elsewhere}`;
}

/** Its cost beside that of the one that it would have gone to otherwise: who holds most, else who costs least. */
function againstText(backend: string, note: RouteNote | undefined): string[] {
  if (note?.cost === undefined) return [];
  const own = seconds(note.cost.total);
  const other = otherOf(backend, note);
  const self = note.considered?.find((one) => one.backend === backend);
  const starting = [...startingText(self), ...startingText(other)];
  if (other?.cost === undefined) return [own, ...starting];
  const beside = `${seconds(other.cost.total)} at ${other.backend}`;
  // Costs that are alike don't decide. A lower one that was passed over is that of a backend without a free slot.
  if (alike(note.cost.total, other.cost.total)) return [`${own}, much the same as ${beside}`, ...starting];
  if (other.cost.total < note.cost.total && other.cost.slot > 0)
    return [`${own} against ${beside}, where all slots were busy and waiting longer was not worth it`, ...starting];
  return [`${own} against ${beside}${loadText(other.cost)}`, ...starting];
}

/** Its seconds are no real ones then. */
function startingText(one: ConsideredBackend | undefined): string[] {
  if (one?.startsSlowly !== true || one.weight === undefined) return [];
  return [`${one.backend} is starting slowly and counts as ${Number(one.weight.toFixed(2))} of a backend`];
}

function alike(own: number, other: number): boolean {
  const { seconds: least, share, atMostSeconds } = alikeCosts;
  return Math.abs(own - other) <= Math.min(atMostSeconds, least + share * Math.min(own, other));
}

function otherOf(backend: string, { considered = [], reusableAt }: RouteNote): ConsideredBackend | undefined {
  const others = considered.filter(
    (one) =>
      one.backend !== backend && one.cost !== undefined && (one.left === undefined || one.left === 'not_worth_waiting'),
  );
  const warmest = others.find((one) => one.backend === reusableAt && one.heldTokens > 0);
  return warmest ?? others.toSorted((a, b) => (a.cost?.total ?? 0) - (b.cost?.total ?? 0))[0];
}

/** The largest part of what is in its way. */
function loadText({ queue, slot, stall, decode, burden }: RouteCost): string {
  const loads: readonly (readonly [string, number])[] = [
    ['other prompts wait', queue],
    ['all slots are busy', slot],
    ['streams would stand still', stall],
    ['streams decode more slowly', decode + burden],
  ];
  const [worst = ['', 0] as const] = loads.toSorted(([, a], [, b]) => b - a);
  const [what, cost] = worst;
  return cost < leastSeconds ? ', which is idle' : `, where ${what} (${seconds(cost)})`;
}

const leastSeconds = 0.001;

function seconds(value: number): string {
  return `${value.toFixed(value !== 0 && Math.abs(value) < 0.1 ? 3 : 2)} s`;
}

function grouped(tokens: number): string {
  return Math.round(tokens)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}
