/**
 * The port of the warm index: what each backend is believed to hold of which prompts. It is told of every prompt that is
 * sent and of every answer, and is wrong at times; it corrects itself. Knows no engine's wire format and no clock but what
 * it is given.
 */
import type { BackendView } from '../../domain/fleet.ts';
import type { PrefixChain, PromptPlace } from '../../domain/prefix.ts';
import type { AnswerTold, MissCause } from '../../domain/routing.ts';

/** How an engine reuses what it holds. */
export interface CachePolicy {
  /** Reuse is by whole blocks of so many tokens; 1: token by token. */
  readonly blockTokens: number;
  /** `prefix`: any beginning; `whole`: only when a held prompt is continued as a whole; `session`: only within a session; `none`. */
  readonly reuse: 'prefix' | 'whole' | 'session' | 'none';
  /** Tokens that it can hold, if told: where the estimate begins. It is corrected by answers. */
  readonly capacityTokens?: number;
}

/** What is believed of one prompt on one backend. */
export interface Held {
  /** tokens that the engine will take from its cache: whole blocks, at most the prompt less one token */
  readonly tokens: number;
  /** chunks of the chain that are believed to be held */
  readonly chunks: number;
  /** how near they are to being pushed out: 0 touched just now, 1 about to go or unknown; what they take in counts themselves */
  readonly age: number;
}

export interface Look {
  /** the prompt's tokens, as far as its bytes tell */
  readonly promptTokens: number;
  /** by backend name; one that is not there holds nothing */
  readonly held: ReadonlyMap<string, Held>;
  /** most tokens held anywhere */
  readonly reusableTokens: number;
  readonly reusableAt?: string;
  /** first chunk that no prompt seen before has, and where that is; absent when every chunk is known */
  readonly divergence?: PromptPlace;
  /** why `backend` does not hold more; undefined when it holds all that it can */
  cause(backend: string): MissCause | undefined;
}

/** One prompt on its way to one backend. */
export interface Visit {
  /** Its first token came: what it holds is in use until its end, and can't be evicted. */
  computed(): void;
  /** the answer is over, or the attempt failed; the first call counts */
  end(told: AnswerTold): void;
}

/** `zero_hits`: the index itself saw that nothing is held any more. */
export type FlushReason = 'restarted' | 'removed' | 'asked' | 'zero_hits';

export interface WarmIndex {
  /**
   * A prompt that is on its way counts as held, though it may not be computed yet: what begins alike should follow it.
   * vLLM shares its blocks as soon as they are computed. llama-server shares nothing with a slot that is busy: where its slots
   * are known, what it will take is predicted slot by slot, and a prompt that is on its way is of no use to another one yet.
   */
  look(chain: PrefixChain, backends: readonly BackendView[], model: string | undefined): Look;
  /** A prompt is sent: from now on it counts as held there. */
  visit(backend: BackendView, chain: PrefixChain, model: string | undefined): Visit;
  /** Nothing that was believed of this backend holds any more. */
  flush(backend: string, why: FlushReason): void;
  heldTokens(backend: string): number;
  /**
   * How full its cache is, 0 to 1: what comes in evicts something once it is. What was put in since it was last empty, over what
   * it can hold; where slots are mirrored, those that have a prompt. 0 where nothing is known of it.
   */
  fullShare(backend: string): number;
  /** For metrics and the admin listener. */
  stats(): WarmStats;
}

export interface WarmStats {
  readonly entries: number;
  readonly maxEntries: number;
  readonly bytes: number;
  /** pairs that had to make room for others, since the start */
  readonly trimmed: number;
  readonly backends: readonly {
    readonly backend: string;
    readonly entries: number;
    readonly heldTokens: number;
    /**
     * tokens inserted after which an untouched prefix is taken to be gone (Che's characteristic time); absent until an answer
     * bore out what the capacity told, or moved the first guess
     */
    readonly horizonTokens?: number;
    /** token-weighted mean of predicted less told, and of its size, as a share of the prompt; absent without an answer that told */
    readonly bias?: number;
    readonly error?: number;
    readonly flushes: number;
    /** how often the bias stood over ten points for five minutes, and the horizon began anew */
    readonly driftResets: number;
    /** llama-server: prompts that its slots and its cache in RAM are believed to have, by any way that it may be set up in */
    readonly sequences?: number;
    /** it told again and again that it had nothing of what it was sent before: taken to hold nothing until it does */
    readonly distrusted: boolean;
  }[];
}
