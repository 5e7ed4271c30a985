/**
 * How each engine reuses what it holds, and what that makes of tokens in common: whole blocks, never a prompt's last token.
 * Pure; what an engine is, is told by its view and by the config.
 */
import type { BackendView } from '../../domain/fleet.ts';
import type { Engine } from '../../domain/names.ts';
import type { CachePolicy } from './port.ts';

/** What block size to believe where the engine tells none. vLLM tells its own (16; 128 on CPU). */
const usualBlockTokens: Readonly<Record<Engine, number>> = {
  vllm: 16,
  'llama-server': 1,
  sglang: 1,
  tgi: 1,
  ollama: 1,
  openai: 16,
};

/** llama-server keeps 8 GiB of states in RAM beside its slots, of unknown size each: rather too much than too little. */
const slotsAndRam = 4;
/** Where nothing is told: high, since that costs routing least. */
export const unknownHorizonTokens = 1_000_000;
/** Told capacities are the engine's own, estimates are not: the beginning errs high. */
const horizonShare = 1.25;

export function cachePolicyFor(backend: BackendView, configured: Partial<CachePolicy> = {}): CachePolicy {
  const capacityTokens = configured.capacityTokens ?? toldCapacity(backend);
  const blockTokens = configured.blockTokens ?? backend.blockTokens ?? usualBlockTokens[backend.engine];
  return {
    blockTokens: Math.max(1, Math.floor(blockTokens)),
    reuse: configured.reuse ?? 'prefix',
    ...(capacityTokens === undefined ? {} : { capacityTokens }),
  };
}

function toldCapacity({ engine, kvTokens, slots, contextTokens }: BackendView): number | undefined {
  if (kvTokens !== undefined && kvTokens > 0) return kvTokens;
  if (engine !== 'llama-server' || slots === undefined || contextTokens === undefined) return undefined;
  return slots * contextTokens * slotsAndRam;
}

/** Tokens inserted after which something untouched is first taken to be gone. */
export function firstHorizonTokens({ capacityTokens }: CachePolicy): number {
  return capacityTokens === undefined ? unknownHorizonTokens : capacityTokens * horizonShare;
}

/**
 * Tokens that the engine takes from its cache when so many leading ones of a prompt are held.
 * vLLM: full blocks, and none that has the last token; llama-server: all but the last token.
 */
export function reusableTokens({ blockTokens }: CachePolicy, heldTokens: number, promptTokens: number): number {
  const held = Math.floor(heldTokens / blockTokens) * blockTokens;
  const most = Math.floor((promptTokens - 1) / blockTokens) * blockTokens;
  return Math.max(0, Math.min(held, most));
}
