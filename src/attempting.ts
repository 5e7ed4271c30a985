/**
 * One attempt on one backend: from the permit to the relay's end, and what that end says of the backend. Decides nothing
 * about another attempt; `pipeline.ts` does.
 */
import { slotsOf } from './admit/load.ts';
import type { Permit } from './admit/owner.ts';
import { isStreamedOn, planEdits, targetFor } from './classify/edit-body.ts';
import type { Received } from './classify/receive.ts';
import { priorityUnread } from './classify/refusals.ts';
import type { Job } from './domain/job.ts';
import type { Engine, Phase } from './domain/names.ts';
import type { Refusal } from './domain/refusal.ts';
import { verdictOf } from './fleet/attempt-verdict.ts';
import type { Member } from './fleet/fleet.ts';
import { ofOwnRequest } from './fleet/traffic-witness.ts';
import { isResendable, isWarmUp, type Passage, withoutCause } from './passage.ts';
import type { Link, PipelineDeps, Priorities } from './pipeline-deps.ts';
import type { Step } from './platform/steps.ts';
import type { RelayEnd } from './relay/attempt.ts';
import { endingOf, mayGoOn } from './relay/judge.ts';
import type { RouteTold } from './relay/own-headers.ts';
import { Relay } from './relay/relay.ts';
import { upstreamHeaders } from './relay/request-head.ts';

export interface Attempting {
  readonly job: Job;
  readonly permit: Permit;
  readonly received: Received;
  /** Another backend could take it, if this one fails. */
  readonly elsewhere: boolean;
  /** The same backend's pooled connection was stale. */
  readonly afterStale: boolean;
}

interface Deps extends Pick<PipelineDeps, 'clock' | 'lanes' | 'link' | 'relaying' | 'ticker' | 'upstream'> {
  /** Where requests gather that are to be sent. */
  readonly send: Step;
  /** Where whole answers gather that are to be ended. */
  readonly ends: Step;
}

/** How long an abort takes to be noticed by an idle llama-server: its poll for closed clients, once a second (R13). */
const abortSettlesMs = 2500;

/** Phases in which an engine has the request. */
const workedOn: ReadonlySet<Phase> = new Set<Phase>(['waiting_head', 'waiting_first_token', 'streaming']);

const untold: Priorities = { tellsEngines: false, trustsClients: false };

/** SGLang takes it from the body, unknown servers may; vLLM does where the header says nothing. The others know no such field. */
function bodyPriority(
  { tellsEngines, trustsClients }: Priorities,
  to: { readonly engine: Engine; readonly method: string; readonly link: Pick<Link, 'priorityField'> },
): 'set' | 'remove' | undefined {
  const { engine, method, link } = to;
  if (tellsEngines && link.priorityField === true) return 'set';
  if (trustsClients) return undefined;
  if (engine === 'vllm') return tellsEngines && method === 'POST' ? undefined : 'remove';
  return engine === 'sglang' || engine === 'openai' ? 'remove' : undefined;
}

export function createAttempts(deps: Deps) {
  const { clock } = deps;

  /** Why a request may not go where it was let in: who goes first there would be its client's to say. */
  function barred(passage: Passage, job: Job, { backend }: Permit): Refusal | undefined {
    if (job.priorityUnread !== true) return undefined;
    const link = passage.link ?? deps.link(backend.name);
    const priority = deps.lanes?.priorities() ?? untold;
    const { method } = passage.head;
    return bodyPriority(priority, { engine: backend.engine, method, link }) === undefined
      ? undefined
      : priorityUnread(backend.name);
  }

  /** One attempt on one backend. */
  function relayed(passage: Passage, attempt: Attempting): Promise<RelayEnd> {
    const { head, client, observer } = passage;
    const { job, permit, received, elsewhere, afterStale } = attempt;
    const { backend } = permit;
    const { settings } = passage;
    const link = passage.link ?? deps.link(backend.name);
    const priority = deps.lanes?.priorities() ?? untold;
    const { edits, stripUsage } = planEdits(job, {
      engine: backend.engine,
      usageMode: settings.relay.usage,
      aliases: settings.classify.modelAliases,
      priority: bodyPriority(priority, { engine: backend.engine, method: head.method, link }),
    });
    const note = permit.errand?.note;
    const route: RouteTold = { backend: backend.name, reason: permit.reason, predictedTokens: note?.predictedTokens };
    passage.backend = backend.name;
    passage.engine = backend.engine;
    passage.route = route;
    passage.phase = 'connecting';
    passage.attempts += 1;
    const start = {
      backend: backend.name,
      engine: backend.engine,
      reason: permit.reason,
      routing: isWarmUp(passage) ? withoutCause(note) : note,
      onFirstToken: permit.decoding,
      atMs: clock.nowMs(),
    };
    const trace = observer.attempt(start);
    return new Promise((resolve, reject) => {
      const relay = new Relay(
        {
          job: isStreamedOn(job, backend.engine) ? { ...job, stream: true } : job,
          head,
          backend,
          target: link.target,
          path: link.target.pathPrefix + targetFor(job, settings.classify.modelAliases),
          headers: upstreamHeaders(head, {
            engine: backend.engine,
            measured: job.measured,
            passConversationId: settings.relay.passConversationId,
            apiKey: passage.caller?.preflight === true ? undefined : link.apiKey,
            dropped: passage.dropped,
            lane: priority.tellsEngines ? job.lane : undefined,
            trace,
          }),
          body: edits.length === 0 ? received.body : received.edited(edits),
          // What can be sent only once must not meet a stale connection; nor what nobody asked for, which may be what an
          // engine dies of: it would be sent to it a second time.
          fresh: afterStale || !isResendable(received.body) || isWarmUp(passage),
          afterStale,
          strip: stripUsage,
          route,
          limits: passage.stay?.headers,
          elsewhere,
        },
        {
          clock,
          client: passage.recording?.client ?? client,
          ticker: deps.ticker,
          upstream: deps.upstream,
          tap: observer,
          settings: settings.relay,
          maxEventBytes: settings.measure.maxEventBytes,
          witness: isWarmUp(passage) ? ofOwnRequest(link.witness) : link.witness,
          bodyDone: received.release,
          ends: deps.ends,
        },
        (end) => {
          leaveBackend();
          const { outcome, reason } = endingOf(end);
          observer.attemptEnd({ atMs: clock.nowMs(), status: relay.backendStatus, outcome, reason });
          const { generates } = job;
          if (reason === 'backend_busy' && job.measured && !isWarmUp(passage)) deps.lanes?.busy(backend.name);
          const { errorText: text } = relay;
          const stale = end.kind === 'failed' && end.again === 'same_fresh';
          // A warm-up that fails must cost its backend's users nothing.
          const tells = !stale && !isWarmUp(passage);
          const verdict = tells ? verdictOf({ outcome, reason, generates, errorText: text }) : undefined;
          if (verdict !== undefined) link.member?.tried(verdict, start.atMs);
          passage.committed = relay.committed;
          if (relay.endsByClose) passage.recording?.drop();
          passage.relay = undefined;
          passage.interrupt = undefined;
          resolve(end);
        },
      );
      const leaveBackend = deps.relaying(link, relay);
      passage.relay = relay;
      passage.interrupt = (refusal) => relay.shutdown(refusal);
      deps.send.take(() => {
        try {
          relay.start();
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
  }

  /** What an attempt's end means for its backend: an abandoned request may go on there (R09, R10, R13). */
  function afterwards(
    { job, permit: { backend } }: Pick<Attempting, 'job' | 'permit'>,
    member: Member | undefined,
    end: RelayEnd,
  ): void {
    if (!end.aborted || member === undefined) return;
    const isLeft = mayGoOn(end, backend.engine);
    // Of what was hardly begun, and of what is known to go on for a while, nothing is to be seen.
    if (!isLeft && workedOn.has(end.phase)) member.aborted(slotsOf(job, backend));
    if (backend.engine !== 'llama-server') return;
    clock.timer(abortSettlesMs, member.holdProbes());
    // By the job, not by the permit: a warm-up's counts no slots, but takes them.
    const slots = slotsOf(job, backend);
    if (isLeft && slots > 0) member.ghost(slots);
  }

  return { barred, relayed, afterwards };
}
