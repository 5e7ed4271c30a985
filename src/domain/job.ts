/**
 * One classified request: what it asks for, without its bytes. Plain data, so that it may cross a process border
 * to the owner of fleet and queues. Holds no prompt text and no key.
 */
import type { EndpointKind, Engine, Lane, StreamFormat } from './names.ts';
import type { PrefixChain } from './prefix.ts';

/** A change of the request body inside one byte span: `[start, end)` of the received body is replaced by `text`. */
export interface BodyEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** How an answer that was not asked for as a stream can be had as one, where nothing is lost by it. */
export interface StreamPlan {
  /** On these alone. */
  readonly engines: readonly Engine[];
  /** In order of their places. */
  readonly edits: readonly BodyEdit[];
}

/** `value`: of the client's own. `first`: there is none, and others follow. `only`: the body has no members. */
export interface PriorityPlace {
  readonly kind: 'value' | 'first' | 'only';
  readonly start: number;
  readonly end: number;
  /** What to take out so that the client's own is gone; absent where there is none, or nothing else. */
  readonly removal?: { readonly start: number; readonly end: number };
}

/** What the body said about streamed usage, with the spans that a splice needs. Offsets are bytes into the received body. */
export interface UsageAsk {
  /** The client itself asked for `stream_options.include_usage: true`. */
  readonly byClient: boolean;
  /** Edit that makes the engine report usage; absent when nothing must change or nothing can be spliced safely. */
  readonly edit?: BodyEdit;
  /** `stream_options` stood there without `include_usage`: vLLM takes that for true, other engines for false. */
  readonly unstated?: true;
}

/** What an answer must be to be of use; present when a request asked for it and such checks are on. */
export interface AnswerShape {
  /** Tools were offered: the arguments of calls must be JSON. */
  readonly tools?: true;
  /** The answer must be JSON (`response_format`). */
  readonly json?: true;
}

export interface Job {
  readonly requestId: string;
  readonly endpoint: EndpointKind;
  readonly method: string;
  /** Path with query, exactly as received. */
  readonly target: string;
  /** Format in which a streamed answer to this endpoint speaks. */
  readonly format: StreamFormat;
  /** Takes an engine slot and yields tokens. */
  readonly generates: boolean;
  /** Model as the client named it; absent when not named or not readable. At most 512 characters. */
  readonly model?: string;
  /** The model that an alias stands for, where `model` is one: as it was when the request came. */
  readonly servedModel?: string;
  /** Byte span of the `model` value in the received body, for an alias splice: quotes included, unless `raw` (a form part). */
  readonly modelSpan?: { readonly start: number; readonly end: number; readonly raw?: true };
  /** A form whose file began before a `model` part came: one may still follow in what wasn't read (C119). */
  readonly modelUnread?: true;
  /** True only for a literal JSON `true`; the answer's content type decides in the end (Ollama defaults to true). */
  readonly stream: boolean;
  /** Of a line of a batch: whoever takes it gets it streamed, if it is one of these. */
  readonly mayStream?: StreamPlan;
  /** Parallel choices asked for (`n`), 1 unless stated; engine slots taken = choices × prompts. */
  readonly choices: number;
  /** Upper bound on output tokens if the client gave one. */
  readonly maxOutputTokens?: number;
  /** Bytes of request body (0 without one). A prompt token is about 4 bytes of it. */
  readonly bodyBytes: number;
  /** False when the body was not readable as one JSON object: forwarded untouched, nothing is known of it. */
  readonly readable: boolean;
  readonly lane: Lane;
  /** Whose it is, by the name in the config; absent: there is only one. */
  readonly tenant?: string;
  /** Share of what tenants of its lane get; absent: 1. */
  readonly weight?: number;
  readonly usage: UsageAsk;
  /** Where a member may be put in front of the others: just behind the opening brace. Present on readable bodies that stream. */
  readonly firstMember?: { readonly at: number; readonly empty: boolean };
  /**
   * Where the body's `priority` stands, or may be put: just behind the opening brace. Of readable bodies that generate; of those
   * that ask for vectors or scores only where it stands.
   */
  readonly priorityPlace?: PriorityPlace;
  /** The body may have a `priority` where nobody here can read it: in UTF-16, or compressed. */
  readonly priorityUnread?: true;
  /** `previous_response_id`, a response id in the path, or a conversation id: must go where it began. */
  readonly stickyKey?: string;
  /**
   * Every id in path, body and query that refers to what a backend keeps; the header's isn't among them, since it may begin one.
   * `unreadId`: there may be one that can't be read. Absent: none.
   */
  readonly refersTo?: readonly string[];
  /** The backend is to keep something under the id that its answer has: a chat (`store`), a conversation. */
  readonly stored?: true;
  /** The answer is to be read for tokens and counts, so `Accept-Encoding` is withheld upstream. */
  readonly measured: boolean;
  /** Profile that the request's header names (`X-Warmlane-Slo`), whether there is one or not. At most 64 characters. */
  readonly slo?: string;
  readonly shape?: AnswerShape;
  /**
   * The same bytes get the same answer, and nothing of it is kept at a backend: an earlier answer may stand for it (`always`), or
   * may if the client says that any will do (`on_request`). Absent: never.
   */
  readonly repeatable?: 'always' | 'on_request';
  /** Absent when the body says nothing of a prompt, or could not be read. */
  readonly prefix?: PrefixChain;
  /** What the client says of the session that it belongs to, with where it said it; at most 256 characters. */
  readonly session?: string;
  /** The same for the same request of the same client; absent unless repetitions are looked for. For comparing only, never shown. */
  readonly fingerprint?: string;
}

/** Stands for an id that can't be read: nothing has it. */
export const unreadId = '';

/** Whatever it was begun with, such a request brings its whole text along: any backend can answer it. */
export function isSelfContained({ endpoint, generates }: Job): boolean {
  return generates && endpoint !== 'responses';
}
