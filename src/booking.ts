/**
 * The end of a request: its one record, and what is learnt from it. Must not touch the client or the backend.
 * `pipeline.ts` calls it once per request, however that ended.
 */
import type { Stay } from './access/port.ts';
import type { Job } from './domain/job.ts';
import type { Outcome, Phase } from './domain/names.ts';
import { isReplayed, type RecordMark, type RequestRecord } from './domain/record.ts';
import type { AnswerTold, Errand } from './domain/routing.ts';
import { isBegunBy } from './kept-answers.ts';
import type { Observer } from './measure/observer.ts';
import type { Link, PipelineDeps } from './pipeline-deps.ts';
import type { ClientHead, ClientPort } from './platform/client-port.ts';

/** How a passage ended, in the record's words. */
export interface Ending {
  readonly outcome: Outcome;
  readonly phase: Phase;
  readonly spokenBy: 'warmlane' | 'backend';
  readonly status?: number;
  readonly reason?: string;
  readonly marks?: readonly RecordMark[];
  /** An earlier answer was given again. */
  readonly replayed?: true;
}

export interface BookedPassage {
  readonly head: ClientHead;
  readonly observer: Observer;
  readonly job: Job | undefined;
  /** To the latest permit's backend. */
  readonly link: Link | undefined;
  readonly errand: Errand | undefined;
  readonly attempts: number;
  /** How often its place was taken for online work. */
  readonly reclaimed?: number;
  /** Who asks; absent where nobody is asked. */
  readonly caller: { readonly preflight?: true } | undefined;
  /** Its right to be here. */
  readonly stay: Pick<Stay, 'ended'> | undefined;
  /** Of the answer, where it may be kept. */
  readonly recording: { settle(record: RequestRecord): void } | undefined;
  /** What nobody but warmlane asked for. */
  readonly terms: { readonly booked: (record: RequestRecord, job: Job | undefined) => void } | undefined;
}

type BookingDeps = Pick<PipelineDeps, 'clock' | 'log' | 'sticky' | 'sinks' | 'assess' | 'later' | 'warmUp'>;

/** @returns books one ended passage; never throws */
export function createBooking(deps: BookingDeps): (passage: BookedPassage, how: Ending) => void {
  const { clock, log } = deps;

  function book(passage: BookedPassage, how: Ending): void {
    const record = passage.observer.finish({
      attempts: passage.attempts,
      reclaimed: passage.reclaimed,
      atMs: clock.nowMs(),
      ...how,
    });
    const { failure } = passage.observer;
    if (failure !== undefined)
      log.error('reading an answer failed; it passed unread', {
        requestId: record.requestId,
        error: errorText(failure),
      });
    passage.errand?.ended(toldBy(record));
    learn(record, passage);
    if (deps.later === undefined) look(record, passage.job);
    else lookLater(deps.later, record, passage.job);
    passage.recording?.settle(record);
    deps.warmUp?.recorded(record, passage.job);
    passage.stay?.ended(countsOf(record));
    passage.terms?.booked(record, passage.job);
  }

  /** A function of its own, so that what waits is a record and not all that its request had in hand. */
  function lookLater(later: NonNullable<BookingDeps['later']>, record: RequestRecord, job: Job | undefined): void {
    later.add(() => look(record, job));
  }

  /** Nobody waits for it. */
  function look(record: RequestRecord, job: Job | undefined): void {
    try {
      deps.assess(record, job);
    } catch (error) {
      log.error('a record was not assessed', { requestId: record.requestId, error: errorText(error) });
    }
    deps.sinks.add(record);
  }

  function learn(record: RequestRecord, { observer, job, link, caller }: BookedPassage): void {
    const { backend } = record;
    if (backend === undefined) return;
    const { responseId } = observer;
    const { stickyKey, tenant } = job ?? {};
    // Only of an answer that was read: JSON, and no error.
    const isKept = job?.endpoint === 'responses' || job?.stored === true;
    if (responseId !== undefined && isKept) deps.sticky.remember(responseId, backend, tenant);
    // An abandoned one may be taken up again where it runs on (llama-server's resumable streams).
    const began = record.outcome === 'ok' || record.outcome === 'client_abort';
    if (began && stickyKey !== undefined && caller?.preflight !== true) {
      const owner = job !== undefined && isBegunBy(job) ? tenant : deps.sticky.find(stickyKey)?.tenant;
      deps.sticky.remember(stickyKey, backend, owner);
    }
    if (record.outcome === 'ok' && job?.generates === true) {
      const { prompt, cached } = record.tokens;
      link?.member?.noteAnswer({ usage: prompt !== undefined, cached: cached !== undefined });
    }
  }

  return (passage, how) => {
    try {
      book(passage, how);
    } catch (error) {
      // Measuring must never break serving (rule 10).
      log.error('a record was lost', { requestId: passage.head.requestId, error: errorText(error) });
    }
  };
}

/** The client is gone: it left, or its request was ended for being late or no HTTP. */
export function left({ refusedWith }: ClientPort, phase: Phase): Ending {
  if (refusedWith === undefined) return gone(phase, 'client_left');
  return { outcome: 'client_error', ...refusedWith, phase, spokenBy: 'warmlane' };
}

export function gone(phase: Phase, reason: string): Ending {
  return { outcome: 'client_abort', phase, spokenBy: 'warmlane', reason };
}

export function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

const noTokens = { prompt: 0, output: 0 };

/** What the engine had to do for it; where it brought no whole answer, what is known to have come. */
function countsOf(record: RequestRecord): { prompt?: number; output?: number } {
  if (record.backend === undefined || isReplayed(record)) return noTokens;
  const { outcome, streamed, events } = record;
  const { prompt, output } = record.tokens;
  const worked = outcome === 'ok' || outcome === 'client_abort';
  const counts: { prompt?: number; output?: number } = {};
  if (prompt !== undefined) counts.prompt = prompt.value;
  else if (!worked) counts.prompt = 0;
  if (output !== undefined) counts.output = output.value;
  else if (!worked || streamed) counts.output = events;
  return counts;
}

/** What a record says of its prompt and of the backend's pace. */
function toldBy({ outcome, tokens, figures, timeline, finishReasons }: RequestRecord): AnswerTold {
  const told: { -readonly [key in keyof AnswerTold]: AnswerTold[key] } = {
    computed: outcome === 'ok' || timeline.firstToken !== undefined,
  };
  const { prompt, cached, output } = tokens;
  const { upstreamTtftMs, tpotMs, connectMs, prefillMs, prefillKind } = figures;
  if (prompt !== undefined) told.promptTokens = prompt.value;
  if (cached !== undefined) told.cachedTokens = cached.value;
  if (output !== undefined) told.outputTokens = output.value;
  if (outcome === 'ok' && finishReasons.length > 0) told.choices = finishReasons.length;
  if (upstreamTtftMs !== undefined) told.upstreamTtftMs = upstreamTtftMs;
  if (tpotMs !== undefined) told.tpotMs = tpotMs;
  if (connectMs !== undefined) told.connectMs = connectMs;
  if (prefillKind === 'split' && prefillMs !== undefined && prompt !== undefined && cached !== undefined)
    if (prefillMs > 0) told.prefillTokensPerSecond = ((prompt.value - cached.value) * 1000) / prefillMs;
  return told;
}
