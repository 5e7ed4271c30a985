/**
 * Takes batch jobs' places back: just as many as the online jobs that wait for a place need, those that lose least first, the
 * youngest among equals. Who was told to leave counts as leaving until its permit settles, so that nobody is told in its stead;
 * a ghost slot too, since that place is on its way. Ends no request itself: `Reclaimable.take` does.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { BatchRule } from '../domain/lanes.ts';
import type { Place } from '../platform/bag.ts';
import { shareOf } from './batch-room.ts';
import type { LaneQueue, Line } from './lane-queue.ts';
import type { LaneSettings } from './lane-settings.ts';
import { type Held, type Loads, type Share, slotsOf } from './load.ts';
import type { Reclaimable, Reclaimed } from './owner.ts';
import type { Waiter } from './waiter.ts';

/** One batch job whose place can be had back. */
export interface Running {
  readonly reclaim: Reclaimable;
  readonly slots: number;
  /** grows with every grant */
  readonly order: number;
  readonly share: Pick<Share, 'uncomputedTokens'>;
  readonly sentMs: number;
  /** what its prompt alone should take there */
  readonly promptMs: number;
  place: Place;
  taken: boolean;
}

export interface Reclaims {
  started(held: Held, reclaim: Reclaimable, of: Omit<Running, 'reclaim' | 'place' | 'taken'>): Running;
  ended(held: Held, running: Running): void;
  /** For those who wait for a place that batch holds. */
  forOnline(online: LaneQueue): void;
  /** An online prompt goes to that backend: those of batch that its engine would compute before it are to leave. */
  forPrompt(backend: BackendView, held: Held, waits: WaitingPrompt): void;
  /** An online prompt that was sent there is late: the same, for what was thought to be over by now. */
  forLatePrompt(backend: string, waits: WaitingPrompt): Reclaimed;
  /** Of one backend: so many are to leave, those that leave already among them. */
  take(backend: string, jobs: number): Reclaimed;
}

/** An online one; of several the one that may wait least. */
export interface WaitingPrompt {
  /** Absent: that of jobs whose SLO says nothing. */
  readonly ttftBoundMs?: number | undefined;
  readonly nowMs: number;
}

export interface ReclaimDeps {
  readonly lanes: () => LaneSettings;
  readonly fleet: () => FleetSnapshot;
  readonly loads: Loads;
  readonly ruleOf: (backend: string) => BatchRule;
}

/** A shorter rest of a prompt is computed sooner than an engine notices that nobody wants it. */
const leastPromptTokens = 256;

/** Of its TTFT bound an online request waits for so much of one batch prompt at most, on engines that compute long ones quickly. */
const mostPromptShare = 0.5;

const nothing: Reclaimed = { jobs: 0, lostTokens: 0 };

/** What one backend will have free when all is gone that leaves, and who else could be told to. */
interface Prospect {
  readonly held: Held | undefined;
  readonly backend: BackendView;
  spareSlots: number;
  /** Least loss first; made when it is needed. */
  candidates: Candidate[] | undefined;
}

interface Candidate {
  readonly running: Running;
  readonly lostTokens: number;
}

export function createReclaims({ lanes, fleet, loads, ruleOf }: ReclaimDeps): Reclaims {
  let takeable = 0;

  /**
   * Who may be told to leave, at most down to the guaranteed share; the last is the one that loses least.
   * @param isMeant leaves out whose leaving would help nobody; absent: anybody's does
   */
  function candidatesOf(held: Held, share: number, isMeant?: (running: Running) => boolean): Candidate[] {
    const found: Candidate[] = [];
    held.takeable.forEach((running) => {
      if (isMeant?.(running) === false) return;
      const lostTokens = running.reclaim.loses();
      if (lostTokens !== undefined) found.push({ running, lostTokens });
    });
    found.sort((a, b) => b.lostTokens - a.lostTokens || a.running.order - b.running.order);
    const most = Math.max(0, held.batchJobs - held.leavingJobs - share);
    return found.length <= most ? found : found.slice(found.length - most);
  }

  function mark(held: Held, { running, lostTokens }: Candidate): void {
    running.taken = true;
    held.takeable.remove(running.place);
    takeable -= 1;
    held.leavingJobs += 1;
    held.leavingSlots += running.slots;
    held.reclaimedJobs += 1;
    held.lostTokens += lostTokens;
  }

  function prospects(): (name: string) => Prospect | undefined {
    const known = new Map<string, Prospect>();
    const { backends } = fleet();
    return (name) => {
      const one = known.get(name);
      if (one !== undefined) return one;
      const backend = backends.find((each) => each.name === name);
      if (backend === undefined) return undefined;
      const held = loads.held(name);
      const taken = held === undefined ? 0 : held.load.slots - held.leavingSlots;
      const spareSlots = backend.slots === undefined ? Infinity : Math.max(1, backend.slots) - taken;
      const made: Prospect = { held, backend, spareSlots, candidates: undefined };
      known.set(name, made);
      return made;
    };
  }

  function candidatesAt(prospect: Prospect): Candidate[] {
    const { backend, held } = prospect;
    if (prospect.candidates !== undefined) return prospect.candidates;
    const isOpen = held !== undefined && held.takeable.size > 0 && ruleOf(backend.name).reclaim !== false;
    prospect.candidates = isOpen ? candidatesOf(held, shareOf(backend, lanes())) : [];
    return prospect.candidates;
  }

  /** @returns whether the waiter will have a place: one that gets free anyway, or that of those who are told now */
  function provide({ ask, wants }: Waiter, at: (name: string) => Prospect | undefined, told: Running[]): boolean {
    for (const { backend } of wants) {
      const prospect = at(backend.name);
      if (prospect === undefined) continue;
      const slots = slotsOf(ask.job, prospect.backend);
      if (prospect.spareSlots < slots) continue;
      prospect.spareSlots -= slots;
      return true;
    }
    for (const { backend } of wants) {
      const prospect = at(backend.name);
      if (prospect?.held === undefined) continue;
      const slots = slotsOf(ask.job, prospect.backend);
      const candidates = candidatesAt(prospect);
      let gained = prospect.spareSlots;
      let count = 0;
      while (gained < slots && count < candidates.length) {
        count += 1;
        gained += candidates[candidates.length - count]?.running.slots ?? 0;
      }
      if (gained < slots) continue;
      for (const candidate of candidates.splice(candidates.length - count).toReversed()) {
        mark(prospect.held, candidate);
        told.push(candidate.running);
      }
      prospect.spareSlots = gained - slots;
      return true;
    }
    return false;
  }

  /** Those of batch whose prompts keep an online one waiting for too long. */
  function takePrompts(backend: BackendView, held: Held, { ttftBoundMs, nowMs }: WaitingPrompt): Reclaimed {
    const { reclaim, control } = lanes();
    if (held.batchPrompts === 0 || held.takeable.size === 0 || !reclaim.enabled) return nothing;
    if (ruleOf(backend.name).reclaim === false) return nothing;
    // Others join steps, where a chunk of the prompt that came first leaves room; they compute some thousand tokens at once.
    const leastMs = backend.engine === 'llama-server' ? 0 : mostPromptShare * (ttftBoundMs ?? control.ttftMs);
    const isInTheWay = ({ share, sentMs, promptMs }: Running) =>
      share.uncomputedTokens >= leastPromptTokens && Math.max(promptMs, nowMs - sentMs) >= leastMs;
    const told = candidatesOf(held, shareOf(backend, lanes()), isInTheWay);
    // Before they are told: what settles at once may let others begin.
    if (told.length > 0) held.disturbedMs = nowMs;
    return tell(held, told);
  }

  function tell(held: Held, told: readonly Candidate[]): Reclaimed {
    for (const candidate of told) mark(held, candidate);
    // Only now: whoever is told may settle at once.
    for (const { running } of told) running.reclaim.take();
    return { jobs: told.length, lostTokens: told.reduce((sum, { lostTokens }) => sum + lostTokens, 0) };
  }

  return {
    started(held, reclaim, { slots, order, share, sentMs, promptMs }) {
      const place = { index: -1 };
      const running: Running = { reclaim, slots, order, share, sentMs, promptMs, place, taken: false };
      running.place = held.takeable.add(running);
      takeable += 1;
      return running;
    },
    ended(held, running) {
      if (running.taken) {
        held.leavingJobs -= 1;
        held.leavingSlots -= running.slots;
        return;
      }
      held.takeable.remove(running.place);
      takeable -= 1;
    },
    forOnline(online) {
      if (takeable === 0 || online.jobs === 0 || !lanes().reclaim.enabled) return;
      const at = prospects();
      const told: Running[] = [];
      const serve = (line: Line) => {
        for (let waiter = line.first; waiter !== undefined; waiter = waiter.next) {
          if (waiter.holds || provide(waiter, at, told)) continue;
          // The others of such a line want what this one does.
          if (line.isOrdinary) return;
        }
      };
      serve(online.again);
      for (const line of online.lines) serve(line);
      // Only now: whoever is told may settle at once.
      for (const running of told) running.reclaim.take();
    },
    forPrompt: (backend, held, waits) => void takePrompts(backend, held, waits),
    forLatePrompt(name, waits) {
      const held = loads.held(name);
      const backend = fleet().backends.find((one) => one.name === name);
      return held === undefined || backend === undefined ? nothing : takePrompts(backend, held, waits);
    },
    take(name, jobs) {
      const held = loads.held(name);
      const backend = fleet().backends.find((one) => one.name === name);
      if (held === undefined || backend === undefined || !lanes().reclaim.enabled) return nothing;
      const wanted = jobs - held.leavingJobs;
      if (!(wanted > 0) || held.takeable.size === 0) return nothing;
      return tell(held, candidatesOf(held, shareOf(backend, lanes())).slice(-wanted).toReversed());
    },
  };
}
