/**
 * Words and values of routing by warm prefixes: policies, reasons, costs, and what a record keeps of a decision.
 * Values only. Absent is unknown, never zero.
 */
import type { PromptPlace } from './prefix.ts';

export const policyNames = [
  /** marginal cost in seconds, the default */
  'warm',
  'round-robin',
  'least-load',
  /** by session hint, else by the prompt's beginning */
  'session',
  /** consistent hashing with bounded loads */
  'chwbl',
  /** llm-d's rule: warm ones only, until they are saturated */
  'sticky-until-saturated',
  /** SGLang's rule */
  'cache-aware',
] as const;

export type PolicyName = (typeof policyNames)[number];

/** Why a backend was chosen, as a short machine word for logs, headers and records. */
export type RouteReason =
  | 'only_backend'
  /** it keeps what this request refers to */
  | 'sticky'
  /** nobody who takes work serves the model */
  | 'last_resort'
  /** holds the longest prefix, and that decided */
  | 'prefix'
  /** another one holds more of the prompt, but is too busy */
  | 'load_over_prefix'
  /** nobody holds any of it: the least cost otherwise */
  | 'least_load'
  | 'session'
  | 'hash'
  | 'round_robin';

/** One backend's cost for one job, in seconds: the terms and their sum. */
export interface RouteCost {
  readonly total: number;
  /** prompts sent there before and not computed yet */
  readonly queue: number;
  /** waiting for a slot to be free; 0 where there is one */
  readonly slot: number;
  /** this prompt's own uncached tokens, with what they evict */
  readonly prefill: number;
  /** the room that it takes for what another one holds already */
  readonly copy: number;
  /** what its prefill takes from the streams that decode there */
  readonly stall: number;
  /** how much slower than alone its own tokens will come there, prompts between them included */
  readonly decode: number;
  /** how much slower it makes the others' tokens */
  readonly burden: number;
  readonly network: number;
  /** taken off for a session that is at home there */
  readonly bonus: number;
}

/** Costs that differ by no more than this are alike: what is learnt of two equal machines differs by more. */
export const alikeCosts = {
  seconds: 0.001,
  /** added to that, of the smaller one */
  share: 0.02,
  atMostSeconds: 0.02,
} as const;

/** Why prompt tokens that could have come from a cache did not, or why none could. */
export type MissCause =
  /** no beginning like this was ever seen */
  | 'new'
  /** the nearest prompt seen differs from here on */
  | 'diverged'
  /** was held, and had to make room */
  | 'evicted'
  /** held elsewhere; that backend was too busy, or could not be had */
  | 'rerouted'
  /** the backend that held it was started anew */
  | 'restarted'
  /** shorter than a cache block, or the rest of one */
  | 'unaligned'
  /** predicted to be held, but the engine had it no more */
  | 'not_delivered';

/** What is known of one decision; on the record once the request is over. Tokens are predictions made at dispatch. */
export interface RouteNote {
  readonly policy: PolicyName;
  readonly promptTokens: number;
  /** most of the prompt that any backend of its pool held, and which one */
  readonly reusableTokens: number;
  readonly reusableAt?: string;
  /** held where it was sent: the prediction */
  readonly predictedTokens: number;
  /** why not all that could be reused was, or why the prompt is not held further; absent when all of it was held */
  readonly cause?: MissCause;
  /** where the prompt first differs from the nearest one seen; absent when it goes on to its end, or nothing was seen */
  readonly divergence?: PromptPlace;
  /** cost where it was sent; absent for policies that don't count in seconds */
  readonly cost?: RouteCost;
  /** what the whole decision looked like, for `/explain`; absent on records that are written out */
  readonly considered?: readonly ConsideredBackend[];
}

export interface ConsideredBackend {
  readonly backend: string;
  readonly heldTokens: number;
  readonly cost?: RouteCost;
  /** relative capacity that its cost was counted with: seconds are real ones at 1, which is meant where it is absent */
  readonly weight?: number;
  /** that is less than the config's, because it came back a short while ago */
  readonly startsSlowly?: true;
  /** why it was not among those to choose from */
  readonly left?: 'failed_before' | 'other_model' | 'takes_no_work' | 'too_small' | 'not_worth_waiting';
}

/** What an answer told of its prompt and pace. Absent: not told. */
export interface AnswerTold {
  /** the prompt was computed: the answer came to its first token, or ended well */
  readonly computed: boolean;
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  /** of all its choices */
  readonly outputTokens?: number;
  /** that came to their end: not every engine gives as many as are asked for */
  readonly choices?: number;
  /** request sent → first token; ms */
  readonly upstreamTtftMs?: number;
  /** between two tokens of one choice */
  readonly tpotMs?: number;
  /** permit → connection; next to nothing on one that was open */
  readonly connectMs?: number;
  /** the engine's own figure (llama-server's `timings`) */
  readonly prefillTokensPerSecond?: number;
}

/** What goes with one permit: the decision behind it, and the ear for its answer. */
export interface Errand {
  /** absent where nothing is known of the prompt */
  readonly note?: RouteNote;
  /** of the prompt, as predicted; 0 for jobs that don't generate */
  readonly promptTokens: number;
  readonly uncachedTokens: number;
  /** What computing those alone takes there, at the speed that is known; ms. */
  readonly promptMs?: number;
  /** Its first token came. Called by who keeps its permit. */
  computed?(): void;
  /** The attempt is over; the first call counts. */
  ended(told: AnswerTold): void;
}
