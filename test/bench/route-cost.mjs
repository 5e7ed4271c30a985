/**
 * What one routing decision costs, in one process and without sockets: the look into a full index and the choice among 64
 * backends, then the sending and the answer's end, for prompts of 32k tokens (140 chunks) half of which are known somewhere.
 * The garbage that it makes is collected while it runs, so that p99 is what requests see. Hashing the prompt comes on top
 * (`prefix-cost.mjs`).
 * usage: node test/bench/route-cost.mjs [policy …] (after `npm run build`)
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const distFolder = join(import.meta.dirname, '../../dist');
const backendCount = 64;
const maxEntries = 1_000_000;
const chunks = 140;
const warmUps = 3000;
const decisions = 20_000;

/** @typedef {import('../../src/domain/prefix.ts').PrefixChain} PrefixChain */
/** @typedef {import('../../src/domain/fleet.ts').BackendView} BackendView */

let seed = 8484;
function random() {
  seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
  return seed / 4_294_967_296;
}
const randomKey = () => Math.floor(random() * 2 ** 21) * 2 ** 32 + Math.floor(random() * 2 ** 32);

const ends = Float64Array.from({ length: chunks }, (_, index) =>
  index < 16 ? (index + 1) * 256 : 4096 + (index - 15) * 1024,
);
const systems = Array.from({ length: 200 }, () => Float64Array.from({ length: 16 }, randomKey));

/** A prompt that shares a system prompt, or all but its last part of a prompt before it. @param {Float64Array | undefined} before @returns {PrefixChain} */
function prompt(before) {
  const keys = Float64Array.from({ length: chunks }, randomKey);
  if (before === undefined) keys.set(systems[Math.floor(random() * systems.length)] ?? [], 0);
  else keys.set(before.subarray(0, 100 + Math.floor(random() * 40)), 0);
  return { keys, ends, parts: new Int32Array(chunks), bytes: ends[chunks - 1] ?? 0, wideBytes: 0 };
}

/** @type {BackendView[]} */
const backends = Array.from({ length: backendCount }, (_, index) => ({
  name: `gpu-${index}`,
  url: `http://gpu-${index}:8000`,
  engine: 'vllm',
  engineKnown: true,
  health: 'up',
  healthSinceMs: 1,
  models: ['bench'],
  ghostSlots: 0,
  kvTokens: 600_000,
  blockTokens: 16,
  advice: [],
}));
const snapshot = { atMs: 1, backends };

/** @param {PrefixChain} prefix */
function jobOf(prefix) {
  return {
    requestId: 'r',
    endpoint: /** @type {const} */ ('chat'),
    method: 'POST',
    target: '/v1/chat/completions',
    format: /** @type {const} */ ('chat'),
    generates: true,
    model: 'bench',
    stream: true,
    choices: 1,
    bodyBytes: prefix.bytes,
    readable: true,
    lane: /** @type {const} */ ('online'),
    usage: { byClient: false },
    measured: true,
    prefix,
  };
}

/** @param {string} path @returns {Promise<any>} */
const load = (path) => import(pathToFileURL(join(distFolder, path)).href);

/** @param {number[]} sorted @param {number} share */
const at = (sorted, share) => (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(0);

/** @param {string} policy */
async function measure(policy) {
  const { createRouting } = await load('routing.js');
  const { routeDefaults } = await load('route/settings.js');
  let nowMs = 1;
  const clock = { nowMs: () => (nowMs += 0.01), wallMs: () => nowMs, timer: () => ({ cancel() {} }) };
  const routing = createRouting({ ...routeDefaults, policy, index: { maxEntries } }, { clock, fleet: () => snapshot });
  const loads = new Map(
    backends.map(({ name }) => [
      name,
      { jobs: 0, slots: 0, lastUsed: 0, pendingTokens: 0, pendingJobs: 0, decoding: 0, contextTokens: 0 },
    ]),
  );
  const loadOf = (/** @type {string} */ name) => loads.get(name);
  /** @type {Float64Array[]} */
  const recent = [];
  /** @type {{ choose: number[], rest: number[] }} */
  const micros = { choose: [], rest: [] };
  /** @type {(() => void)[]} */
  const running = [];
  for (let n = 0; n < warmUps + maxEntries / 60 + decisions; n += 1) {
    const before = random() < 0.5 ? recent[Math.floor(random() * recent.length)] : undefined;
    const prefix = prompt(before);
    const ask = { job: jobOf(prefix), exclude: [] };
    const startMs = performance.now();
    const choice = routing.choose(ask, loadOf);
    const chosenMs = performance.now();
    const [target] = choice.ranked;
    const held = loads.get(target.backend.name);
    if (held === undefined) throw new Error('an unknown backend');
    const errand = routing.sent(ask, target, { load: held, computed() {} });
    held.jobs += 1;
    held.decoding += 1;
    held.contextTokens += errand.promptTokens;
    held.lastUsed = n;
    running.push(() => {
      held.jobs -= 1;
      held.decoding -= 1;
      held.contextTokens -= errand.promptTokens;
      const cachedTokens = errand.note.predictedTokens;
      errand.ended({ computed: true, promptTokens: errand.promptTokens, cachedTokens, outputTokens: 300, tpotMs: 20 });
    });
    if (running.length > 512) running.shift()?.();
    const endMs = performance.now();
    recent[n % 2000] = prefix.keys;
    if (n < warmUps + maxEntries / 60) continue;
    micros.choose.push((chosenMs - startMs) * 1000);
    micros.rest.push((endMs - chosenMs) * 1000);
  }
  const both = micros.choose.map((choose, index) => choose + (micros.rest[index] ?? 0));
  const { entries, bytes } = routing.index.stats();
  for (const [name, values] of [
    ['look and choice', micros.choose],
    ['sent and end', micros.rest],
    ['both', both],
  ]) {
    const sorted = /** @type {number[]} */ (values).toSorted((a, b) => a - b);
    const figures = [at(sorted, 0.5), at(sorted, 0.9), at(sorted, 0.99), at(sorted, 0.999)];
    console.log(
      `${policy.padEnd(24)}${String(name).padEnd(18)}${figures.map((figure) => figure.padStart(8)).join('')}`,
    );
  }
  console.log(`${''.padEnd(24)}index: ${entries} entries, ${(bytes / 1_048_576).toFixed(0)} MiB`);
}

if (!existsSync(join(distFolder, 'routing.js'))) throw new Error('build it first: npm run build');
const chosen = process.argv.slice(2);
console.log(`µs of one decision among ${backendCount} backends, ${chunks} chunks, ${decisions} decisions`);
console.log(`${''.padEnd(42)}${['p50', 'p90', 'p99', 'p99.9'].map((name) => name.padStart(8)).join('')}`);
for (const policy of chosen.length > 0 ? chosen : ['warm']) await measure(policy);
