/** The index against a plain model of what it says it does: maps, and a walk from the first chunk on. */
import fc from 'fast-check';
import { expect, test } from 'vitest';

import { placeOf, type PrefixChain } from '../../../../src/domain/prefix.ts';
import type { Visit } from '../../../../src/route/warm/port.ts';
import { createWarmIndex } from '../../../../src/route/warm/warm-index.ts';
import { backendView, namedChain } from './chains.ts';

const names = ['a', 'b', 'c'];
const capacityTokens = 1000;
const horizon = capacityTokens * 1.25;

/** Tokens up to the end of chunk `index`, as nothing was learnt: 4 bytes each, and three for the one message. */
const tokensAt = (index: number) => 3 + 64 * (index + 1);

interface Sent {
  readonly backend: string;
  readonly chain: PrefixChain;
  readonly epoch: number;
  readonly before: number;
  readonly uncached: number;
  computed: boolean;
}

function createModel() {
  const backends = new Map<string, { stamps: Map<number, number>; inserted: number; epoch: number }>();
  const under = new Set<Sent>();
  const of = (name: string) => {
    const known = backends.get(name) ?? { stamps: new Map<number, number>(), inserted: 0, epoch: 0 };
    backends.set(name, known);
    return known;
  };
  const stampAll = (name: string, chain: PrefixChain, now: number) => {
    const { stamps } = of(name);
    chain.keys.forEach((key, at) => stamps.set(key, Math.max(stamps.get(key) ?? -Infinity, now - tokensAt(at))));
  };
  const leading = (chain: PrefixChain, holds: (key: number, at: number) => boolean): number => {
    const gap = [...chain.keys].findIndex((key, at) => !holds(key, at));
    return gap < 0 ? chain.keys.length : gap;
  };
  const young = (name: string, chain: PrefixChain): number => {
    const { stamps, inserted } = of(name);
    return leading(chain, (key) => (stamps.get(key) ?? -Infinity) > inserted - horizon);
  };
  const knownOn = (name: string, chain: PrefixChain): number => leading(chain, (key) => of(name).stamps.has(key));
  const held = (name: string, chain: PrefixChain): number => {
    const { stamps, inserted } = of(name);
    const inUse = [...under].filter(({ backend, computed }) => backend === name && computed);
    const isHeld = (key: number, at: number) =>
      (stamps.get(key) ?? -Infinity) > inserted - horizon ||
      (stamps.has(key) && inUse.some((sent) => sent.chain.keys[at] === key));
    return leading(chain, isHeld);
  };
  const promptTokens = (chain: PrefixChain) => tokensAt(chain.keys.length - 1);
  const heldTokens = (name: string, chain: PrefixChain) => {
    const chunks = held(name, chain);
    return chunks === 0 ? 0 : Math.min(tokensAt(chunks - 1), promptTokens(chain) - 1);
  };
  return {
    held,
    heldTokens,
    young,
    knownOn,
    known: (chain: PrefixChain) => Math.max(...names.map((name) => knownOn(name, chain))),
    visit(name: string, chain: PrefixChain): Sent {
      const backend = of(name);
      const before = backend.inserted;
      const uncached = Math.max(1, promptTokens(chain) - heldTokens(name, chain));
      backend.inserted += uncached;
      stampAll(name, chain, backend.inserted);
      const sent = { backend: name, chain, epoch: backend.epoch, before, uncached, computed: false };
      under.add(sent);
      return sent;
    },
    end(sent: Sent, outputTokens: number) {
      under.delete(sent);
      const backend = of(sent.backend);
      if (backend.epoch !== sent.epoch) return;
      backend.inserted += outputTokens;
      const waiting = [...under].filter((other) => other.backend === sent.backend && !other.computed);
      const now = backend.inserted - waiting.reduce((sum, { uncached }) => sum + uncached, 0);
      // Where next to nothing was inserted meanwhile, the stamps stay.
      if (now - sent.before - sent.uncached > horizon / 128) stampAll(sent.backend, sent.chain, now);
    },
    flush(name: string) {
      const { epoch } = of(name);
      backends.set(name, { stamps: new Map(), inserted: 0, epoch: epoch + 1 });
      for (const sent of under) if (sent.backend === name) under.delete(sent);
    },
  };
}

const action = fc.record({
  /** 0 to 99 */
  kind: fc.nat({ max: 99 }).map((chance) => {
    if (chance < 45) return 'visit';
    if (chance < 60) return 'computed';
    return chance < 98 ? 'end' : 'flush';
  }),
  backend: fc.constantFrom(...names),
  /** few names, so that beginnings are shared */
  chain: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 12, size: 'max' }),
  which: fc.nat(),
  outputTokens: fc.constantFrom(0, 40, 300),
});

test('holds what the plain model holds, chunk for chunk and token for token, after any visits, ends and flushes', () => {
  let gone = 0;
  let inUse = 0;
  fc.assert(
    fc.property(fc.array(action, { maxLength: 120, size: 'max' }), (actions) => {
      const policy = { blockTokens: 1, capacityTokens };
      const index = createWarmIndex(
        { maxEntries: 100_000, policies: { a: policy, b: policy, c: policy } },
        { nowMs: () => 1 },
      );
      const views = names.map((name) => backendView(name));
      const model = createModel();
      const open: { visit: Visit; sent: Sent }[] = [];
      let flushes = 0;
      for (const { kind, backend, chain: chunkNames, which, outputTokens } of actions) {
        const chain = namedChain(chunkNames);
        const view = views[names.indexOf(backend)] ?? backendView(backend);
        const look = index.look(chain, views, 'm');
        for (const name of names) {
          if (model.held(name, chain) < model.knownOn(name, chain)) gone += 1;
          if (model.held(name, chain) > model.young(name, chain)) inUse += 1;
          expect(look.held.get(name)?.chunks ?? 0).toBe(model.held(name, chain));
          expect(look.held.get(name)?.tokens ?? 0).toBe(model.heldTokens(name, chain));
        }
        expect(look.reusableTokens).toBe(Math.max(...names.map((name) => model.heldTokens(name, chain))));
        if (flushes === 0) {
          const known = model.known(chain);
          const differs = known > 0 && known < chain.keys.length;
          expect(look.divergence).toEqual(differs ? placeOf(chain, known) : undefined);
        }
        const at = open.length === 0 ? -1 : which % open.length;
        const chosen = open[at];
        if (kind === 'visit') open.push({ visit: index.visit(view, chain, 'm'), sent: model.visit(backend, chain) });
        else if (kind === 'flush') {
          index.flush(backend, 'restarted');
          model.flush(backend);
          flushes += 1;
        } else if (chosen !== undefined && kind === 'computed') {
          chosen.visit.computed();
          chosen.sent.computed = true;
        } else if (chosen !== undefined) {
          open.splice(at, 1);
          chosen.visit.end({ computed: true, outputTokens });
          chosen.visit.end({ computed: true, outputTokens: 100_000 });
          model.end(chosen.sent, outputTokens);
        }
      }
    }),
    { numRuns: 150 },
  );
  // Else it would have shown nothing.
  expect(gone).toBeGreaterThan(500);
  expect(inUse).toBeGreaterThan(50);
});
