/**
 * How much of the time each backend computes prompts, of late: uncached prompt tokens that were sent there, fading. What comes
 * there soon will have to wait behind such work, or decode beside it. And how many were computed in all, so that it can be told
 * what an answer met. Bounded by the names of backends.
 */

/** So much of a rush is remembered: long against one prompt, short against a load's ups and downs. */
const fadeMs = 15_000;

interface Work {
  /** fading sum, as it was at `atMs` */
  tokens: number;
  atMs: number;
  /** of all prompts whose first token came, ever */
  computed: number;
}

export interface PrefillLoad {
  /** Share of its time that it is busy with prompts as fast as it computes them; above 1 while more comes than it can do. */
  share(backend: string, tokensPerSecond: number): number;
  /** So many tokens more are to be computed there. */
  add(backend: string, tokens: number): void;
  /**
   * Of those that were added so long ago it were so many more than was thought, or fewer: what is left of them by now. Of a
   * backend that was forgotten nothing is learnt.
   */
  correct(backend: string, tokens: number, agoMs: number): void;
  /** A first token came there: so many tokens more are computed. */
  done(backend: string, tokens: number): void;
  /** Tokens computed there so far, of prompts whose first token came; only differences mean something. */
  computed(backend: string): number;
  forget(backend: string): void;
}

export function createPrefillLoad({ nowMs }: { readonly nowMs: () => number }): PrefillLoad {
  const byBackend = new Map<string, Work>();
  const left = ({ tokens, atMs }: Work, now: number) => tokens * Math.exp((atMs - now) / fadeMs);
  return {
    share(backend, tokensPerSecond) {
      const work = byBackend.get(backend);
      if (work === undefined) return 0;
      return left(work, nowMs()) / (fadeMs / 1000) / tokensPerSecond;
    },
    add(backend, tokens) {
      const atMs = nowMs();
      const work = byBackend.get(backend);
      if (work === undefined) return void byBackend.set(backend, { tokens, atMs, computed: 0 });
      work.tokens = left(work, atMs) + tokens;
      work.atMs = atMs;
    },
    correct(backend, tokens, agoMs) {
      const atMs = nowMs();
      const work = byBackend.get(backend);
      if (work === undefined) return;
      work.tokens = Math.max(0, left(work, atMs) + tokens * Math.exp(-agoMs / fadeMs));
      work.atMs = atMs;
    },
    done(backend, tokens) {
      const work = byBackend.get(backend);
      if (work !== undefined) work.computed += tokens;
    },
    computed: (backend) => byBackend.get(backend)?.computed ?? 0,
    forget: (backend) => void byBackend.delete(backend),
  };
}
