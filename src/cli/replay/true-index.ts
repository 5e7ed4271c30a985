/**
 * An index that is never wrong: it looks into the simulated engines' caches, and knows what is on its way to them. What a router
 * could do at best with perfect knowledge of where everything is.
 */
import type { BackendView } from '../../domain/fleet.ts';
import type { PrefixChain } from '../../domain/prefix.ts';
import type { Held, WarmIndex } from '../../route/warm/port.ts';
import type { Engine } from '../../sim/engine.ts';
import { kvTokensOf } from '../../sim/fleet/engine-models.ts';
import type { HashedPrompt } from '../../sim/prompt.ts';

export interface TrueIndexDeps {
  readonly engines: ReadonlyMap<string, Engine>;
  readonly promptOf: (chain: PrefixChain) => HashedPrompt;
}

export function createTrueIndex({ engines, promptOf }: TrueIndexDeps): WarmIndex {
  /** By backend: how many prompts on their way have each chunk. */
  const underWay = new Map<string, Map<number, number>>();
  const chunksOf = (backend: string) => {
    const known = underWay.get(backend);
    if (known !== undefined) return known;
    const made = new Map<number, number>();
    underWay.set(backend, made);
    return made;
  };

  function heldAt(backend: BackendView, chain: PrefixChain): Held {
    const prompt = promptOf(chain);
    const coming = chunksOf(backend.name);
    let chunks = 0;
    while (chunks < chain.keys.length && coming.has(chain.keys[chunks] ?? Number.NaN)) chunks += 1;
    const comingTokens = chunks === 0 ? 0 : ((chain.ends[chunks - 1] ?? 0) / chain.bytes) * prompt.tokenCount;
    const { blockTokens = 1 } = backend;
    const most = Math.min(comingTokens, prompt.tokenCount - 1);
    const tokens = Math.max(engines.get(backend.name)?.peek(prompt) ?? 0, Math.floor(most / blockTokens) * blockTokens);
    return { tokens, chunks, age: 1 };
  }

  return {
    look(chain, backends) {
      const held = new Map(backends.map((backend) => [backend.name, heldAt(backend, chain)]));
      let reusableTokens = 0;
      let reusableAt: string | undefined;
      for (const [name, { tokens }] of held) {
        if (tokens <= reusableTokens) continue;
        reusableTokens = tokens;
        reusableAt = name;
      }
      return {
        promptTokens: promptOf(chain).tokenCount,
        held,
        reusableTokens,
        ...(reusableAt === undefined ? {} : { reusableAt }),
        cause: () => undefined,
      };
    },
    visit({ name }, chain) {
      const coming = chunksOf(name);
      for (const key of chain.keys) coming.set(key, (coming.get(key) ?? 0) + 1);
      let open = true;
      /** From now on the engine's own cache tells. */
      const arrived = () => {
        if (!open) return;
        open = false;
        for (const key of chain.keys) {
          const left = (coming.get(key) ?? 1) - 1;
          if (left > 0) coming.set(key, left);
          else coming.delete(key);
        }
      };
      return { computed: arrived, end: arrived };
    },
    flush: (backend) => void underWay.delete(backend),
    fullShare(backend) {
      const engine = engines.get(backend);
      return engine === undefined ? 0 : Math.min(1, engine.view().heldTokens / kvTokensOf(engine.settings));
    },
    heldTokens: (backend) => engines.get(backend)?.view().heldTokens ?? 0,
    stats: () => ({ entries: 0, maxEntries: 0, bytes: 0, trimmed: 0, backends: [] }),
  };
}
