/**
 * What permits are out on each backend, and what their prompts and streams hold there: counted here and nowhere else, by each
 * permit's `Share`, which is taken out once. Another server under the same name starts with nothing.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { Errand } from '../domain/routing.ts';
import { Bag } from '../platform/bag.ts';
import type { LoadView } from './owner.ts';
import type { Running } from './reclaim.ts';
import { isWork } from './waiter.ts';

type Load = { -readonly [key in keyof LoadView]: LoadView[key] };

/** One backend, as far as permits go. */
export interface Held {
  readonly url: string;
  /** the same object from now on, so that it can be read again later */
  readonly load: Load;
  /** permits of generating jobs */
  generating: number;
  /** of all permits those that keep no engine busy */
  otherJobs: number;
  /** of those that do, batch's */
  batchJobs: number;
  batchSlots: number;
  /** prompts that are computed there, as far as is known, by lane */
  onlinePrompts: number;
  batchPrompts: number;
  /** of the sequences that decode there, and of the prompt tokens of these, batch's */
  batchDecoding: number;
  batchContextTokens: number;
  /** when an online job's first token came there last */
  onlineFirstMs: number;
  /** when an online prompt was sent there last, or had a batch prompt taken back since it was late */
  disturbedMs: number;
  /** told to leave, and still there */
  leavingJobs: number;
  leavingSlots: number;
  /** batch jobs that could be taken back */
  readonly takeable: Bag<Running>;
  reclaimedJobs: number;
  lostTokens: number;
  /** how long a place was held, of late, in ms, and by how many permits that is known */
  heldMs: number;
  samples: number;
}

export interface Loads {
  of(backend: string): LoadView;
  /**
   * As an online job should see it: without what batch decodes there, since batch makes way. Else the backends from which batch
   * was just driven would draw all online jobs, and be pressed the more. Places and prompts count whoever has them.
   */
  withoutBatch(backend: string): LoadView;
  held(backend: string): Held | undefined;
  /** Begins to count where nothing was held. */
  heldOn(backend: BackendView): Held;
  /** A permit has settled: what left the fleet and holds nothing any more is forgotten. */
  released(backend: string, held: Held): void;
  /** Forgets who left and holds nothing, and who is another server now; permits that are out settle on their own. */
  followFleet(): void;
}

const idle: LoadView = {
  jobs: 0,
  slots: 0,
  lastUsed: 0,
  pendingTokens: 0,
  pendingJobs: 0,
  decoding: 0,
  contextTokens: 0,
};

export function createLoads(fleet: () => FleetSnapshot): Loads {
  const loads = new Map<string, Held>();
  return {
    of: (backend) => loads.get(backend)?.load ?? idle,
    withoutBatch(backend) {
      const held = loads.get(backend);
      if (held === undefined) return idle;
      const { load, batchJobs, batchDecoding, batchContextTokens } = held;
      if (batchJobs === 0) return load;
      return {
        jobs: load.jobs - batchJobs,
        slots: load.slots,
        lastUsed: load.lastUsed,
        pendingTokens: load.pendingTokens,
        pendingJobs: load.pendingJobs,
        decoding: load.decoding - batchDecoding,
        contextTokens: load.contextTokens - batchContextTokens,
      };
    },
    held: (backend) => loads.get(backend),
    heldOn({ name, url }) {
      const known = loads.get(name);
      if (known?.url === url) return known;
      const made = createHeld(url);
      loads.set(name, made);
      return made;
    },
    released(name, held) {
      if (held.load.jobs > 0 || loads.get(name) !== held) return;
      if (!fleet().backends.some((backend) => backend.name === name)) loads.delete(name);
    },
    followFleet() {
      if (loads.size === 0) return;
      const urls = new Map(fleet().backends.map(({ name, url }) => [name, url]));
      for (const [name, held] of loads) {
        const url = urls.get(name);
        if (url === undefined ? held.load.jobs === 0 : url !== held.url) loads.delete(name);
      }
    },
  };
}

function createHeld(url: string): Held {
  return {
    url,
    load: { ...idle },
    generating: 0,
    otherJobs: 0,
    batchJobs: 0,
    batchSlots: 0,
    onlinePrompts: 0,
    batchPrompts: 0,
    batchDecoding: 0,
    batchContextTokens: 0,
    onlineFirstMs: -Infinity,
    disturbedMs: -Infinity,
    leavingJobs: 0,
    leavingSlots: 0,
    takeable: new Bag(),
    reclaimedJobs: 0,
    lostTokens: 0,
    heldMs: 0,
    samples: 0,
  };
}

/** A generating job takes a slot per choice; more than the backend has is its to refuse. */
export function slotsOf(job: Pick<Job, 'generates' | 'choices'>, backend: BackendView): number {
  if (!job.generates) return 0;
  return backend.slots === undefined ? job.choices : Math.min(job.choices, Math.max(1, backend.slots));
}

export function hasRoom(backend: BackendView, held: LoadView, job: Pick<Job, 'generates' | 'choices'>): boolean {
  if (backend.slots === undefined) return true;
  return held.slots + backend.ghostSlots + slotsOf(job, backend) <= Math.max(1, backend.slots);
}

/** One permit's part in its backend's load: first among what is to be computed, then among what decodes; taken out once. */
export class Share {
  readonly #held: Held;
  readonly #isBatch: boolean;
  readonly #isWork: boolean;
  readonly #sequences: number;
  readonly #slots: number;
  #promptTokens = 0;
  #uncachedTokens = 0;
  /** Of its prompt, what still counts as to be computed before others. */
  #backlogTokens = 0;
  /** Its prompt counts among those that are computed. */
  #computes = false;
  #stage: 'none' | 'pending' | 'decoding' | 'ended' = 'none';

  constructor(held: Held, job: Job, slots: number) {
    this.#held = held;
    this.#isWork = isWork(job);
    this.#isBatch = this.#isWork && job.lane === 'batch';
    this.#sequences = job.generates ? job.choices : 0;
    this.#slots = slots;
  }

  /** @param order grows with every grant anywhere */
  begin(errand: Errand | undefined, order: number): void {
    const held = this.#held;
    held.load.jobs += 1;
    held.load.slots += this.#slots;
    held.load.lastUsed = order;
    if (!this.#isWork) held.otherJobs += 1;
    if (this.#isBatch) {
      held.batchJobs += 1;
      held.batchSlots += this.#slots;
    }
    this.#promptTokens = errand?.promptTokens ?? 0;
    this.#uncachedTokens = errand?.uncachedTokens ?? 0;
    this.#backlogTokens = this.#uncachedTokens;
    this.#stage = 'pending';
    held.load.pendingTokens += this.#backlogTokens;
    if (this.#sequences === 0) return;
    held.generating += 1;
    held.load.pendingJobs += 1;
    this.#countPrompt(1);
  }

  /**
   * Nothing waits behind its prompt any more, as far as routing goes. It stays one that is computed until its first token comes or it
   * ends: the estimate may be the slip. A second batch prompt beside a late one would keep online waiting for both, and one beside
   * a late online prompt would be taken back for it at once, or keep it waiting for longer.
   * @returns false when it was none of the backlog any more
   */
  overdue(): boolean {
    if (this.#stage !== 'pending' || this.#backlogTokens === 0) return false;
    this.#held.load.pendingTokens -= this.#backlogTokens;
    this.#backlogTokens = 0;
    return true;
  }

  /** Of its prompt, tokens that weren't cached when it was sent; 0 once they are computed, as far as is known. */
  get uncomputedTokens(): number {
    return this.#stage === 'pending' && this.#computes ? this.#uncachedTokens : 0;
  }

  /** @returns false when it decodes already */
  decoding(nowMs: number): boolean {
    if (this.#stage !== 'pending' || this.#sequences === 0) return false;
    this.#leaveStage();
    this.#stage = 'decoding';
    const held = this.#held;
    held.load.decoding += this.#sequences;
    held.load.contextTokens += this.#promptTokens;
    if (this.#isBatch) {
      held.batchDecoding += this.#sequences;
      held.batchContextTokens += this.#promptTokens;
    } else held.onlineFirstMs = nowMs;
    return true;
  }

  end(): void {
    const held = this.#held;
    this.#leaveStage();
    this.#stage = 'ended';
    held.load.jobs -= 1;
    held.load.slots -= this.#slots;
    if (!this.#isWork) held.otherJobs -= 1;
    if (this.#sequences > 0) held.generating -= 1;
    if (!this.#isBatch) return;
    held.batchJobs -= 1;
    held.batchSlots -= this.#slots;
  }

  #leaveStage(): void {
    const held = this.#held;
    const { load } = held;
    if (this.#stage === 'pending') {
      if (this.#sequences > 0) load.pendingJobs -= 1;
      load.pendingTokens -= this.#backlogTokens;
      this.#countPrompt(-1);
    } else if (this.#stage === 'decoding') {
      load.decoding -= this.#sequences;
      load.contextTokens -= this.#promptTokens;
      if (!this.#isBatch) return;
      held.batchDecoding -= this.#sequences;
      held.batchContextTokens -= this.#promptTokens;
    }
  }

  #countPrompt(by: 1 | -1): void {
    if (this.#computes === by > 0) return;
    this.#computes = by > 0;
    if (this.#isBatch) this.#held.batchPrompts += by;
    else this.#held.onlinePrompts += by;
  }
}
