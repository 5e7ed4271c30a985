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
import type { Permit } from './admit/owner.ts';
import { createBooking, type Ending, errorText, gone, left } from './booking.ts';
import { classify } from './classify/classify.ts';
import { planEdits, targetFor } from './classify/edit-body.ts';
import { findEndpoint } from './classify/endpoint-table.ts';
import { modelAfterFile } from './classify/refusals.ts';
import { planBody, receive, type Received } from './classify/receive.ts';
import { isSelfContained, type Job } from './domain/job.ts';
import type { Phase } from './domain/names.ts';
import type { RecordMark } from './domain/record.ts';
import { isRefusal, type Refusal } from './domain/refusal.ts';
import type { Errand } from './domain/routing.ts';
import type { RunningView } from './domain/running-view.ts';
import { createWitness } from './fleet/traffic-witness.ts';
import { createColdStarts } from './measure/cold-starts.ts';
import { createObserver, type Observer } from './measure/observer.ts';
import type { PipelineDeps } from './pipeline-deps.ts';
import { Bag, type Place } from './platform/bag.ts';
import type { ClientHead, ClientPort, ClientUpload } from './platform/client-port.ts';
import type { RequestBody } from './platform/upstream/port.ts';
import type { BackendWitness, RelayEnd } from './relay/attempt.ts';
import { errorBody, errorHeaders } from './relay/error-shape.ts';
import { endingOf, marksOfEnd, mayGoOn } from './relay/judge.ts';
import { internalRefusal, killerRefusal, loopRefusal } from './relay/refusals.ts';
import { Relay } from './relay/relay.ts';
import { isLoop, upstreamHeaders } from './relay/request-head.ts';

export interface Pipeline {
  /** Serves one request to its end. Never throws; the client always gets an answer or a cut. */
  serve(head: ClientHead, upload: ClientUpload, client: ClientPort): void;
  running(): readonly RunningView[];
  /** New requests are refused from now on; what waits or runs goes on. */
  drain(refusal: Refusal): void;
  /** Ends what still runs, visibly unfinished. */
  endAll(refusal: Refusal): void;
  /** Resolves when nothing runs. */
  idle(): Promise<void>;
}

interface Passage {
  readonly head: ClientHead;
  readonly client: ClientPort;
  readonly observer: Observer;
  job: Job | undefined;
  /** Of the latest permit. */
  errand: Errand | undefined;
  phase: Phase;
  backend: string | undefined;
  attempts: number;
  relay: Relay | undefined;
  /** The client has a head: nothing else can be answered any more. */
  committed: boolean;
  /** Among those under way. */
  place: Place;
  /** Set while the passage waits for something that `endAll` must be able to end. */
  interrupt: ((refusal: Refusal) => void) | undefined;
}

export function createPipeline(deps: PipelineDeps): Pipeline {
  const { clock, log } = deps;
  const book = createBooking(deps);
  const passages = new Bag<Passage>();
  const idlers: (() => void)[] = [];
  const coldStarts = createColdStarts();
  deps.fleet.onChange((fleet) => coldStarts.seen(fleet));
  const witnesses = new Map<string, BackendWitness>();
  let closing: Refusal | undefined;
  /** Set by `endAll`: nobody goes a step further. */
  let ending: Refusal | undefined;

  async function run(passage: Passage, upload: ClientUpload): Promise<Ending> {
    const { head, observer } = passage;
    if (closing !== undefined) return refuse(passage, closing);
    if (isLoop(head.header('via'))) return refuse(passage, loopRefusal());

    const endpoint = findEndpoint(head.method, head.target);
    const contentType = head.header('content-type');
    const plan = planBody(upload, contentType, endpoint);
    const received = await receive(
      upload,
      { kind: plan, contentType },
      {
        witness: {
          bytes: (total) => observer.requestBytes(total),
          last: () => observer.mark('receivedLast', clock.nowMs()),
        },
        stoppable: (stop) => (passage.interrupt = stop),
        maxBodyBytes: deps.receiving.maxBodyBytes,
        keys: deps.receiving.keys,
        budget: deps.receiving.budget,
      },
    );
    passage.interrupt = undefined;
    if (received === 'gone') return left(passage.client, 'receiving');
    if (isRefusal(received)) return refuse(passage, received);
    if (ending !== undefined) {
      received.release();
      return refuse(passage, ending);
    }
    try {
      const job = classify(head, received, deps.settings.classify);
      received.scan = undefined;
      observer.mark('classified', clock.nowMs());
      if (isRefusal(job)) return refuse(passage, job);
      if (job.modelUnread === true && deps.fleet.snapshot().backends.length > 1)
        return refuse(passage, modelAfterFile());
      const fingerprint = deps.fingerprint?.(head, received.body);
      // Nobody else has the job yet: it need not be copied.
      if (fingerprint !== undefined) Object.assign(job, { fingerprint });
      passage.job = job;
      observer.classified(job);
      const listed = job.endpoint === 'models' ? await listModels(passage) : undefined;
      return listed ?? (await answerJob(passage, job, received));
    } finally {
      received.release();
    }
  }

  /** The merged list, where there is something to merge (decision 6); else a backend's own passes like any answer. */
  async function listModels(passage: Passage): Promise<Ending | undefined> {
    const { head, client } = passage;
    passage.phase = 'reading_answer';
    const list = await deps.listModels((name) => head.header(name));
    if (client.gone) return gone('reading_answer', 'client_left');
    if (ending !== undefined) return refuse(passage, ending);
    if (list === undefined) return undefined;
    const body = Buffer.from(list);
    const headers = ['Content-Type', 'application/json; charset=utf-8', 'X-Request-Id', head.requestId];
    passage.committed = true;
    client.head(200, '', headers, { kind: 'length', bytes: body.length });
    if (head.method !== 'HEAD') client.write(body);
    client.end();
    passage.observer.responseBytes(body.length);
    return { outcome: 'ok', status: 200, spokenBy: 'warmlane', phase: 'reading_answer' };
  }

  async function answerJob(passage: Passage, job: Job, received: Received): Promise<Ending> {
    const exclude: string[] = [];
    let crashed = false;
    const home = homeOf(passage, job.stickyKey);
    // Nobody else has what it refers to: another backend's "not found" would hide what is wrong.
    const isBound = home !== undefined && !isSelfContained(job);
    const hasOther = (failed: readonly string[]) =>
      !isBound && isResendable(received.body) && deps.hasOther(job, failed);
    for (;;) {
      const permit = await admitted(passage, { job, exclude, home });
      if (permit === 'gone') return gone('queued', 'client_left');
      if (isRefusal(permit)) return refuse(passage, permit);
      if (ending !== undefined) {
        permit.errand?.ended({ computed: false });
        permit.settle();
        return refuse(passage, ending);
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
        // Before the place is free: what may still be busy there must not be promised to the next one.
        afterwards(permit, end);
      } finally {
        permit.settle();
      }
      if (end.kind === 'broken') {
        passage.phase = end.phase;
        throw end.error;
      }
      if (end.kind !== 'failed') return ended(passage, end, permit);
      permit.errand?.ended({ computed: false });
      passage.phase = end.phase;
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

  /** Where what a follow-up refers to was begun, or is under way still. */
  function homeOf(passage: Passage, key: string | undefined): string | undefined {
    const home = deps.sticky.find(key);
    if (home !== undefined || key === undefined) return home;
    return passages.toArray().find((other) => {
      const isHome = other.observer.responseId === key || other.job?.stickyKey === key;
      return other !== passage && isHome && other.backend !== undefined;
    })?.backend;
  }

  /** Waits for a place; leaving and shutdown end the wait at once. */
  function admitted(
    passage: Passage,
    { job, exclude, home }: { job: Job; exclude: readonly string[]; home: string | undefined },
  ): Promise<Permit | Refusal | 'gone'> {
    const { client, observer, phase } = passage;
    const askedMs = clock.nowMs();
    let isSettled = false;
    let waits = false;
    passage.phase = 'queued';
    return new Promise((resolve) => {
      const settle = (result: Permit | Refusal | 'gone') => {
        isSettled = true;
        passage.interrupt = undefined;
        if (result !== 'gone' && !isRefusal(result)) {
          observer.mark('queued', askedMs);
          observer.mark('admitted', clock.nowMs());
        }
        resolve(result);
      };
      const again = exclude.length > 0;
      const ask = home === undefined ? { job, exclude, again } : { job, exclude, again, affinity: home };
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

  /** One attempt on one backend. */
  function relayed(
    passage: Passage,
    attempt: { job: Job; permit: Permit; received: Received; elsewhere: boolean; afterStale: boolean },
  ): Promise<RelayEnd> {
    const { head, client, observer } = passage;
    const { job, permit, received, elsewhere, afterStale } = attempt;
    const { backend } = permit;
    const link = deps.link(backend.name);
    const { edits, stripUsage } = planEdits(job, {
      engine: backend.engine,
      usageMode: deps.settings.relay.usage,
      aliases: deps.settings.classify.modelAliases,
    });
    passage.backend = backend.name;
    passage.phase = 'connecting';
    passage.attempts += 1;
    const start = {
      backend: backend.name,
      engine: backend.engine,
      reason: permit.reason,
      routing: permit.errand?.note,
      onFirstToken: permit.decoding,
      atMs: clock.nowMs(),
    };
    const trace = observer.attempt(start);
    return new Promise((resolve) => {
      const relay = new Relay(
        {
          job,
          head,
          backend,
          target: link.target,
          path: link.target.pathPrefix + targetFor(job, deps.settings.classify.modelAliases),
          headers: upstreamHeaders(head, {
            engine: backend.engine,
            measured: job.measured,
            passConversationId: deps.settings.relay.passConversationId,
            apiKey: link.apiKey,
            trace,
          }),
          body: edits.length === 0 ? received.body : received.edited(edits),
          // What can be sent only once must not meet a stale connection.
          fresh: afterStale || !isResendable(received.body),
          afterStale,
          strip: stripUsage,
          elsewhere,
        },
        {
          clock,
          client,
          ticker: deps.ticker,
          upstream: deps.upstream,
          tap: observer,
          settings: deps.settings.relay,
          maxEventBytes: deps.settings.measure.maxEventBytes,
          witness: witness(backend.name),
          bodyDone: received.release,
        },
        (end) => {
          leaveBackend();
          const { outcome, reason } = endingOf(end);
          observer.attemptEnd({ atMs: clock.nowMs(), status: relay.backendStatus, outcome, reason });
          passage.committed = relay.committed;
          passage.relay = undefined;
          passage.interrupt = undefined;
          resolve(end);
        },
      );
      const leaveBackend = deps.relaying(backend.name, relay);
      passage.relay = relay;
      passage.interrupt = (refusal) => relay.shutdown(refusal);
      relay.start();
    });
  }

  /** One for each backend, not for each request. */
  function witness(backend: string): BackendWitness {
    const known = witnesses.get(backend);
    if (known !== undefined) return known;
    const made = createWitness(deps.fleet, backend);
    witnesses.set(backend, made);
    return made;
  }

  /** What an attempt's end means for its backend: an abandoned request may go on there (R09, R10, R13). */
  function afterwards(permit: Permit, end: RelayEnd): void {
    const { backend, slots } = permit;
    if (!end.aborted || backend.engine !== 'llama-server') return;
    clock.timer(abortSettlesMs, deps.fleet.holdProbes(backend.name));
    if (mayGoOn(end, backend.engine) && slots > 0) deps.fleet.ghost(backend.name, slots);
  }

  function ended(passage: Passage, end: Exclude<RelayEnd, { kind: 'failed' | 'broken' }>, permit: Permit): Ending {
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

  /** Answers with an error of our own making, in the dialect's shape. */
  function refuse(passage: Passage, refusal: Refusal, marks: readonly RecordMark[] = []): Ending {
    const { client, head, job, phase } = passage;
    if (client.gone) return gone(phase, 'client_left');
    const body = Buffer.from(errorBody(refusal, job?.format ?? findEndpoint(head.method, head.target).format));
    passage.committed = true;
    client.head(refusal.status, '', errorHeaders(refusal, head.requestId), { kind: 'length', bytes: body.length });
    if (head.method !== 'HEAD') client.write(body);
    client.end();
    passage.observer.ownAnswer(head.method === 'HEAD' ? 0 : body.length);
    const { outcome, status, code, reason = code, spokenBy } = refusal;
    return { outcome, status, reason, spokenBy, phase, marks };
  }

  /** A bug of ours: told in the dialect's words while the client has nothing yet, else cut. */
  function broke(passage: Passage, error: unknown): Ending {
    const { head, client, phase } = passage;
    log.error('internal error', { requestId: head.requestId, error: errorText(error) });
    const cut: Ending = { outcome: 'proxy_error', phase, spokenBy: 'warmlane', reason: 'internal' };
    try {
      if (!passage.committed && !client.gone) return refuse(passage, internalRefusal());
      client.cut();
    } catch (again) {
      log.error('internal error', { requestId: head.requestId, error: errorText(again) });
      client.cut();
    }
    return cut;
  }

  function finish(passage: Passage, how: Ending): void {
    passages.remove(passage.place);
    book(passage, how);
    if (passages.size === 0) for (const idler of idlers.splice(0)) idler();
  }

  return {
    serve(head, upload, client) {
      const passage: Passage = {
        head,
        client,
        observer: createObserver(deps.settings.measure, {
          head,
          lag: deps.lag,
          prefills: deps.prefills,
          decodes: deps.decodes,
          coldStarts,
          wallMs: clock.wallMs(),
          endpoint: findEndpoint(head.method, head.target),
          trace: deps.beginTrace?.(head),
        }),
        job: undefined,
        errand: undefined,
        phase: 'receiving',
        backend: undefined,
        attempts: 0,
        relay: undefined,
        committed: false,
        place: { index: -1 },
        interrupt: undefined,
      };
      passage.place = passages.add(passage);
      run(passage, upload).then(
        (how) => finish(passage, how),
        (error: unknown) => finish(passage, broke(passage, error)),
      );
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

/** How long an abort takes to be noticed by an idle llama-server: its poll for closed clients, once a second (R13). */
const abortSettlesMs = 2500;

function isResendable(body: RequestBody): boolean {
  return body.kind !== 'stream';
}

function view(passage: Passage, nowMs: number): RunningView {
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
