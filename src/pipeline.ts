/**
 * Read this first. The life of one request, top to bottom, with the error exit beside each step:
 *
 *   receive   body in, scanned as it comes        → 413, 503 memory full, client gone
 *   classify  bytes and headers → Job             → 400 duplicate key, 403 closed route, …
 *   admit     Job → Permit, waiting if it must    → 404 model, 429 queue full, 503 waited too long, client gone
 *   relay     bytes to the client, every event seen → another backend, 502, 504, error event and an unclean end
 *   measure   one record                          → always
 *   export    log line, kept records              → a failing exporter costs a count, nothing else
 */
import type { LiveStream } from './admit/online-feel.ts';
import type { Ask, Permit } from './admit/owner.ts';
import { createAttempts } from './attempting.ts';
import { createBooking, type Ending, gone, left } from './booking.ts';
import { classify } from './classify/classify.ts';
import { findEndpoint } from './classify/endpoint-table.ts';
import { modelAfterFile } from './classify/refusals.ts';
import { planBody, receive, type Received } from './classify/receive.ts';
import { isSelfContained, type Job } from './domain/job.ts';
import { isRefusal, type Refusal } from './domain/refusal.ts';
import type { RunningView } from './domain/running-view.ts';
import { anonymousTenant } from './domain/tenant.ts';
import { liveStreamOf } from './live-stream.ts';
import { createKeptAnswers, type KeptAnswers } from './kept-answers.ts';
import { createColdStarts } from './measure/cold-starts.ts';
import { createObserver } from './measure/observer.ts';
import { answerList, broke, refuse } from './own-answers.ts';
import { askOfLine, asWarmUp, endedBy, isResendable, isWarmUp, type OwnTerms, type Passage, view } from './passage.ts';
import type { PipelineDeps } from './pipeline-deps.ts';
import { Bag } from './platform/bag.ts';
import type { ClientHead, ClientPort, ClientUpload } from './platform/client-port.ts';
import { createSteps } from './platform/steps.ts';
import { reclaimableOf } from './reclaiming.ts';
import type { RelayEnd } from './relay/attempt.ts';
import { marksOfEnd } from './relay/judge.ts';
import { killerRefusal, loopRefusal } from './relay/refusals.ts';
import { isLoop } from './relay/request-head.ts';

export interface Pipeline {
  /** Serves one request to its end. Never throws; the client always gets an answer or a cut. */
  serve(head: ClientHead, upload: ClientUpload, client: ClientPort, terms?: OwnTerms): void;
  running(): readonly RunningView[];
  /** Shows each generating request that is at a backend now, as far as it has come. */
  streams(visit: (stream: LiveStream) => void): void;
  /** Whose is what backends keep, for other ways to them. */
  readonly kept: KeptAnswers;
  /** New requests are refused from now on; what waits or runs goes on. */
  drain(refusal: Refusal): void;
  /** Ends what still runs, visibly unfinished. */
  endAll(refusal: Refusal): void;
  /** Resolves when nothing runs. */
  idle(): Promise<void>;
}

interface Asking {
  readonly job: Job;
  readonly received: Received;
  readonly exclude: readonly string[];
  readonly home: string | undefined;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };

/** Nobody else has the job yet. */
function own(job: Job, tenant: string, weight: number): void {
  if (tenant !== anonymousTenant) Object.assign(job, { tenant, weight });
}

export function createPipeline(deps: PipelineDeps): Pipeline {
  const { clock, log } = deps;
  const book = createBooking(deps);
  /** In the order of a turn: places that come free are known to who asks; who was let in is sent on at once. */
  const steps = createSteps(['end', 'leave', 'ask', 'send', 'book']);
  const { barred, relayed, afterwards } = createAttempts({ ...deps, send: steps.send, ends: steps.end });
  const passages = new Bag<Passage>();
  const kept = createKeptAnswers(deps.sticky, () => passages.toArray());
  const idlers: (() => void)[] = [];
  const coldStarts = createColdStarts();
  deps.fleet.onChange((fleet) => coldStarts.seen(fleet));
  let closing: Refusal | undefined;
  /** Set by `endAll`: nobody goes a step further. */
  let ending: Refusal | undefined;

  async function run(passage: Passage, upload: ClientUpload): Promise<Ending> {
    const { head, observer } = passage;
    if (closing !== undefined) return refuse(passage, closing);
    if (isLoop(head.header('via'))) return refuse(passage, loopRefusal());
    const caller = passage.terms === undefined ? deps.access?.caller(head) : undefined;
    if (caller !== undefined && isRefusal(caller)) return refuse(passage, caller);
    passage.caller = caller;
    passage.dropped = caller?.dropped;

    const endpoint = findEndpoint(head.method, head.target);
    const contentType = head.header('content-type');
    const plan = planBody(upload, contentType, endpoint);
    const received = await receive(
      upload,
      { kind: plan, contentType, prompt: endpoint.generates ? endpoint.reads : undefined },
      {
        witness: {
          bytes: (total) => observer.requestBytes(total),
          last: () => observer.mark('receivedLast', clock.nowMs()),
        },
        stoppable: (stop) => (passage.interrupt = stop),
        maxBodyBytes: deps.receiving.maxBodyBytes,
        keys: deps.receiving.keys,
        prompts: deps.receiving.prompts,
        budget: deps.receiving.budget,
      },
    );
    passage.interrupt = undefined;
    if (received === 'gone') return left(passage.client, 'receiving');
    if (isRefusal(received)) return refuse(passage, received);
    await steps.ask.reached();
    if (ending !== undefined) {
      received.release();
      return refuse(passage, ending);
    }
    try {
      const job = classify(head, received, passage.settings.classify);
      received.scan = undefined;
      received.prompt = undefined;
      observer.mark('classified', clock.nowMs());
      if (isRefusal(job)) return refuse(passage, job);
      if (job.modelUnread === true && deps.fleet.snapshot().backends.length > 1)
        return refuse(passage, modelAfterFile());
      const fingerprint = deps.fingerprint?.(head, received.body);
      // Nobody else has the job yet: it need not be copied.
      if (fingerprint !== undefined) Object.assign(job, { fingerprint });
      passage.job = job;
      const refused = placed(passage, job) ?? bound(passage, job);
      observer.classified(job);
      if (refused !== undefined) return refuse(passage, refused);
      const listed = job.endpoint === 'models' ? await listModels(passage) : replayed(passage, job, received);
      if (listed !== undefined) return listed;
      if (passage.terms === undefined) deps.warmUp?.saw(job, received.body);
      return await answerJob(passage, job, received);
    } finally {
      received.release();
    }
  }

  /** Puts tenant and lane on the job, which nobody else has yet; or says why it may not go on. */
  function placed(passage: Passage, job: Job): Refusal | undefined {
    const { caller, head, terms } = passage;
    const { access } = deps;
    if (terms !== undefined) {
      Object.assign(job, { lane: 'batch' });
      const line = terms.kind === 'line' ? access?.line(terms.tenant, job) : undefined;
      if (terms.kind === 'line') own(job, terms.tenant, line === undefined || isRefusal(line) ? 1 : line.weight);
      if (terms.kind === 'line' && terms.mayStream !== undefined) Object.assign(job, { mayStream: terms.mayStream });
      if (line === undefined || isRefusal(line)) return line;
      passage.ids = line.ids;
      return undefined;
    }
    if (caller === undefined || access === undefined) return undefined;
    own(job, caller.tenant, caller.weight);
    // Before it may be refused: that counts in its lane too.
    Object.assign(job, { lane: access.lane(caller, head, job) });
    const stay = access.place(caller, job);
    if (isRefusal(stay)) return stay;
    passage.stay = stay;
    passage.ids = caller.ids;
    return undefined;
  }

  /** What a backend keeps is for the tenant alone that it is kept for: 404, or the request goes on without a conversation. */
  function bound(passage: Passage, job: Job): Refusal | undefined {
    const without = kept.check(passage.head, job, passage.ids);
    if (without === undefined) return undefined;
    const isRefused = typeof without !== 'string';
    // Nobody may take it for the home, or the owner, of what it names.
    if (isRefused || job.refersTo === undefined) Object.assign(job, { stickyKey: undefined });
    if (isRefused) return without;
    passage.dropped = new Set([...(passage.dropped ?? []), without]);
    return undefined;
  }

  /** The merged list, where there is something to merge (decision 6); else a backend's own passes like any answer. */
  async function listModels(passage: Passage): Promise<Ending | undefined> {
    const { head, client } = passage;
    passage.phase = 'reading_answer';
    const { dropped, models } = passage.caller ?? {};
    const list = await deps.listModels((name) => (dropped?.has(name) === true ? undefined : head.header(name)), models);
    if (client.gone) return gone('reading_answer', 'client_left');
    if (ending !== undefined) return refuse(passage, ending);
    if (list === undefined) return undefined;
    return answerList(passage, list);
  }

  /** An earlier answer, where there is one that may be given; else this one is recorded, where it may be kept. */
  function replayed(passage: Passage, job: Job, { body }: Received): Ending | undefined {
    const { head, client } = passage;
    if (deps.answerCache === undefined || passage.terms !== undefined || client.gone) return undefined;
    const consulted = deps.answerCache.consult({ head, job, body, client, limits: passage.stay?.headers });
    if (consulted?.kind !== 'hit') {
      passage.recording = consulted?.recording;
      return undefined;
    }
    passage.phase = 'reading_answer';
    passage.committed = true;
    consulted.replay();
    passage.observer.responseBytes(consulted.bodyBytes);
    return { outcome: 'ok', status: 200, spokenBy: 'warmlane', phase: 'reading_answer', replayed: true };
  }

  async function answerJob(passage: Passage, job: Job, received: Received): Promise<Ending> {
    const exclude: string[] = [];
    let crashed = false;
    const home = kept.homeOf(job.stickyKey, passage);
    // Nobody else has what it refers to: another backend's "not found" would hide what is wrong.
    const isBound = home !== undefined && !isSelfContained(job);
    const hasOther = (failed: readonly string[]) =>
      !isBound && !isWarmUp(passage) && isResendable(received.body) && deps.hasOther(job, failed);
    for (;;) {
      const permit = await admitted(passage, { job, received, exclude, home });
      if (permit === 'gone') return gone('queued', 'client_left');
      if (isRefusal(permit)) return refuse(passage, permit);
      const stop = ending ?? barred(passage, job, permit);
      if (stop !== undefined) {
        permit.errand?.ended({ computed: false });
        permit.settle();
        return refuse(passage, stop);
      }
      let end: RelayEnd;
      passage.errand = permit.errand;
      try {
        const elsewhere = hasOther([...exclude, permit.backend.name]);
        end = await relayed(passage, { job, permit, received, elsewhere, afterStale: false });
        if (
          end.kind === 'failed' &&
          end.again === 'same_fresh' &&
          isResendable(received.body) &&
          ending === undefined
        ) {
          end = await relayed(passage, { job, permit, received, elsewhere, afterStale: true });
        }
        // What was abandoned must be known as such before the backend speaks to anybody else.
        if (end.kind === 'answered' && !end.aborted) await steps.leave.reached();
        // Before the place is free: what may still be busy there must not be promised to the next one.
        afterwards({ job, permit }, passage.link?.member, end);
      } finally {
        permit.settle();
      }
      if (end.kind === 'broken') {
        passage.phase = end.phase;
        throw end.error;
      }
      if (end.kind !== 'failed') return endedBy(passage, end, permit);
      permit.errand?.ended({ computed: false });
      passage.phase = end.phase;
      if (end.again === 'reclaimed') {
        passage.reclaimed += 1;
        const over = ending ?? closing;
        if (over !== undefined) return refuse(passage, over, marksOfEnd(end, permit.backend.engine));
        continue;
      }
      exclude.push(permit.backend.name);
      const repeat = end.again === 'elsewhere' || end.again === 'elsewhere_once';
      if (end.again === 'elsewhere_once' && crashed) return refuse(passage, killerRefusal(permit.backend.name));
      crashed ||= end.again === 'elsewhere_once';
      if (!repeat || closing !== undefined || !hasOther(exclude)) {
        return refuse(passage, end.refusal, marksOfEnd(end, permit.backend.engine));
      }
      log.info('request goes to another backend', {
        requestId: passage.head.requestId,
        from: permit.backend.name,
        reason: end.refusal.code,
      });
    }
  }

  /** Waits for a place; leaving and shutdown end the wait at once. */
  function admitted(passage: Passage, { job, received, exclude, home }: Asking): Promise<Permit | Refusal | 'gone'> {
    const { client, observer, phase, terms } = passage;
    const askedMs = clock.nowMs();
    let isSettled = false;
    let waits = false;
    passage.phase = 'queued';
    return new Promise((resolve) => {
      const settle = (result: Permit | Refusal | 'gone') => {
        isSettled = true;
        passage.interrupt = undefined;
        if (result !== 'gone' && !isRefusal(result)) {
          passage.link = deps.link(result.backend.name);
          if (terms?.kind === 'line') terms.placed();
          observer.mark('queued', askedMs);
          observer.mark('admitted', clock.nowMs());
        }
        resolve(result);
      };
      const again = exclude.length > 0 || passage.reclaimed > 0;
      const ask: Ask =
        terms?.kind === 'warm_up'
          ? { job, exclude: allBut(terms.backend), again: false, yields: terms.yields }
          : terms?.kind === 'line'
            ? askOfLine(passage, terms, { job, exclude, again, home })
            : askOfClient(passage, { job, received, exclude, again, home });
      if (job.lane === 'online') deps.lanes?.onlineAsked(job);
      const ticket = deps.owner.ask(ask, (result) => {
        // The client may leave in the very turn of the grant: the place must not be lost.
        if (client.gone && !isRefusal(result)) {
          result.errand?.ended({ computed: false });
          result.settle();
          settle('gone');
        } else settle(result);
        // Refused at once, and not for want of a place: the queue had no part in it.
        if (!waits && isRefusal(result) && result.outcome !== 'rejected') passage.phase = phase;
      });
      if (isSettled) return;
      // Only who waits was in the queue: a refusal at once would count as a wait of nothing.
      waits = true;
      observer.mark('queued', askedMs);
      const leave = (result: Refusal | 'gone') => {
        ticket.leave();
        settle(result);
      };
      passage.interrupt = leave;
      client.onGone(() => leave('gone'));
    });
  }

  /** What a client's request waits for, and what it offers to others. */
  function askOfClient(passage: Passage, { job, received, exclude, again, home }: Asking & { again: boolean }): Ask {
    const { lanes } = deps;
    const ask: Writable<Ask> = { job, exclude, again };
    if (home !== undefined) ask.affinity = home;
    if (lanes === undefined) return ask;
    const ttftBoundMs = job.lane === 'online' ? lanes.ttftBoundMs(job) : undefined;
    if (ttftBoundMs !== undefined) ask.ttftBoundMs = ttftBoundMs;
    const reclaim = reclaimableOf(passage, { job, received, maxTimes: lanes.maxReclaims() });
    if (reclaim !== undefined) ask.reclaim = reclaim;
    if (passage.promptsTaken > 0) ask.promptsTaken = passage.promptsTaken;
    return ask;
  }

  function allBut(backend: string): string[] {
    return deps.fleet.snapshot().backends.flatMap(({ name }) => (name === backend ? [] : [name]));
  }

  function finish(passage: Passage, how: Ending): void {
    passages.remove(passage.place);
    book(passage, isWarmUp(passage) ? asWarmUp(how) : how);
    // Also where booking failed.
    passage.recording?.drop();
    passage.stay?.ended({});
    passage.terms?.over();
    if (passages.size === 0) for (const idler of idlers.splice(0)) idler();
    const live = deps.lanes?.isTicking() === true ? liveStreamOf(passage, deps.lanes.boundOf) : undefined;
    if (live !== undefined) deps.lanes?.ended(live);
  }

  return {
    kept,
    serve(head, upload, client, terms) {
      const settings = deps.settings();
      const passage: Passage = {
        head,
        client,
        settings,
        terms,
        recording: undefined,
        observer: createObserver(settings.measure, {
          head,
          lag: deps.lag,
          prefills: deps.prefills,
          decodes: deps.decodes,
          coldStarts,
          wallMs: clock.wallMs(),
          endpoint: findEndpoint(head.method, head.target),
          trace: terms?.kind === 'warm_up' ? undefined : deps.beginTrace?.(head),
        }),
        caller: undefined,
        stay: undefined,
        dropped: undefined,
        ids: undefined,
        job: undefined,
        link: undefined,
        errand: undefined,
        phase: 'receiving',
        backend: undefined,
        engine: undefined,
        live: undefined,
        reclaimed: 0,
        promptsTaken: 0,
        route: undefined,
        attempts: 0,
        relay: undefined,
        committed: false,
        place: { index: -1 },
        interrupt: undefined,
      };
      passage.place = passages.add(passage);
      run(passage, upload).then(
        (how) => steps.book.take(() => finish(passage, how)),
        (error: unknown) => steps.book.take(() => finish(passage, broke(passage, error, log))),
      );
    },
    streams(visit) {
      const { lanes } = deps;
      if (lanes === undefined) return;
      passages.forEach((passage) => {
        if (passage.relay === undefined) return;
        const live = liveStreamOf(passage, lanes.boundOf);
        if (live !== undefined) visit(live);
      });
    },
    running() {
      const nowMs = clock.nowMs();
      return passages.toArray().map((passage) => view(passage, nowMs));
    },
    drain(refusal) {
      closing = refusal;
    },
    endAll(refusal) {
      ending = refusal;
      passages.forEach((passage) => passage.interrupt?.(refusal));
    },
    idle: () => (passages.size === 0 ? Promise.resolve() : new Promise((resolve) => idlers.push(resolve))),
  };
}
