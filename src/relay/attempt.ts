/**
 * What one attempt on one backend is given, what it tells others, and how it can end. Types only; `relay.ts` carries it out.
 */
import type { BackendView } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { Outcome, Phase } from '../domain/names.ts';
import type { RecordMark, TimelineMark } from '../domain/record.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { ClientHead, ClientPort } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import type { RequestBody, UpstreamClient, UpstreamFault, UpstreamTarget } from '../platform/upstream/port.ts';
import type { Step } from '../platform/steps.ts';
import type { AnswerTap } from './answer-reader.ts';
import type { RouteTold, TimesTold } from './own-headers.ts';
import type { RelaySettings } from './settings.ts';
import type { Ticker } from './ticker.ts';

/** What the relay sees of its backend, for those who keep the fleet's health. */
export interface BackendWitness {
  faulted(fault: UpstreamFault): void;
  /** A head, with the whole body where the status may mean something. @returns the backend takes no work now */
  answered(answer: { status: number; body: string; sentMs: number; generates: boolean }): boolean;
  /** An error event inside a stream. @returns it says that the engine died */
  streamError(message: string): boolean;
  /** A stream has been silent for a second: is the port still there? Returns how to stop asking. */
  quiet(): () => void;
}

export interface RelayTap extends AnswerTap {
  mark(name: TimelineMark, atMs: number): void;
  responseBytes(bytes: number): void;
  /** warmlane's own time for one read, sampled */
  ownTime(micros: number): void;
  /** Where the time went until the backend's head. */
  headTimes(): TimesTold;
}

export interface RelayRequest {
  readonly job: Job;
  readonly head: ClientHead;
  readonly backend: BackendView;
  readonly target: UpstreamTarget;
  /** Path prefix of the backend plus the request's target. */
  readonly path: string;
  /** Let go of once the exchange is opened: a stream that runs for minutes needs them no more. */
  headers: readonly string[];
  readonly body: RequestBody;
  readonly fresh: boolean;
  /** A pooled connection to the same backend died of this request a moment ago, stale or not. */
  readonly afterStale: boolean;
  readonly strip: boolean;
  /** Where it goes and why, as its client is told. */
  readonly route: RouteTold;
  /** What its client has left of its limits, raw names and values in turn; absent or empty: it has none. */
  readonly limits?: readonly string[] | undefined;
  /** Another backend may be asked if this one fails before the client got anything. */
  readonly elsewhere: boolean;
}

export interface RelayDeps {
  readonly clock: Clock;
  readonly ticker: Ticker;
  readonly upstream: UpstreamClient;
  readonly client: ClientPort;
  readonly tap: RelayTap;
  readonly settings: RelaySettings;
  readonly maxEventBytes: number;
  readonly witness: BackendWitness;
  /** The request was sent and can't be sent again: its body may be let go. Idempotent. */
  readonly bodyDone: () => void;
  /** Where whole answers gather that are to be ended. */
  readonly ends: Pick<Step, 'take'>;
}

export type RelayEnd = RelayEndKind & {
  /** We ended the exchange before the backend had said all: its engine may go on. */
  readonly aborted: boolean;
};

/** What may be tried with the same request. `reclaimed`: its place was wanted for another; it may come back there. */
export type Again = 'same_fresh' | 'elsewhere' | 'elsewhere_once' | 'reclaimed' | 'no';

export type RelayEndKind =
  /** The client has its answer, whole or cut. */
  | {
      readonly kind: 'answered';
      readonly outcome: Outcome;
      readonly reason?: string;
      readonly status: number;
      readonly phase: Phase;
      readonly spokenBy: 'warmlane' | 'backend';
      readonly marks: readonly RecordMark[];
    }
  | { readonly kind: 'client_gone'; readonly phase: Phase; readonly reason: string; readonly status?: number }
  /** The client has nothing yet. `again` says what may be tried with the same request. */
  | {
      readonly kind: 'failed';
      readonly refusal: Refusal;
      readonly phase: Phase;
      readonly again: Again;
    }
  /** A bug of ours: the exchange is over, the client has got who knows what. */
  | { readonly kind: 'broken'; readonly error: unknown; readonly phase: Phase };
