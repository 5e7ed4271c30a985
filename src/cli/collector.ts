/**
 * Sets V8's garbage collector up for a proxy: much short-lived garbage, little that stays. Only flags that V8 still heeds while
 * it runs, since a command's user can't be asked for options of Node. Must not be needed for anything to work.
 */

export interface Collector {
  /** CPUs that this process may use. */
  readonly cores: number;
  setFlag(flag: string): void;
  /** Both halves of the young generation, as they are now. */
  youngBytes(): number;
  /** Calls once after so long. */
  later(waitMs: number, call: () => void): void;
}

/** Half of what V8 lets it grow to: 16 MB less, at a few scavenges more per second of full load. */
const mostYoungBytes = 16 * 1024 * 1024;
const lookMs = 250;

/** The most that V8 takes, 24 days. */
const longestDelayMs = 2 ** 31 - 1;
/** V8 forgets the shape of objects of which none was alive in so many full collections; at first 2. */
const shapesKeptFor = 255;

/** One call, before anything else is loaded. */
export function setUpCollector(collector: Collector): void {
  // Without this V8 comes to put what a request makes straight into old space, where it keeps all that it refers to alive until
  // a full collection: 18 KB promoted per short request against 2, and a third more CPU (seen with --trace-gc on Node 20).
  collector.setFlag('--no-allocation-site-pretenuring');
  // V8 tidies up some seconds after the work has ceased. It then finds no request alive, forgets the shapes of requests, and with
  // them all compiled code that knows them: who comes after half a minute of quiet meets a proxy as slow as one just started
  // (2 ms of CPU instead of 0.5 for each of the first thousand; seen with --trace-deopt as "weak objects"). It can't be switched
  // off while V8 runs, but put off for weeks; what a burst left behind goes back to the system with the next full collection.
  // Must be set before the first one: a wait that has begun is renewed at its old length (seen with --trace-gc-verbose).
  collector.setFlag(`--gc-memory-reducer-start-delay-ms=${longestDelayMs}`);
  // The same at collections while long streams run and no other request does.
  collector.setFlag(`--retain-maps-for-n-gc=${shapesKeptFor}`);
  if (collector.cores === 1) for (const flag of helperless) collector.setFlag(flag);
  boundYoung(collector);
}

/** Helper threads only take turns with the one that they help: 5 % of a short request's CPU, and longer pauses. */
const helperless = [
  '--no-parallel-scavenge',
  '--no-concurrent-marking',
  '--no-concurrent-sweeping',
  '--no-concurrent-array-buffer-sweeping',
];

/**
 * V8 multiplies its size by the factor whenever much survives: one step to the bound, then none. Looked at for good, since V8
 * halves it again and again while little is made: left with a factor of 1, a burst after a quiet minute met a young generation of
 * 1 MB that never grew, a scavenge every 3 ms that promoted nearly all, and twice the CPU per request (seen with --trace-gc).
 */
function boundYoung(collector: Collector, former?: number): void {
  const bytes = collector.youngBytes();
  const factor = Math.max(1, Math.floor(mostYoungBytes / bytes));
  if (factor !== former) collector.setFlag(`--semi-space-growth-factor=${factor}`);
  collector.later(lookMs, () => boundYoung(collector, factor));
}
