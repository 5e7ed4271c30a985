/**
 * What the warm index costs, in one process: a look, a visit and its end for prompts of 140 chunks (about 32,000 tokens) with
 * 64 backends and an index of 1,000,000 entries, full and being trimmed; then the memory and the longest call while a million
 * prompts of 16 KB go by, each seen once. Prints every figure as measured; nothing is gated here.
 * usage: node test/bench/warm-index-cost.mjs [folder of the build] (after `npm run build`)
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const dist = process.argv[2] ?? join(import.meta.dirname, '../../dist');
/** @type {typeof import('../../src/route/warm/warm-index.ts')} */
const { createWarmIndex } = await import(pathToFileURL(join(dist, 'route/warm/warm-index.js')).href);

const backendCount = 64;
const chunks = 140;
const headChunks = 16;
const maxEntries = 1_000_000;

let state = 1;
const random = () => {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};
const key = () => Math.floor(random() * 2 ** 21) * 2 ** 32 + Math.floor(random() * 2 ** 32);

/** @type {import('../../src/domain/fleet.ts').BackendView[]} */
const backends = Array.from({ length: backendCount }, (_, index) => ({
  name: `backend-${index}`,
  url: `http://backend-${index}`,
  engine: 'vllm',
  engineKnown: true,
  health: 'up',
  healthSinceMs: 1,
  models: [],
  ghostSlots: 0,
  blockTokens: 16,
  kvTokens: 4_000_000,
  advice: [],
}));

/** @param {number} index */
function backendAt(index) {
  const backend = backends[index % backendCount];
  if (backend === undefined) throw new Error('no backend');
  return backend;
}

/** A chain that begins with these keys. @param {readonly number[]} head @param {number} length */
function chainFrom(head, length) {
  const ends = Float64Array.from({ length }, (_, index) =>
    index < 16 ? (index + 1) * 256 : 4096 + (index - 15) * 1024,
  );
  const parts = Int32Array.from({ length }, (_, index) => Math.floor(index / 20));
  const keys = Float64Array.from({ length }, (_, index) => head[index] ?? key());
  return { keys, ends, parts, bytes: ends[length - 1] ?? 0, wideBytes: 0 };
}

/** @param {Float64Array | number[]} times microseconds */
function quantiles(times) {
  const sorted = Float64Array.from(times).toSorted();
  const at = (/** @type {number} */ share) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(1);
  return `p50 ${at(0.5)}  p90 ${at(0.9)}  p99 ${at(0.99)}  p99.9 ${at(0.999)}  max ${at(1)} µs  (${sorted.length} calls)`;
}

/** Processor time of this process, in µs: a busy machine doesn't show in it, a collector's helpers do. */
function cpuUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** @template T @param {number[]} times @param {() => T} call */
function timed(times, call) {
  const began = cpuUs();
  const result = call();
  times.push(cpuUs() - began);
  return result;
}

const megabytes = (/** @type {number} */ bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
const told = { computed: true, promptTokens: 32_000, cachedTokens: 16_000, outputTokens: 300 };

/** @param {string} name @param {(made: number) => { chain: ReturnType<typeof chainFrom>, holders: readonly number[], depth: (holder: number) => number }} make */
function measure(name, make) {
  const index = createWarmIndex({ maxEntries, policies: {} }, { nowMs: () => performance.now() });
  /** @param {ReturnType<typeof chainFrom>} chain @param {number} length */
  const cutTo = (chain, length) => ({
    keys: chain.keys.subarray(0, length),
    ends: chain.ends.subarray(0, length),
    parts: chain.parts.subarray(0, length),
    bytes: chain.ends[length - 1] ?? 0,
    wideBytes: 0,
  });
  // Fill until a trim has begun, so that the table is as full as it gets.
  /** @type {ReturnType<typeof chainFrom>[]} */
  let kept = [];
  for (let made = 0; index.stats().trimmed === 0 || made % 500 !== 0; made += 1) {
    const { chain, holders, depth } = make(made);
    for (const holder of holders)
      index.visit(backendAt(holder), cutTo(chain, depth(holder)), 'model').end({ computed: true });
    kept.push(chain);
    if (kept.length > 600) kept = kept.slice(-300);
  }
  /** @type {number[]} */
  const looks = [];
  /** @type {number[]} */
  const visits = [];
  /** @type {number[]} */
  const ends = [];
  for (let round = 0; round < 4000; round += 1) {
    const chain = kept[Math.floor(random() * kept.length)];
    if (chain === undefined) continue;
    // A chain that was looked at before is counted once: take another object each time.
    const asked = { ...chain };
    timed(looks, () => index.look(asked, backends, 'model'));
    const visit = timed(visits, () =>
      index.visit(backendAt(round), chainFrom([...chain.keys.slice(0, 100)], chunks), 'model'),
    );
    timed(ends, () => visit.end(told));
  }
  const { entries, bytes } = index.stats();
  console.log(`\n${name}: ${entries} entries, ${megabytes(bytes)} (${(bytes / entries).toFixed(1)} bytes each)`);
  console.log(`  look   ${quantiles(looks.slice(500))}`);
  console.log(`  visit  ${quantiles(visits.slice(500))}   (40 of its 140 chunks are new)`);
  console.log(`  end    ${quantiles(ends.slice(500))}`);
}

const heads = Array.from({ length: 20 }, () => Array.from({ length: headChunks }, key));
const headOf = (/** @type {number} */ made) => heads[made % heads.length] ?? [];

measure('usual: a system prompt that all hold, the rest on one backend', (made) => ({
  chain: chainFrom(headOf(made), chunks),
  holders: [Math.floor(random() * backendCount)],
  depth: () => chunks,
}));
measure('spread: each chain on all 64 backends, each to a depth of its own', () => ({
  chain: chainFrom([], chunks),
  holders: Array.from({ length: backendCount }, (_, index) => index),
  depth: (holder) => 1 + Math.floor(((holder + random()) / backendCount) * (chunks - 1)),
}));
measure('everywhere: each chain whole on all 64 backends', () => ({
  chain: chainFrom([], chunks),
  holders: Array.from({ length: backendCount }, (_, index) => index),
  depth: () => chunks,
}));

/** C142: a million prompts of 16 KB, each once, beside one that is used throughout. */
function flood() {
  const index = createWarmIndex({ maxEntries, policies: {} }, { nowMs: () => performance.now() });
  const hot = chainFrom(headOf(0), 60);
  const began = performance.now();
  let longestUs = 0;
  let most = 0;
  console.log(`\nflood: one million prompts of 28 chunks, each once`);
  for (let made = 1; made <= 1_000_000; made += 1) {
    const chain = chainFrom([], 28);
    const before = cpuUs();
    index.look(chain, backends.slice(0, 4), 'model');
    const visit = index.visit(backendAt(made % 4), chain, 'model');
    visit.end({ computed: true, promptTokens: 4000, outputTokens: 100 });
    longestUs = Math.max(longestUs, cpuUs() - before);
    if (made % 200 === 0) index.visit(backendAt(0), hot, 'model').end({ computed: true });
    most = Math.max(most, index.stats().entries);
    if (made % 200_000 !== 0) continue;
    const { bytes } = index.stats();
    const held = index.look(hot, backends.slice(0, 1), 'model').held.get('backend-0')?.chunks ?? 0;
    console.log(
      `  after ${made}: at most ${most} entries, ${megabytes(bytes)}, RSS ${megabytes(process.memoryUsage.rss())}, ` +
        `hot prompt ${held} of 60 chunks, longest look + visit + end ${(longestUs / 1000).toFixed(2)} ms`,
    );
    longestUs = 0;
  }
  console.log(`  ${((performance.now() - began) / 1000).toFixed(1)} s`);
}
flood();
