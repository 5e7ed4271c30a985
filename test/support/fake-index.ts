/** A warm index that believes what a test says, and writes down what it is told. */
import type { Look, WarmIndex } from '../../src/route/warm/port.ts';

export interface FakeIndex extends WarmIndex {
  /** Tokens held of any prompt, by backend name; a prompt that is sent somewhere is held there as a whole from then on. */
  readonly held: Map<string, number>;
  readonly told: string[];
}

/** @param tokensOf tokens of a chain of so many bytes */
export function createFakeIndex(tokensOf: (bytes: number) => number = (bytes) => Math.ceil(bytes / 4)): FakeIndex {
  const held = new Map<string, number>();
  const told: string[] = [];
  /** By backend name and a prompt's first key. */
  const sent = new Map<string, Map<number, number>>();
  const heldOf = (name: string, key: number) => Math.max(held.get(name) ?? 0, sent.get(name)?.get(key) ?? 0);
  return {
    held,
    told,
    look(chain, backends): Look {
      const promptTokens = tokensOf(chain.bytes);
      const all = backends.map(({ name }) => [name, heldOf(name, chain.keys[0] ?? 0)] as const);
      const found = all.filter(([, tokens]) => tokens > 0);
      const best = found.toSorted(([, a], [, b]) => b - a)[0];
      return {
        promptTokens,
        held: new Map(
          found.map(([name, tokens]) => [name, { tokens: Math.min(tokens, promptTokens - 1), chunks: 1, age: 1 }]),
        ),
        reusableTokens: Math.min(best?.[1] ?? 0, promptTokens - 1),
        ...(best === undefined ? {} : { reusableAt: best[0] }),
        cause: () => 'new',
      };
    },
    visit(backend, chain) {
      told.push(`visit ${backend.name}`);
      const prompts = sent.get(backend.name) ?? new Map<number, number>();
      sent.set(backend.name, prompts.set(chain.keys[0] ?? 0, tokensOf(chain.bytes)));
      return {
        computed: () => void told.push(`computed ${backend.name}`),
        end: ({ computed }) => void told.push(`end ${backend.name} ${computed ? 'computed' : 'failed'}`),
      };
    },
    flush(backend, why) {
      told.push(`flush ${backend} ${why}`);
      held.delete(backend);
      sent.delete(backend);
    },
    fullShare: () => 1,
    heldTokens: (backend) =>
      [...(sent.get(backend)?.values() ?? [])].reduce((sum, tokens) => sum + tokens, held.get(backend) ?? 0),
    stats: () => ({ entries: 0, maxEntries: 0, bytes: 0, trimmed: 0, backends: [] }),
  };
}

/** A prompt of so many bytes in chunks of 256; those with the same seed begin alike. */
export function sampleChain(bytes: number, seed = 1) {
  const chunks = Math.max(1, Math.floor(bytes / 256));
  return {
    keys: Float64Array.from({ length: chunks }, (_, index) => seed * 1_000_003 + index),
    ends: Float64Array.from({ length: chunks }, (_, index) => Math.min(bytes, (index + 1) * 256)),
    parts: new Int32Array(chunks),
    bytes,
    wideBytes: 0,
  };
}
