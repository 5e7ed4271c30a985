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
import { classify } from './classify/classify.ts';
import { planEdits } from './classify/edit-body.ts';
import { findEndpoint } from './classify/endpoint-table.ts';
import { modelAfterFile } from './classify/refusals.ts';
import { planBody, receive, type Received } from './classify/receive.ts';
import type { Job } from './domain/job.ts';
import type { Outcome, Phase } from './domain/names.ts';
import type { RecordMark, RequestRecord } from './domain/record.ts';
import { isRefusal, type Refusal } from './domain/refusal.ts';
import type { Fleet } from './fleet/fleet.ts';
import { signalOfAnswer, signalOfStreamError } from './fleet/traffic-signals.ts';
import { createObserver, type Observer } from './measure/observer.ts';
import type { PipelineDeps } from './pipeline-deps.ts';
import type { ClientHead, ClientPort, ClientUpload } from './platform/client-port.ts';
import type { RequestBody } from './platform/upstream/port.ts';
import { errorBody, errorHeaders } from './relay/error-shape.ts';
import { killerRefusal } from './relay/refusals.ts';
import { type BackendWitness, Relay, type RelayEnd } from './relay/relay.ts';
import { upstreamHeaders } from './relay/request-head.ts';

/** One request under way, as the admin listener shows it. */
export interface RunningView {
  readonly requestId: string;
  readonly endpoint: string;
  readonly path: string;
  readonly model?: string;
  readonly backend?: string;
  readonly phase: Phase;
  readonly ageMs: number;
  readonly attempts: number;
}

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

/** How a passage ended, in the record's words. */
interface Ending {
  readonly outcome: Outcome;
  readonly phase: Phase;
  readonly spokenBy: 'warmlane' | 'backend';
  readonly status?: number;
  readonly reason?: string;
  readonly marks?: readonly RecordMark[];
}

interface Passage {
  readonly head: ClientHead;
  readonly client: ClientPort;
  readonly observer: Observer;
  job: Job | undefined;
  phase: Phase;
  backend: string | undefined;
  attempts: number;
  relay: Relay | undefined;
  /** Set while the passage waits for something that `endAll` must be able to end. */
  interrupt: ((refusal: Refusal) => void) | undefined;
}

export function createPipeline(deps: PipelineDeps): Pipeline {
  const { clock, log } = deps;
  const passages = new Set<Passage>();
  const idlers: (() => void)[] = [];
  let closing: Refusal | undefined;

  async function run(passage: Passage, upload: ClientUpload): Promise<Ending> {
    const { head, observer } = passage;
    if (closing !== undefined) return refuse(passage, closing);

    const endpoint = findEndpoint(head.method, head.target);
    const contentType = head.header('content-type');
    const plan = planBody(upload, contentType, endpoint);
    const received = await receive(upload, { kind: plan, contentType }, {
      ...deps.receiving,
      stoppable: (stop) => (passage.interrupt = stop),
    });
    passage.interrupt = undefined;
    if (received === 'gone') return gone('receiving', 'client_left');
    observer.mark('receivedLast', clock.nowMs());
    if (isRefusal(received)) return refuse(passage, received);
    try {
      const job = classify(head, received, deps.settings.classify);
      observer.mark('classified', clock.nowMs());
      if (isRefusal(job)) return refuse(passage, job);
      if (job.modelUnread === true && deps.fleet.snapshot().backends.length > 1) return refuse(passage, modelAfterFile());
      passage.job = job;
      observer.classified(job);
      return await answerJob(passage, job, received);
    } finally {
      received.release();
    }
  }

  async function answerJob(passage: Passage, job: Job, received: Received): Promise<Ending> {
    const exclude: string[] = [];
    let crashed = false;
    for (;;) {
      const permit = await admitted(passage, job, exclude);
      if (permit === 'gone') return gone('queued', 'client_left');
      if (isRefusal(permit)) return refuse(passage, permit);
      let end: RelayEnd;
      try {
        end = await relayed(passage, { job, permit, received, exclude, fresh: false });
        if (end.kind === 'failed' && end.again === 'same_fresh' && isResendable(received.body)) {
          end = await relayed(passage, { job, permit, received, exclude, fresh: true });
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
      if (end.kind !== 'failed') return ended(end, permit);
      passage.phase = end.phase;
      exclude.push(permit.backend.name);
      const repeat = end.again === 'elsewhere' || end.again === 'elsewhere_once';
      if (end.again === 'elsewhere_once' && crashed) return refuse(passage, killerRefusal(permit.backend.name));
      crashed ||= end.again === 'elsewhere_once';
      if (!repeat || closing !== undefined || !isResendable(received.body) || !deps.hasOther(job, exclude)) {
        return refuse(passage, end.refusal);
      }
      log.info('request goes to another backend', {
        requestId: passage.head.requestId,
        from: permit.backend.name,
        reason: end.refusal.code,
      });
    }
  }

  /** Waits for a place; leaving and shutdown end the wait at once. */
  function admitted(passage: Passage, job: Job, exclude: readonly string[]): Promise<Permit | Refusal | 'gone'> {
    const { client, observer } = passage;
    const affinity = deps.sticky.find(job.stickyKey);
    passage.phase = 'queued';
    observer.mark('queued', clock.nowMs());
    return new Promise((resolve) => {
      const settle = (result: Permit | Refusal | 'gone') => {
        passage.interrupt = undefined;
        observer.mark('admitted', clock.nowMs());
        resolve(result);
      };
      const ask = { job, exclude, again: exclude.length > 0, ...(affinity === undefined ? {} : { affinity }) };
      const ticket = deps.owner.ask(ask, (result) => {
        // The client may leave in the very turn of the grant: the place must not be lost.
        if (client.gone && !isRefusal(result)) {
          result.settle();
          settle('gone');
        } else settle(result);
      });
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
    attempt: { job: Job; permit: Permit; received: Received; exclude: readonly string[]; fresh: boolean },
  ): Promise<RelayEnd> {
    const { head, client, observer } = passage;
    const { job, permit, received, exclude, fresh } = attempt;
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
    observer.attempt({ backend: backend.name, engine: backend.engine });
    return new Promise((resolve) => {
      const relay = new Relay(
        {
          job,
          head,
          backend,
          target: link.target,
          path: link.target.pathPrefix + job.target,
          headers: upstreamHeaders(head, {
            engine: backend.engine,
            measured: job.measured,
            passConversationId: deps.settings.relay.passConversationId,
            ...(link.apiKey === undefined ? {} : { apiKey: link.apiKey }),
          }),
          body: edits.length === 0 ? received.body : received.edited(edits),
          fresh,
          strip: stripUsage,
          elsewhere: isResendable(received.body) && deps.hasOther(job, [...exclude, backend.name]),
        },
        {
          clock,
          client,
          ticker: deps.ticker,
          upstream: deps.upstream,
          tap: observer,
          settings: deps.settings.relay,
          maxEventBytes: deps.settings.measure.maxEventBytes,
          witness: createWitness(deps.fleet, backend.name),
        },
        (end) => {
          leaveBackend();
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

  /** What an attempt's end means for its backend: an abandoned request may go on there (R09, R10, R13). */
  function afterwards(permit: Permit, end: RelayEnd): void {
    const { backend } = permit;
    const cut = end.kind === 'client_gone' || (end.kind === 'failed' && end.refusal.outcome === 'timeout');
    if (!cut || backend.engine !== 'llama-server') return;
    const resume = deps.fleet.holdProbes(backend.name);
    clock.timer(abortSettlesMs, resume);
    const reached = end.phase !== 'connecting' && end.phase !== 'queued';
    if (reached && end.phase !== 'streaming' && permit.slots > 0) deps.fleet.ghost(backend.name, permit.slots);
  }

  function ended(end: Exclude<RelayEnd, { kind: 'failed' | 'broken' }>, permit: Permit): Ending {
    if (end.kind === 'client_gone') {
      const mayGoOn = permit.backend.engine === 'llama-server' && end.phase !== 'streaming' && end.phase !== 'connecting';
      return {
        ...gone(end.phase, end.reason),
        ...(end.status === undefined ? {} : { status: end.status }),
        ...(mayGoOn ? { marks: ['engine_may_go_on' as const] } : {}),
      };
    }
    return end;
  }

  /** Answers with an error of our own making, in the dialect's shape. */
  function refuse(passage: Passage, refusal: Refusal): Ending {
    const { client, head, job, phase } = passage;
    if (client.gone) return gone(phase, 'client_left');
    const body = Buffer.from(errorBody(refusal, job?.format ?? findEndpoint(head.method, head.target).format));
    client.head(refusal.status, '', errorHeaders(refusal, head.requestId), { kind: 'length', bytes: body.length });
    if (head.method !== 'HEAD') client.write(body);
    client.end();
    const { outcome, status, code, spokenBy } = refusal;
    return { outcome, status, reason: code, spokenBy, phase };
  }

  function finish(passage: Passage, ending: Ending): void {
    passages.delete(passage);
    const record = passage.observer.finish({ ...ending, attempts: passage.attempts, atMs: clock.nowMs() });
    learn(record, passage);
    deps.records.add(record);
    if (passages.size === 0) for (const idler of idlers.splice(0)) idler();
  }

  function learn(record: RequestRecord, passage: Passage): void {
    const { responseId } = passage.observer;
    if (responseId !== undefined && record.backend !== undefined && passage.job?.endpoint === 'responses') {
      deps.sticky.remember(responseId, record.backend);
    }
    const { stickyKey } = passage.job ?? {};
    if (record.backend !== undefined && record.outcome === 'ok' && stickyKey !== undefined) {
      deps.sticky.remember(stickyKey, record.backend);
    }
    if (record.backend !== undefined && record.outcome === 'ok' && passage.job?.generates === true) {
      const { prompt, cached } = record.tokens;
      deps.fleet.noteAnswer(record.backend, { usage: prompt !== undefined, cached: cached !== undefined });
    }
  }

  return {
    serve(head, upload, client) {
      const passage: Passage = {
        head,
        client,
        observer: createObserver(deps.settings.measure, { head, lag: deps.lag, wallMs: clock.wallMs() }),
        job: undefined,
        phase: 'receiving',
        backend: undefined,
        attempts: 0,
        relay: undefined,
        interrupt: undefined,
      };
      passages.add(passage);
      run(passage, upload).then(
        (ending) => finish(passage, ending),
        (error: unknown) => {
          log.error('internal error', { requestId: head.requestId, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
          client.cut();
          finish(passage, { outcome: 'proxy_error', phase: passage.phase, spokenBy: 'warmlane', reason: 'internal' });
        },
      );
    },
    running() {
      const nowMs = clock.nowMs();
      return [...passages].map((passage) => view(passage, nowMs));
    },
    drain(refusal) {
      closing = refusal;
    },
    endAll(refusal) {
      for (const passage of passages) {
        if (passage.interrupt !== undefined) passage.interrupt(refusal);
        else passage.client.cut();
      }
    },
    idle: () => (passages.size === 0 ? Promise.resolve() : new Promise((resolve) => idlers.push(resolve))),
  };
}

/** How long an abort takes to be noticed by an idle llama-server: its poll for closed clients, once a second (R13). */
const abortSettlesMs = 2500;

/** Tells the fleet what one attempt shows of its backend. */
function createWitness(fleet: Fleet, backend: string): BackendWitness {
  return {
    faulted(fault) {
      const { kind } = fault;
      if (kind === 'refused' || kind === 'connect_timeout' || kind === 'dns' || kind === 'tls') {
        fleet.report(backend, { kind: 'connectFailed', fault: kind });
      } else if (!fault.responseStarted) fleet.report(backend, { kind: 'resetBeforeHead' });
    },
    answered(answer) {
      const signal = signalOfAnswer(answer);
      if (signal !== undefined) fleet.report(backend, signal);
      return signal !== undefined && signal.kind !== 'answered';
    },
    streamError(message) {
      const signal = signalOfStreamError(message);
      if (signal !== undefined) fleet.report(backend, signal);
      return signal !== undefined;
    },
    quiet: () => fleet.watchQuiet(backend),
  };
}

function gone(phase: Phase, reason: string): Ending {
  return { outcome: 'client_abort', phase, spokenBy: 'warmlane', reason };
}

function isResendable(body: RequestBody): boolean {
  return body.kind !== 'stream';
}

function view(passage: Passage, nowMs: number): RunningView {
  const { head, job, backend, attempts } = passage;
  return {
    requestId: head.requestId,
    endpoint: job?.endpoint ?? 'other',
    path: head.target.split('?', 1)[0] ?? '',
    phase: passage.relay?.phase ?? passage.phase,
    ageMs: nowMs - head.receivedMs,
    attempts,
    ...(job?.model === undefined ? {} : { model: job.model }),
    ...(backend === undefined ? {} : { backend }),
  };
}
