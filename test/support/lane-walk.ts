/**
 * A long random walk over the owner of places, on a virtual clock: jobs of both lanes and several tenants come, leave, begin to
 * decode and end, backends come and go, caps change, places are taken back. It keeps books of its own and throws at the first
 * step after which the owner's differ or one of its promises is broken.
 */
import type { AdmitSettings } from '../../src/admit/settings.ts';
import { createOwner, type Ask, type Choice, type Granted, type Permit, type Ticket } from '../../src/admit/owner.ts';
import type { BackendView } from '../../src/domain/fleet.ts';
import type { BatchRule } from '../../src/domain/lanes.ts';
import { isRefusal, type Refusal } from '../../src/domain/refusal.ts';
import { modelNotFound } from '../../src/route/refusals.ts';
import { createVirtualClock } from '../../src/sim/virtual-clock.ts';
import { sampleBackend, sampleJob } from './sample.ts';
import type { Chance } from './seed.ts';

export interface WalkCounts {
  readonly steps: number;
  readonly online: number;
  readonly batch: number;
  readonly refused: number;
  readonly left: number;
  readonly taken: number;
  /** of those, batch prompts that an online prompt would have had to wait for */
  readonly promptsTaken: number;
  /** batch jobs that had waited for quiet */
  readonly quieted: number;
}

interface Asked {
  readonly ask: Ask;
  readonly isBatch: boolean;
  ticket: Ticket | undefined;
  permit: Permit | undefined;
  granted: Granted | undefined;
  isAnswered: boolean;
  hasLeft: boolean;
  isSettled: boolean;
  /** its prompt is computed, as far as the walk told */
  computes: boolean;
  taken: boolean;
  askedMs: number;
  sentMs: number;
  /** Among all that were sent. */
  nth: number;
}

interface Book {
  jobs: number;
  slots: number;
  batchJobs: number;
  batchSlots: number;
  onlinePrompts: number;
  batchPrompts: number;
}

const models = ['m', 'n', 'o'] as const;
const tenants = ['', 'ann', 'bob', 'cid'] as const;
const capChoices = [0, 1, 2, 3, Infinity] as const;
/** More out at once makes no step stranger, only slower. */
const mostOut = 24;

/** @throws Error that says which promise was broken at which step */
export function walkLanes(
  settings: AdmitSettings & Required<Pick<AdmitSettings, 'lanes'>>,
  chance: Chance,
  steps: number,
): WalkCounts {
  const clock = createVirtualClock();
  const { below, of } = chance;
  const { batch: batchSettings, maxQueuedTokens } = settings.lanes;
  const isStrict = batchSettings.minShare === 0 && batchSettings.agingMs === 0;
  const all = [
    sampleBackend('a', { engine: 'llama-server', slots: 2, models: ['m'] }),
    sampleBackend('b', { engine: 'llama-server', slots: 3, models: ['m', 'n'] }),
    sampleBackend('c', { engine: 'llama-server', slots: 1 }),
    sampleBackend('d', { models: ['o', 'n'] }),
    sampleBackend('e', { slots: 4, models: ['m', 'o'] }),
  ];
  let snapshot = { atMs: 1, backends: all as readonly BackendView[] };
  const rules = new Map<string, BatchRule>();
  const held = { m: false, n: false, o: false };
  const waiting = new Set<Asked>();
  const out: Asked[] = [];
  const ghosts = new Map<string, number>();
  const lastUrls = new Map<string, string>();
  let step = 0;
  let urls = 0;
  let nths = 0;
  let ownerTakes = true;
  let takenBefore = 0;
  /** Of each tenant whether the batch job that got a place last was a line of a batch. */
  const lineWasLast = new Map<string, boolean>();
  /** Online jobs that are being sent, until they are answered: what is taken back meanwhile is taken for their prompts. */
  const sending: { readonly asked: Asked; readonly backend: BackendView }[] = [];
  /** Those that were sent in this step. */
  const sentNow: { readonly asked: Asked; readonly backend: BackendView }[] = [];
  /** By server, when an online prompt was sent there last, or had a batch prompt taken back there. */
  const onlineSent = new Map<string, number>();
  /** Servers that were away since: what they were sent may have been forgotten. */
  const wereAway = new Set<string>();
  const counts = { online: 0, batch: 0, refused: 0, left: 0, taken: 0, promptsTaken: 0, quieted: 0 };

  function fail(what: string): never {
    throw new Error(`seed ${chance.seed}, step ${step}: ${what}`);
  }

  function choose({ job, exclude }: Ask): Choice | Refusal {
    const able = snapshot.backends.filter(
      ({ name, models: served }) =>
        !exclude.includes(name) && (served.length === 0 || served.includes(job.model ?? '')),
    );
    if (able.length === 0) return modelNotFound(job.model ?? '', snapshot.backends);
    // What a job would take first depends on its prompt.
    const turn = job.bodyBytes % able.length;
    const ranked = [...able.slice(turn), ...able.slice(0, turn)].map((backend) => ({ backend, reason: 'least_load' }));
    const some = job.bodyBytes % 3 === 0 ? ranked.slice(0, 1) : ranked;
    return { ranked: some, hold: held[job.model as 'm' | 'n' | 'o'], againMs: 40 };
  }

  const owner = createOwner(settings, {
    clock,
    fleet: () => snapshot,
    choose,
    batchOn: (backend) => rules.get(backend) ?? { cap: 2, reserveSlots: 0, gate: true },
    sent(ask, { backend }, granted) {
      const asked = [...waiting].find((one) => one.ask === ask) ?? fail('a job was sent that nobody waits for');
      asked.granted = granted;
      asked.sentMs = clock.nowMs();
      asked.nth = nths += 1;
      if (!asked.isBatch) {
        sending.push({ asked, backend });
        onlineSent.set(backend.url, clock.nowMs());
        wereAway.delete(backend.url);
      }
      const tokens = tokensOf(asked);
      return { promptTokens: tokens, uncachedTokens: tokens, promptMs: promptMsOf(asked), ended() {} };
    },
  });

  /** What the walk knows to be out on a backend; `apart` from one of them. */
  function bookOf({ name, url }: BackendView, apart?: Asked): Book {
    const book = { jobs: 0, slots: 0, batchJobs: 0, batchSlots: 0, onlinePrompts: 0, batchPrompts: 0 };
    for (const asked of out) {
      const { permit, isBatch, computes, isSettled } = asked;
      if (asked === apart || isSettled || permit?.backend.name !== name || permit.backend.url !== url) continue;
      book.jobs += 1;
      book.slots += permit.slots;
      if (isBatch) {
        book.batchJobs += 1;
        book.batchSlots += permit.slots;
        if (computes) book.batchPrompts += 1;
      } else if (computes) book.onlinePrompts += 1;
    }
    return book;
  }

  function tokensOf({ ask }: Asked): number {
    return ask.job.bodyBytes / 4;
  }

  function promptMsOf(asked: Asked): number {
    return tokensOf(asked) / 20;
  }

  /** The engine would compute its prompt before that of an online job sent now, for too long. */
  function isInTheWay(asked: Asked, backend: BackendView, online: Asked): boolean {
    if (!asked.computes || tokensOf(asked) < 256) return false;
    if (backend.engine === 'llama-server') return true;
    const leastMs = 0.5 * (online.ask.ttftBoundMs ?? settings.lanes.control.ttftMs);
    return Math.max(promptMsOf(asked), online.sentMs - asked.sentMs) >= leastMs;
  }

  /** How long online must have sent nothing there by then. */
  function quietMsOf({ promptsTaken = 0 }: Ask): number {
    return promptsTaken === 0 ? 0 : Math.min(10_000, 250 * 2 ** (promptsTaken - 1));
  }

  function isQuietFor({ ask, askedMs }: Asked, { url }: BackendView): boolean {
    const { agingMs } = batchSettings;
    if (agingMs > 0 && clock.nowMs() - askedMs >= agingMs) return true;
    return clock.nowMs() - (onlineSent.get(url) ?? -Infinity) >= quietMsOf(ask);
  }

  function ruleOf(name: string): BatchRule {
    return rules.get(name) ?? { cap: 2, reserveSlots: 0, gate: true };
  }

  function shareOf({ slots }: BackendView): number {
    const places = slots ?? settings.lanes.control.maxPerBackend;
    return Math.ceil(batchSettings.minShare * places);
  }

  function roomFor(asked: Asked, backend: BackendView): boolean {
    const { job } = asked.ask;
    if (!job.generates || backend.slots === undefined) return true;
    return bookOf(backend).slots + backend.ghostSlots + Math.min(job.choices, backend.slots) <= backend.slots;
  }

  /** By the rule alone, whoever else waits. */
  function batchMay(asked: Asked, backend: BackendView): string | undefined {
    const { job } = asked.ask;
    const { cap, reserveSlots, gate } = ruleOf(backend.name);
    const share = shareOf(backend);
    const book = bookOf(backend, asked);
    if (book.batchJobs >= Math.max(cap, share)) return 'past the cap';
    if (share === 0 && !wereAway.has(backend.url) && !isQuietFor(asked, backend)) return 'before it was quiet';
    if (!job.generates) return undefined;
    if (gate && book.batchPrompts > 0) return 'a second batch prompt at once';
    if (gate && share === 0 && book.onlinePrompts > 0) return 'a batch prompt beside an online one';
    if (backend.slots === undefined) return undefined;
    const most = Math.max(backend.slots - reserveSlots, share);
    if (most <= 0) return 'into the reserve';
    const slots = Math.min(job.choices, backend.slots);
    if (book.batchSlots > 0 && book.batchSlots + slots > most) return 'into the reserve';
    return undefined;
  }

  function checkGrant(asked: Asked, permit: Permit): void {
    const backend = snapshot.backends.find(({ name }) => name === permit.backend.name);
    if (backend === undefined) fail('granted on a backend that has left');
    if (asked.ask.job.generates && !roomFor(asked, backend)) fail(`granted without room on ${backend.name}`);
    if (!asked.isBatch) return;
    const wrong = batchMay(asked, backend);
    if (wrong !== undefined) fail(`batch was granted ${wrong} on ${backend.name}`);
    checkTurn(asked, backend);
    if (!isStrict || !asked.ask.job.generates) return;
    for (const other of waiting) {
      if (other.isBatch || other === asked || other.granted !== undefined) continue;
      const wants = choose(other.ask);
      if (isRefusal(wants) || !wants.ranked.some((target) => target.backend.name === backend.name)) continue;
      fail(`batch got a place on ${backend.name} that an online job waits for`);
    }
  }

  /** A line of a batch had its turn already, and a client of the same tenant waits for the same place. */
  function checkTurn({ ask }: Asked, backend: BackendView): void {
    const { name } = backend;
    const { tenant = '', model, choices } = ask.job;
    const wasLine = lineWasLast.get(tenant) === true;
    lineWasLast.set(tenant, ask.patient === true);
    if (!isStrict || !wasLine || ask.patient !== true || ask.again || !ask.job.generates) return;
    for (const waits of waiting) {
      const { isBatch, ask: other } = waits;
      if (!isBatch || other.patient === true || (other.job.tenant ?? '') !== tenant || other.job.model !== model)
        continue;
      // Those that lost a place stand in a line of their own, and of a long one the last are not tried in each walk.
      if (other.again || !other.job.generates || other.job.choices > choices) continue;
      if (!isQuietFor(waits, backend)) continue;
      const wants = choose(other);
      if (isRefusal(wants) || !wants.ranked.some((target) => target.backend.name === name)) continue;
      fail(`a second line of a batch in turn got a place on ${name} that a client of its tenant waits for`);
    }
  }

  function answered(asked: Asked, result: Permit | Refusal): void {
    if (asked.isAnswered) fail('answered twice');
    if (asked.hasLeft) fail('answered after it had left');
    asked.isAnswered = true;
    waiting.delete(asked);
    const sent = asked.granted === undefined || asked.isBatch ? undefined : sending.pop();
    if (sent !== undefined) sentNow.push(sent);
    if (isRefusal(result)) {
      counts.refused += 1;
      return;
    }
    checkGrant(asked, result);
    counts[asked.isBatch ? 'batch' : 'online'] += 1;
    if (asked.ask.promptsTaken !== undefined) counts.quieted += 1;
    asked.permit = result;
    asked.computes = asked.ask.job.generates;
    out.push(asked);
    // Some clients leave in the very turn of the grant, some of those ask for more.
    if (below(20) > 0) return;
    settle(asked);
    if (below(3) === 0) come(below(2) === 0);
  }

  function settle(asked: Asked): void {
    if (asked.permit === undefined || asked.isSettled) return;
    asked.isSettled = true;
    asked.computes = false;
    asked.permit.settle(below(2) === 0 ? { outputTokens: below(500) } : undefined);
    asked.permit.settle();
  }

  function come(isBatch: boolean): void {
    const bodyBytes = 100 + below(2000);
    const tenant = of(tenants);
    const job = sampleJob({
      lane: isBatch ? 'batch' : 'online',
      model: of(models),
      choices: below(5) === 0 ? 2 : 1,
      bodyBytes,
      ...(tenant === '' ? {} : { tenant, weight: 1 + below(3) }),
      ...(below(15) === 0 ? { generates: false, endpoint: 'embeddings' as const } : {}),
    });
    const asked: Asked = {
      ask: {
        job,
        exclude: below(12) === 0 ? ['b'] : [],
        again: below(10) === 0,
        ...(isBatch && below(3) > 0 ? { reclaim: { loses: () => losesOf(asked), take: () => take(asked) } } : {}),
        ...(isBatch && below(2) === 0 ? { patient: true } : {}),
        ...(isBatch && below(8) === 0 ? { promptsTaken: 1 + below(7) } : {}),
        ...(below(3) === 0 ? { ttftBoundMs: 1 + below(40) } : {}),
      },
      isBatch,
      ticket: undefined,
      permit: undefined,
      granted: undefined,
      isAnswered: false,
      hasLeft: false,
      isSettled: false,
      computes: false,
      taken: false,
      askedMs: clock.nowMs(),
      sentMs: 0,
      nth: 0,
    };
    waiting.add(asked);
    asked.ticket = owner.ask(asked.ask, (result) => answered(asked, result));
  }

  function losesOf(asked: Asked): number | undefined {
    return asked.ask.job.bodyBytes % 7 === 0 ? undefined : asked.ask.job.bodyBytes % 50;
  }

  function take(asked: Asked): void {
    if (asked.taken) fail('taken back twice');
    if (asked.permit === undefined || asked.isSettled) fail('taken back without a place');
    asked.taken = true;
    counts.taken += 1;
    const { backend } = asked.permit;
    const isForPrompt = sending.some((one) => one.backend.url === backend.url && isInTheWay(asked, backend, one.asked));
    if (isForPrompt) {
      counts.promptsTaken += 1;
      if (ruleOf(backend.name).reclaim === false) fail('a prompt was taken back where that is forbidden');
      const now = snapshot.backends.find(({ url }) => url === backend.url) ?? backend;
      if (bookOf(backend).batchJobs - leavingOf(backend) < shareOf(now)) fail('the minimum share was taken back');
    }
    // Of several that are told at once the first one’s place may have been enough by then, if somebody left meanwhile.
    if (ownerTakes && counts.taken === takenBefore + 1) {
      if (ruleOf(backend.name).reclaim === false) fail('taken back where that is forbidden');
      const isWanted = [...waiting].some((one) => {
        const wants = one.isBatch || one.granted !== undefined ? undefined : choose(one.ask);
        return (
          wants !== undefined &&
          !isRefusal(wants) &&
          wants.ranked.some((target) => target.backend.name === backend.name)
        );
      });
      if (!isWanted && !isForPrompt) fail('taken back for nobody');
    }
    if (below(3) === 0) settle(asked);
  }

  /** Batch jobs that were told to leave and are there still. */
  function leavingOf({ name, url }: BackendView): number {
    return out.filter(
      ({ permit, taken, isSettled }) =>
        taken && !isSettled && permit?.backend.name === name && permit.backend.url === url,
    ).length;
  }

  /** An online prompt was sent: nothing that may be taken back is computed before it. */
  function checkNoneInTheWay(online: Asked, backend: BackendView): void {
    if (!online.ask.job.generates || shareOf(backend) > 0 || ruleOf(backend.name).reclaim === false) return;
    for (const asked of out) {
      const { permit, isBatch, isSettled, taken } = asked;
      if (!isBatch || isSettled || taken || asked.ask.reclaim === undefined || losesOf(asked) === undefined) continue;
      if (permit?.backend.name !== backend.name || permit.backend.url !== backend.url) continue;
      // Without the gate others may begin in the place of one that was taken.
      if (asked.nth < online.nth && isInTheWay(asked, backend, online))
        fail(`an online prompt waits for a batch one on ${backend.name}`);
    }
  }

  function changeFleet(): void {
    const backends = all
      .filter(() => below(8) > 0)
      .map((backend) => {
        // Now and then it is another server; one that was away may come back as the one that it was.
        const url =
          below(15) === 0 ? `http://${backend.name}${(urls += 1)}` : (lastUrls.get(backend.name) ?? backend.url);
        lastUrls.set(backend.name, url);
        ghosts.set(backend.name, below(4) === 0 ? below(2) : 0);
        const slots =
          backend.slots === undefined ? {} : { slots: Math.max(1, backend.slots - (below(6) === 0 ? 1 : 0)) };
        return { ...backend, ...slots, url, ghostSlots: ghosts.get(backend.name) ?? 0 };
      });
    for (const url of onlineSent.keys()) if (!backends.some((backend) => backend.url === url)) wereAway.add(url);
    snapshot = { atMs: clock.nowMs(), backends };
    held[of(models)] = below(3) === 0;
    owner.fleetChanged();
  }

  function changeCaps(): void {
    const name = of(all).name;
    rules.set(name, {
      cap: of(capChoices),
      reserveSlots: below(4) === 0 ? 1 : 0,
      gate: below(2) === 0,
      ...(below(5) === 0 ? { reclaim: false } : {}),
    });
    owner.capsChanged();
  }

  function doOne(): void {
    const kind = below(100);
    const some = out.length === 0 ? undefined : out[below(out.length)];
    const isFull = out.length >= mostOut;
    if (kind < 18) come(false);
    else if (kind < 38) come(true);
    else if (kind < 43) leaveOne();
    else if (kind < (isFull ? 75 : 64)) {
      if (some !== undefined) settle(some);
    } else if (kind < 80) {
      if (some?.isSettled !== false) return;
      const isLate = below(6) === 0 && some.computes;
      // A prompt that is late is computed all the same.
      some.computes = isLate;
      if (isLate) some.granted?.overdue();
      else some.permit?.decoding();
    } else if (kind < 86) changeCaps();
    else if (kind < 88) changeFleet();
    else if (kind < 97) clock.runUntil(clock.nowMs() + (below(100) === 0 ? 12_000 : below(30)));
    else {
      ownerTakes = false;
      if (below(2) === 0) owner.reclaim(of(all).name, 1 + below(3));
      else reclaimPrompts(of(all).name);
      ownerTakes = true;
    }
  }

  function reclaimPrompts(name: string): void {
    const { jobs } = owner.reclaimPrompts(name, below(2) === 0 ? 1 + below(40) : undefined);
    const backend = snapshot.backends.find((one) => one.name === name);
    if (jobs > 0 && backend !== undefined) onlineSent.set(backend.url, clock.nowMs());
  }

  function leaveOne(): void {
    let nth = below(Math.max(1, waiting.size));
    for (const asked of waiting) {
      if (nth-- > 0) continue;
      asked.hasLeft = true;
      waiting.delete(asked);
      counts.left += 1;
      asked.ticket?.leave();
      asked.ticket?.leave();
      return;
    }
  }

  function sweep(): void {
    for (let i = out.length - 1; i >= 0; i -= 1) {
      if (out[i]?.isSettled !== true) continue;
      const last = out.pop();
      if (i < out.length && last !== undefined) out[i] = last;
    }
  }

  function check(): void {
    for (const backend of snapshot.backends) {
      const book = bookOf(backend);
      const load = owner.load(backend.name);
      if (load.jobs !== book.jobs || load.slots !== book.slots)
        fail(
          `load of ${backend.name} is ${load.jobs} jobs, ${load.slots} slots instead of ${book.jobs}, ${book.slots}`,
        );
      const running = owner.running(backend.name);
      if (running.batch !== book.batchJobs || running.online !== book.jobs - book.batchJobs)
        fail(`lanes of ${backend.name} are wrong`);
      if (Math.min(load.pendingTokens, load.pendingJobs, load.decoding, load.contextTokens) < 0)
        fail(`load of ${backend.name} is below nothing`);
    }
    checkBounds();
    checkNobodyForgotten();
  }

  function checkBounds(): void {
    let [onlineJobs, batchJobs, batchAgain, onlineTokens] = [0, 0, 0, 0];
    for (const {
      isBatch,
      ask: { job, again },
    } of waiting) {
      if (isBatch) batchJobs += 1;
      else onlineJobs += 1;
      if (isBatch && again) batchAgain += 1;
      if (!isBatch) onlineTokens += Math.ceil(job.bodyBytes / 4);
    }
    const [online, batch] = owner.depths();
    if (online?.jobs !== onlineJobs || batch?.jobs !== batchJobs || owner.waiting() !== onlineJobs + batchJobs)
      fail(`${owner.waiting()} wait instead of ${onlineJobs} and ${batchJobs}`);
    if (online.tokens !== onlineTokens) fail('tokens that wait are counted wrongly');
    if (onlineJobs > settings.maxQueuedJobs) fail('too many online jobs wait');
    if (onlineJobs > 1 && onlineTokens > maxQueuedTokens) fail('too many online tokens wait');
    if (batchJobs - batchAgain > batchSettings.maxQueuedJobs) fail('too many batch jobs wait');
  }

  /** One that waits alone can't start: nothing that lets it start may have gone unnoticed. */
  function checkNobodyForgotten(): void {
    if (waiting.size !== 1) return;
    for (const asked of waiting) {
      const choice = choose(asked.ask);
      if (isRefusal(choice)) fail('one waits for backends that have left');
      if (choice.hold && asked.ask.job.generates) return;
      for (const { backend } of choice.ranked) {
        if (!roomFor(asked, backend)) continue;
        if (!asked.isBatch) fail(`an online job waits though ${backend.name} has room`);
        const share = shareOf(backend);
        const isFree = (share === 0 || !ruleOf(backend.name).gate) && isQuietFor(asked, backend);
        if (batchMay(asked, backend) === undefined && isFree)
          fail(`a batch job waits though it may run on ${backend.name}`);
      }
    }
  }

  for (step = 1; step <= steps; step += 1) {
    takenBefore = counts.taken;
    doOne();
    for (const { asked, backend } of sentNow.splice(0)) checkNoneInTheWay(asked, backend);
    sweep();
    check();
  }
  snapshot = { atMs: clock.nowMs(), backends: all.map((backend) => ({ ...backend, url: `${backend.url}/end` })) };
  rules.clear();
  for (const model of models) held[model] = false;
  owner.fleetChanged();
  for (let round = 0; waiting.size > 0 || out.length > 0; round += 1) {
    if (round > 10_000) fail('somebody waits for ever');
    for (const asked of [...out]) settle(asked);
    sweep();
    // Some wait for quiet.
    if (out.length === 0) clock.runUntil(clock.nowMs() + 1000);
  }
  for (const { name } of all) {
    const { lastUsed: _, ...load } = owner.load(name);
    if (Object.values(load).some((value) => value !== 0)) fail(`something is left on ${name}`);
  }
  if (owner.waiting() !== 0) fail('somebody is left');
  if (clock.pending !== 0) fail('a timer is left');
  return { steps, ...counts };
}
