/** What the pipeline is given: the stages' running parts and the settings, composed in `app.ts`. */
import type { Access } from './access/port.ts';
import type { LiveStream, StreamBound } from './admit/online-feel.ts';
import type { Owner } from './admit/owner.ts';
import type { AnswerCache } from './cache/answer-cache.ts';
import type { ReceiveSettings } from './classify/receive.ts';
import type { ClassifySettings } from './classify/settings.ts';
import type { DecodeStarts } from './domain/decoding.ts';
import type { Job } from './domain/job.ts';
import type { RequestRecord } from './domain/record.ts';
import type { TraceIds } from './domain/trace.ts';
import type { Fleet, Member } from './fleet/fleet.ts';
import type { LoopLag } from './measure/loop-lag.ts';
import type { PrefillLog } from './measure/prefill-log.ts';
import type { MeasureSettings } from './measure/settings.ts';
import type { ByteBudget } from './platform/byte-budget.ts';
import type { ClientHead } from './platform/client-port.ts';
import type { Clock } from './platform/clock.ts';
import type { Fingerprint } from './platform/fingerprint.ts';
import type { Later } from './platform/later.ts';
import type { Log } from './platform/log.ts';
import type { RequestBody, UpstreamClient } from './platform/upstream/port.ts';
import type { ParsedTarget } from './platform/upstream/target.ts';
import type { BackendWitness } from './relay/attempt.ts';
import type { Relay } from './relay/relay.ts';
import type { RelaySettings } from './relay/settings.ts';
import type { Ticker } from './relay/ticker.ts';
import type { Sticky } from './route/sticky.ts';

export interface PipelineSettings {
  readonly classify: ClassifySettings;
  readonly relay: RelaySettings;
  readonly measure: MeasureSettings;
}

/** Where a backend is, its key, and who is told what is seen of it. */
export interface Link {
  readonly target: ParsedTarget;
  readonly apiKey?: string;
  /** It takes whom to serve first from the body's `priority`. */
  readonly priorityField?: true;
  readonly witness: BackendWitness;
  /** Absent only where it had left the fleet already. */
  readonly member: Member | undefined;
}

export interface LanesTold {
  /** An online job is about to ask for a place. */
  readonly onlineAsked: (job: Job) => void;
  /** A backend refused a request for want of room. */
  readonly busy: (backend: string) => void;
  /** A request that was at a backend is over, however it ended. */
  readonly ended: (stream: LiveStream) => void;
  /** There is batch work: the others are looked at. */
  readonly isTicking: () => boolean;
  /** What a request is to be judged by: its SLO, else what holds for all. @param promptTokens to be computed */
  readonly boundOf: (job: Job, promptTokens: number) => StreamBound;
  /** Of its SLO alone; ms. */
  readonly ttftBoundMs: (job: Job) => number | undefined;
  /** How often one request may be taken back. */
  readonly maxReclaims: () => number;
  readonly priorities: () => Priorities;
}

export interface Priorities {
  /** Engines are told whom to take first. */
  readonly tellsEngines: boolean;
  /** The `priority` in a client's body goes on where warmlane says nothing itself. */
  readonly trustsClients: boolean;
}

export interface PipelineDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Asked once for each request, which keeps to them. */
  readonly settings: () => PipelineSettings;
  readonly receiving: ReceiveSettings & { readonly budget: ByteBudget };
  readonly fleet: Fleet;
  readonly owner: Owner;
  /** Keys, lanes and limits; absent: everybody may do all, online. */
  readonly access?: Access | undefined;
  /** What the two lanes are told and know; absent: nobody is taken back, and no refusal is foreseen. */
  readonly lanes?: LanesTold | undefined;
  readonly sticky: Sticky;
  readonly ticker: Ticker;
  readonly upstream: UpstreamClient;
  readonly lag: LoopLag;
  /** Whose prefill a stalled stream waited for. */
  readonly prefills: PrefillLog;
  /** Counts the streams that decode on each backend. */
  readonly decodes?: DecodeStarts | undefined;
  readonly sinks: { add(record: RequestRecord): void };
  /** Has a record looked at a little later, with others; absent: at once. */
  readonly later?: Pick<Later, 'add'> | undefined;
  /** Where a request stands in its trace; absent while tracing is off. */
  readonly beginTrace?: ((head: ClientHead) => TraceIds) | undefined;
  /** Tells repeated requests; absent unless they are looked for. */
  readonly fingerprint?: Fingerprint | undefined;
  /** Notes on a record what the settings and the other requests say of it, before a sink sees it. */
  readonly assess: (record: RequestRecord, job: Job | undefined) => void;
  /** Is told of each prompt and of each end, so as to warm backends ahead of time; absent when nothing is to be warmed. */
  readonly warmUp?:
    | {
        readonly saw: (job: Job, body: RequestBody) => void;
        readonly recorded: (record: RequestRecord, job: Job | undefined) => void;
      }
    | undefined;
  /** Earlier answers for the same requests; absent unless they are kept. */
  readonly answerCache?: AnswerCache | undefined;
  /**
   * The merged list of models as JSON text; undefined: there is nothing to merge. Asked with the client's credentials.
   * With `only` there is always a list: of those among these names.
   */
  readonly listModels: (
    header: (name: string) => string | undefined,
    only?: ReadonlySet<string>,
  ) => Promise<string | undefined>;
  /** Asked at each grant: whoever holds it keeps to it, whatever becomes of the backend's name meanwhile. */
  readonly link: (backend: string) => Link;
  /** Some backend besides those in `exclude` could take the job. */
  readonly hasOther: (job: Job, exclude: readonly string[]) => boolean;
  /** A relay works on a backend from now on: it hears when that backend's port refuses. Returns how to end that. */
  readonly relaying: (link: Link, relay: Relay) => () => void;
}
