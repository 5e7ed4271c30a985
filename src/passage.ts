/**
 * One request on its way through the pipeline: what is known of it, and how its end is told. State and pure readings of it;
 * `pipeline.ts` and the two files that it hands a passage to (`attempting.ts`, `own-answers.ts`) move it on.
 */
import type { Caller, Stay } from './access/port.ts';
import type { LiveStream } from './admit/online-feel.ts';
import type { Ask, Permit, Reclaimable } from './admit/owner.ts';
import { type Ending, gone, left } from './booking.ts';
import type { Recording } from './cache/recording.ts';
import { comesAsStream } from './classify/edit-body.ts';
import type { Job, StreamPlan } from './domain/job.ts';
import type { Engine, Phase } from './domain/names.ts';
import type { RequestRecord } from './domain/record.ts';
import type { Refusal } from './domain/refusal.ts';
import type { Errand, RouteNote } from './domain/routing.ts';
import type { RunningView } from './domain/running-view.ts';
import type { Observer, RequestProgress } from './measure/observer.ts';
import type { Link, PipelineSettings } from './pipeline-deps.ts';
import type { Place } from './platform/bag.ts';
import type { ClientHead, ClientPort } from './platform/client-port.ts';
import type { RequestBody } from './platform/upstream/port.ts';
import type { RelayEnd } from './relay/attempt.ts';
import { marksOfEnd } from './relay/judge.ts';
import type { RouteTold } from './relay/own-headers.ts';
import type { Relay } from './relay/relay.ts';

/** Where a request stood when its place was taken: its prompt was being computed, or its answer had begun. */
export type TakenIn = 'prompt' | 'answer';

/** What warmlane itself sends through: prompts that are brought into caches, and lines of batches. */
export type OwnTerms = WarmUpTerms | LineTerms;

export interface LineTerms {
  readonly kind: 'line';
  readonly tenant: string;
  /** It was taken back before and goes before others. */
  readonly again: boolean;
  /** Online work needs its place: it is to be left at once. Absent: nothing is ever taken back. */
  readonly taken?: (stage: TakenIn) => void;
  /** It was taken back so often that it stays, once its answer has begun. */
  readonly staysOnceBegun: boolean;
  /** How often its place was taken while its prompt was computed. */
  readonly promptsTaken: number;
  /** It has a place, at each attempt anew. Called in the turn of the grant. */
  readonly placed: () => void;
  /** Absent: it is sent as it is. */
  readonly mayStream?: StreamPlan;
  readonly booked: (record: RequestRecord, job: Job | undefined) => void;
  /** Nothing of it is left; also where its record was lost. */
  readonly over: () => void;
}

export interface WarmUpTerms {
  readonly kind: 'warm_up';
  /** The only one it may go to, and only if that is idle. */
  readonly backend: string;
  /** Somebody wants the place: it is to be left at once. */
  readonly yields: () => void;
  readonly booked: (record: RequestRecord, job: Job | undefined) => void;
  /** Nothing of it is left; also where its record was lost. */
  readonly over: () => void;
}

/** As the lanes see it, its numbers filled in when they look. */
export type PassageStream = { -readonly [key in keyof LiveStream]: LiveStream[key] } & RequestProgress;

export interface Passage {
  readonly head: ClientHead;
  readonly client: ClientPort;
  readonly terms: OwnTerms | undefined;
  /** Of the answer, where it may be kept. */
  recording: Recording | undefined;
  readonly observer: Observer;
  /** As they were when it began: a reload changes nothing of a request under way. */
  readonly settings: PipelineSettings;
  /** Known before the body; absent where nobody is asked. */
  caller: Caller | undefined;
  stay: Stay | undefined;
  /** What it may refer to; undefined: anything. */
  ids: Caller['ids'];
  /** Headers that stay here, lower case. */
  dropped: ReadonlySet<string> | undefined;
  job: Job | undefined;
  /** To the latest permit's backend, as it was at the grant. */
  link: Link | undefined;
  /** Of the latest permit. */
  errand: Errand | undefined;
  phase: Phase;
  backend: string | undefined;
  engine: Engine | undefined;
  /** Since the lanes looked at it first. */
  live: PassageStream | undefined;
  /** How often its place was taken back for online work, and how often of these while its prompt was computed. */
  reclaimed: number;
  promptsTaken: number;
  /** Where it went last and why, as its client is told. */
  route: RouteTold | undefined;
  attempts: number;
  relay: Relay | undefined;
  /** The client has a head: nothing else can be answered any more. */
  committed: boolean;
  /** Among those under way. */
  place: Place;
  /** Set while the passage waits for something that `endAll` must be able to end. */
  interrupt: ((refusal: Refusal) => void) | undefined;
}

/** How a request ends whose last attempt was its own end. */
export function endedBy(
  passage: Passage,
  end: Exclude<RelayEnd, { kind: 'failed' | 'broken' }>,
  permit: Permit,
): Ending {
  const marks = marksOfEnd(end, permit.backend.engine);
  if (end.kind === 'client_gone') {
    return {
      ...(passage.client.refusedWith === undefined ? gone(end.phase, end.reason) : left(passage.client, end.phase)),
      ...(end.status === undefined ? {} : { status: end.status }),
      marks,
    };
  }
  const { outcome, status, phase, spokenBy, reason } = end;
  const all = marks.length === 0 ? end.marks : [...end.marks, ...marks];
  return reason === undefined
    ? { outcome, status, phase, spokenBy, marks: all }
    : { outcome, status, phase, spokenBy, reason, marks: all };
}

export function isWarmUp({ terms }: Pick<Passage, 'terms'>): boolean {
  return terms?.kind === 'warm_up';
}

/** llama-server looks for closed clients between the events of a stream; an answer in one piece it makes to its end (R09). */
export function stopsOnLeaving({ engine }: Passage, job: Job): boolean {
  return engine !== 'llama-server' || comesAsStream(job, engine);
}

/** An answer in one piece shows nothing of where it stands: it counts as begun. */
export function standsIn({ engine, observer }: Passage, job: Job): TakenIn {
  return engine !== undefined && comesAsStream(job, engine) && observer.tokenEvents === 0 ? 'prompt' : 'answer';
}

interface AskedForLine extends Pick<Ask, 'job' | 'exclude' | 'again'> {
  readonly home: string | undefined;
}

/** How a line of a batch asks for a place: it has all the time in the world, and its place can be had back. */
export function askOfLine(passage: Passage, terms: LineTerms, asked: AskedForLine): Ask {
  const { job, exclude, again, home } = asked;
  const { taken, staysOnceBegun, promptsTaken } = terms;
  const affinity = home === undefined ? {} : { affinity: home };
  const ask: Ask = { job, exclude, again: again || terms.again, patient: true, promptsTaken, ...affinity };
  if (taken === undefined) return ask;
  const reclaim: Reclaimable = {
    loses() {
      if (!stopsOnLeaving(passage, job) || (staysOnceBegun && standsIn(passage, job) === 'answer')) return undefined;
      // What was computed of its prompt, if all of it must be, and every token so far.
      return (passage.errand?.uncachedTokens ?? 0) + passage.observer.tokenEvents;
    },
    take: () => taken(standsIn(passage, job)),
  };
  return { ...ask, reclaim };
}

export function asWarmUp(how: Ending): Ending {
  return { ...how, marks: [...(how.marks ?? []), 'warm_up'] };
}

/** It goes where it is meant for: that another backend holds more of it is no miss. */
export function withoutCause(note: RouteNote | undefined): RouteNote | undefined {
  if (note?.cause === undefined) return note;
  const { cause: _none, ...rest } = note;
  return rest;
}

/** It can be sent again. */
export function isResendable(body: RequestBody): boolean {
  return body.kind !== 'stream';
}

export function view(passage: Passage, nowMs: number): RunningView {
  const { head, job, backend, attempts } = passage;
  return {
    requestId: head.requestId,
    method: head.method,
    endpoint: job?.endpoint ?? 'other',
    path: head.target.split('?', 1)[0] ?? '',
    phase: passage.relay?.phase ?? passage.phase,
    ageMs: nowMs - head.receivedMs,
    attempts,
    ...(job?.model === undefined ? {} : { model: job.model }),
    ...(backend === undefined ? {} : { backend }),
  };
}
