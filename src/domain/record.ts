/**
 * The measurement: what is learned from one finished request. Times are monotonic milliseconds with nanosecond fraction;
 * absent means unknown or did not happen, never zero.
 */
import type { Assessment } from './assessment.ts';
import type { EndpointKind, Engine, Lane, Outcome, Phase, StreamFormat, Warmth } from './names.ts';
import type { RouteNote } from './routing.ts';
import type { SketchData } from './sketch.ts';
import type { AttemptRecord, TraceIds } from './trace.ts';

/** Moments of one request on the monotonic clock (ms). */
export interface Timeline {
  /** head of the request parsed */
  received: number;
  /** last byte of the request body received */
  receivedLast?: number;
  classified?: number;
  queued?: number;
  admitted?: number;
  connected?: number;
  /** last byte of the request handed to the backend's socket */
  sent?: number;
  /** response head parsed */
  head?: number;
  /** first body byte */
  firstByte?: number;
  /** first event of any kind (role chunk, progress) */
  firstEvent?: number;
  /** role chunk seen */
  role?: number;
  /** first visible token: text, reasoning or tool-call delta */
  firstToken?: number;
  /** first token that is not reasoning */
  firstAnswer?: number;
  lastToken?: number;
  /** first finish reason */
  finish?: number;
  /** last body byte, or the moment it broke */
  end?: number;
}

export type TimelineMark = keyof Timeline;

export type CountSource =
  /** OpenAI-style usage, any dialect's spelling of it */
  | 'usage'
  /** llama-server's `timings` */
  | 'timings'
  /** native counters: tokens_predicted, eval_count … */
  | 'native'
  /** token ids or continuous usage in the events */
  | 'events_ids'
  /** number of token events: an estimate, marked as such */
  | 'events_estimate';

export interface Count {
  readonly value: number;
  readonly source: CountSource;
}

export interface TokenCounts {
  readonly prompt?: Count;
  readonly output?: Count;
  readonly reasoning?: Count;
  /** Prompt tokens served from the prefix cache; absent: the engine did not report (not zero). */
  readonly cached?: Count;
}

/** Honest notes on a record; a closed set. */
export type RecordMark =
  /** tokens that gave no event (R15): TPOT is taken over role chunk → finish chunk */
  | 'fewer_events_than_tokens'
  /** an event carried several tokens (speculation, stream interval; R16) */
  | 'several_tokens_per_event'
  /** at least one socket read carried several token events (R17) */
  | 'coalesced'
  /** the output count is an estimate from events */
  | 'estimated_tokens'
  /** reasoning was counted by the engine but not shown */
  | 'hidden_reasoning'
  /** the event loop lagged while this was measured: timings can't be trusted to the millisecond */
  | 'loop_lag'
  /** an event was too large to be read; counts may be missing */
  | 'event_too_large'
  /** an event's data was not JSON */
  | 'malformed_event'
  /** token stamps past the bound were counted, not kept */
  | 'stamps_capped'
  /** engine may still be working on it: the abort could not be seen to arrive (R09) */
  | 'engine_may_go_on'
  /** the answer ended without the format's end marker */
  | 'no_end_marker'
  /** answer is content-encoded, so it was not read */
  | 'encoded_answer'
  /** reading the answer failed by a bug of ours: it passed on unread */
  | 'reading_failed'
  /** the engine reported more cached tokens than the prompt has (summed over choices): taken for the whole prompt */
  | 'cached_clamped'
  /** nobody's request but warmlane's own: it brought a prompt into a cache ahead of time */
  | 'warm_up';

/**
 * Which window the TPOT was taken over, or why there is none.
 * `first_to_finish`: only the end token had no event (not marked), or as `role_to_finish` where there is no role chunk.
 */
export type TpotWindow =
  | 'visible'
  | 'role_to_finish'
  | 'first_to_finish'
  | 'none_single_token'
  | 'none_hidden_reasoning'
  | 'none_unknown_count'
  | 'none_not_streamed'
  | 'none_no_answer'
  | 'none_no_window';

export interface Figures {
  /** last request byte received → first visible token */
  readonly ttftMs?: number;
  /** request sent → first visible token */
  readonly upstreamTtftMs?: number;
  /** last request byte received → first event of any kind */
  readonly firstEventMs?: number;
  /** last request byte received → first token that is not reasoning */
  readonly ttfaMs?: number;
  /** (window end − window start) / (n − 1), per choice */
  readonly tpotMs?: number;
  readonly tpotWindow: TpotWindow;
  /** 1000 / tpotMs */
  readonly decodeTokensPerSecond?: number;
  /** output tokens / e2e */
  readonly overallTokensPerSecond?: number;
  /** last request byte received → last token (for an answer that was not streamed: → its end) */
  readonly e2eMs?: number;
  /** last request byte received → end of the answer */
  readonly durationMs: number;
  readonly queueMs?: number;
  readonly connectMs?: number;
  /** time in the engine before the first token, as far as it can be told from outside */
  readonly prefillMs?: number;
  /** `split`: engine queue and prefill are apart (llama-server's head, or its timings); `joint`: they can't be told apart here (R28) */
  readonly prefillKind?: 'split' | 'joint';
  /** engine's own queue, where the wire tells (llama-server: sent → head) */
  readonly engineQueueMs?: number;
  /** spent in warmlane before sending, without the queue */
  readonly overheadMs?: number;
  /** warmlane's own mean time per event, µs, if sampled */
  readonly overheadPerEventMicros?: number;
  /** largest gap between two consecutive token events of one choice */
  readonly maxItlMs?: number;
}

/** Every token event's moment. Parallel arrays of equal length; bounded per record. */
export interface TokenStamps {
  /** monotonic ms of each token event */
  readonly atMs: Float64Array;
  /** choice index of each; absent when all are 0 */
  readonly choice?: Uint16Array;
  /** tokens carried by each event where the wire told; absent when unknown or all 1 */
  readonly tokens?: Uint16Array;
  /** 1 where the event shared its socket read with the token event before it; absent when none did */
  readonly coalesced?: Uint8Array;
}

/** Time that a running stream lost to another request's prefill on the same backend (R20, R21). */
export interface PrefillStall {
  /** monotonic ms of the token before the first stretched gap */
  readonly atMs: number;
  /** what the stretched gaps took beyond the stream's usual gap */
  readonly durationMs: number;
  /** the request whose prefill it was */
  readonly requestId: string;
  /** prompt tokens that were computed for it; absent while it hadn't told yet */
  readonly promptTokens?: number;
}

/** One attempt whose failure was not the request's own end: another followed it, or was waited for. */
export interface FailedAttempt {
  readonly backend: string;
  readonly outcome: Outcome;
  /** what ended it, as a short machine word; absent when nobody told */
  readonly reason?: string;
}

export interface RequestRecord {
  readonly requestId: string;
  /** wall clock, ms since the epoch; for people only, never subtracted */
  readonly startedAtEpochMs: number;
  readonly endpoint: EndpointKind;
  readonly method: string;
  /** path without query */
  readonly path: string;
  readonly lane: Lane;
  /** whose it is, by the name in the config; absent where no key is asked for, or none was known */
  readonly tenant?: string;
  readonly model?: string;
  /** model named by the answer */
  readonly responseModel?: string;
  /** id that the answer gave itself, at most 128 characters; a longer one is absent */
  readonly responseId?: string;
  /** upper bound on output tokens, if the client gave one */
  readonly maxOutputTokens?: number;
  /** parallel choices asked for (`n`); absent when it is one */
  readonly choices?: number;
  readonly backend?: string;
  readonly engine?: Engine;
  readonly outcome: Outcome;
  /** which limit fired, which fault, which phase: short machine word */
  readonly reason?: string;
  /** phase in which it ended, when it did not end well */
  readonly phase?: Phase;
  /** HTTP status sent to the client; absent when it left before any */
  readonly status?: number;
  readonly spokenBy: 'warmlane' | 'backend';
  readonly attempts: number;
  /** how often online work took its place while it ran; absent: never */
  readonly reclaimed?: number;
  /** whether the answer streamed; where none came, whether that was asked for */
  readonly streamed: boolean;
  readonly format: StreamFormat;
  /** whole request body, as announced or counted; absent when neither is known */
  readonly requestBytes?: number;
  readonly responseBytes: number;
  /** token events seen (not tokens) */
  readonly events: number;
  readonly tokens: TokenCounts;
  readonly finishReasons: readonly string[];
  readonly warmth: Warmth;
  readonly timeline: Timeline;
  readonly figures: Figures;
  readonly stamps?: TokenStamps;
  /** longest first; absent when none was found */
  readonly stalls?: readonly PrefillStall[];
  readonly marks: readonly RecordMark[];
  /** gaps between token events of one choice, seconds; absent without a gap */
  readonly itl?: SketchData;
  /** why this backend was chosen: the reason on the permit */
  readonly routeReason?: string;
  /** the decision behind the last attempt; absent where nothing is known of the prompt */
  readonly routing?: RouteNote;
  /** in order; the attempt that ended as the request did is not among them. Absent when there were none */
  readonly failedAttempts?: readonly FailedAttempt[];
  /** absent while tracing is off */
  readonly trace?: TraceIds;
  /** by which name the client called this server (`Host`), at most 256 characters; absent while tracing is off */
  readonly host?: string;
  /** every attempt in order, the one that answered last; absent while tracing is off */
  readonly attemptLog?: readonly AttemptRecord[];
  /** filled in at booking, by what knows the settings and the other requests */
  readonly assessment?: Assessment;
}

/** An earlier answer given again: no engine had a part in it. */
export function isReplayed({ warmth }: Pick<RequestRecord, 'warmth'>): boolean {
  return warmth === 'replayed';
}

/** warmlane's own request: it tells of an engine, but not of how users fare. */
export function isWarmUp({ marks }: Pick<RequestRecord, 'marks'>): boolean {
  return marks.includes('warm_up');
}
