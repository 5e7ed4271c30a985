/**
 * One look at a prompt: what each backend holds of it, where it first differs from all that was seen, and why a backend holds
 * no more. Reads the index, changes nothing.
 */
import type { BackendView } from '../../domain/fleet.ts';
import { placeOf, type PrefixChain } from '../../domain/prefix.ts';
import type { MissCause } from '../../domain/routing.ts';
import { searchDepth, seeBackend, knownChunks, type Depth, type Holder } from './holder.ts';
import type { Held, Look } from './port.ts';
import type { PromptEnds } from './prompt-ends.ts';
import { answerSentBack, continuationOn, tokensHeld, type Continuation, type PromptView } from './prompt-view.ts';
import { reusableTokens as reusableOf } from './cache-policy.ts';
import type { WarmSettings } from './settings.ts';
import type { StampTable } from './stamp-table.ts';

export interface LookDeps {
  readonly table: StampTable;
  readonly ends: PromptEnds;
  readonly holders: ReadonlyMap<string, Holder>;
  readonly settings: WarmSettings;
}

/** What one backend holds of one prompt. */
export interface Holding {
  readonly tokens: number;
  readonly chunks: number;
  readonly continuation: Continuation | undefined;
}

const nothing: Holding = { tokens: 0, chunks: 0, continuation: undefined };

/**
 * Sets `depth.resident` to what was found where slots are mirrored.
 * @param depth as found by `searchDepth` for this holder and prompt
 */
export function holdingOf(holder: Holder, view: PromptView, found: { depth: Depth; ends: PromptEnds }): Holding {
  const { reuse } = holder.policy;
  if (holder.mirror !== undefined) return mirroredHolding(holder, view, found.depth);
  let chunks = found.depth.resident;
  if (chunks === 0 || reuse === 'none' || holder.distrusted) return nothing;
  if (reuse !== 'prefix') {
    // The index is told of no sessions: within one a prompt grows, so that an earlier one's end is where it must go through.
    const end = found.ends.lastOf(holder.owner, view.chain, chunks);
    if (end === undefined) return nothing;
    chunks = end.chunk + 1;
  }
  const continuation = continuationOn(holder, view, chunks);
  const answerTokens = view.answersKept ? (continuation?.tokens ?? 0) : 0;
  return { tokens: tokensHeld(view, holder, { chunks, answerTokens, scale: 1 }), chunks, continuation };
}

function mirroredHolding({ mirror, policy, distrusted }: Holder, view: PromptView, depth: Depth): Holding {
  depth.resident = 0;
  if (mirror === undefined || distrusted) return nothing;
  const { tokens, chunks, continued } = mirror.predict(view);
  if (chunks === 0) return nothing;
  depth.resident = chunks;
  const continuation =
    continued === undefined
      ? undefined
      : { fromTokens: continued.promptTokens, tokens: answerSentBack(view, chunks, continued.answerTokens) };
  return { tokens: reusableOf(policy, tokens, view.promptTokens), chunks, continuation };
}

export function lookAt(view: PromptView, backends: readonly BackendView[], deps: LookDeps): Look {
  const { table, holders, ends, settings } = deps;
  const { chain, promptTokens } = view;
  const held = new Map<string, Held>();
  const known = new Int32Array(backends.length);
  const depth: Depth = { known: 0, resident: 0, shared: 0 };
  let reusableTokens = 0;
  let best: { readonly holder: Holder; readonly chunks: number } | undefined;
  let deepest = 0;
  let deepestResident = 0;
  let looked = 0;
  for (let index = 0; index < backends.length; index += 1) {
    const backend = backends[index];
    const holder = backend === undefined ? undefined : holders.get(backend.name);
    if (backend === undefined || holder === undefined) continue;
    looked += 1;
    seeBackend(holder, backend, settings);
    searchDepth(table, holder, chain, depth);
    known[index] = depth.known;
    deepest = Math.max(deepest, depth.known, formerly(table, holder, view));
    const { tokens, chunks } = holdingOf(holder, view, { depth, ends });
    deepestResident = Math.max(deepestResident, depth.resident);
    if (chunks === 0) continue;
    held.set(backend.name, { tokens, chunks, age: ageOf(table, { holder, chunks }, chain) });
    if (tokens > reusableTokens) {
      reusableTokens = tokens;
      best = { holder, chunks };
    }
  }
  if (looked < holders.size) deepest = Math.max(deepest, elsewhere(view, backends, deps));
  const differs = deepest > 0 && deepest < chain.keys.length;
  return {
    promptTokens,
    held,
    reusableTokens,
    ...(best === undefined ? {} : { reusableAt: best.holder.name }),
    ...(differs ? { divergence: placeOf(chain, deepest) } : {}),
    cause(name) {
      const index = backends.findIndex((backend) => backend.name === name);
      const holder = holders.get(name);
      const mine = held.get(name);
      return causeOf(view, {
        knownChunks: index < 0 ? 0 : (known[index] ?? 0),
        formerChunks: holder === undefined ? 0 : formerly(table, holder, view),
        tokens: mine?.tokens ?? 0,
        chunks: mine?.chunks ?? 0,
        deepest,
        deepestResident,
      });
    },
  };
}

/** Of the last chunk held: by what was inserted there since, as a share of what pushes it out. */
function ageOf(
  table: StampTable,
  { holder, chunks }: { holder: Holder; chunks: number },
  { keys }: PrefixChain,
): number {
  const key = keys[chunks - 1];
  if (holder.mirror !== undefined || key === undefined) return 1;
  const { inserted, tokens } = holder.horizon;
  return Math.max(0, Math.min(1, (inserted - table.stampOf(key, holder.owner)) / tokens));
}

function formerly(table: StampTable, holder: Holder, { chain }: PromptView): number {
  return holder.formerOwner === 0 ? 0 : knownChunks(table, holder.formerOwner, chain);
}

/** Deepest that a backend knows which is not among those asked about. */
function elsewhere({ chain }: PromptView, backends: readonly BackendView[], { table, holders }: LookDeps): number {
  const asked = new Set(backends.map(({ name }) => name));
  let deepest = 0;
  for (const holder of holders.values())
    if (!asked.has(holder.name)) deepest = Math.max(deepest, knownChunks(table, holder.owner, chain));
  return deepest;
}

interface Found {
  readonly knownChunks: number;
  readonly formerChunks: number;
  readonly tokens: number;
  readonly chunks: number;
  /** over all backends */
  readonly deepest: number;
  readonly deepestResident: number;
}

/** That another backend holds more is for the chooser to say. */
function causeOf({ chain, promptTokens }: PromptView, found: Found): MissCause | undefined {
  if (found.tokens >= promptTokens - 1) return undefined;
  if (found.chunks === chain.keys.length && found.chunks > 0) return 'unaligned';
  if (found.formerChunks > found.knownChunks && found.formerChunks > found.chunks) return 'restarted';
  if (found.knownChunks > found.chunks) return 'evicted';
  // Seen elsewhere, and held nowhere any more.
  if (found.deepest > found.chunks && found.deepestResident <= found.chunks) return 'evicted';
  return found.chunks === 0 ? 'new' : 'diverged';
}
