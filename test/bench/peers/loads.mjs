/**
 * The loads: seeded conversations with shared beginnings, as a list of sessions whose turns have planned moments. The same
 * name, seed and length give the same bytes at the same planned moments to every candidate; answers are the servers' own,
 * which at temperature 0 depend on the prompt alone. Pure; nothing here sends anything.
 */

import { words } from './words.mjs';

/**
 * @typedef {object} Load
 * @property {string} title
 * @property {number} sessionsPerSecond arrivals of new conversations, a Poisson process
 * @property {number} systems shared beginnings to choose from, the first ones more often (Zipf)
 * @property {number} zipf exponent of that choice; 0: all alike
 * @property {number} hotShare share of the sessions that take the first one whatever the rest do
 * @property {[number, number]} systemWords length of a shared beginning
 * @property {[number, number]} turns questions in one conversation
 * @property {[number, number]} questionWords
 * @property {[number, number]} answerTokens
 * @property {number} thinkSeconds mean pause between the planned moments of two turns
 * @property {number} kvTokens of one server
 * @property {number} servers
 */
/** @typedef {{ atMs: number, question: string, maxTokens: number }} Turn planned moment, from the load's start */
/** @typedef {{ name: string, system: string, turns: Turn[] }} Session */

/** @type {Load} */
const chat = {
  title: 'chat: conversations, 24 system prompts',
  sessionsPerSecond: 8,
  systems: 24,
  zipf: 0.8,
  hotShare: 0,
  systemWords: [400, 800],
  turns: [1, 9],
  questionWords: [30, 330],
  answerTokens: [20, 100],
  thinkSeconds: 3,
  kvTokens: 24_000,
  servers: 8,
};

/** A word is a token here, and takes about 6 bytes with its blank. @type {Record<string, Load>} */
export const loads = {
  chat,
  dense: { ...chat, title: 'dense: the same, half as much again', sessionsPerSecond: 12, kvTokens: 32_000 },
  agents: {
    title: 'agents: three long tool lists, many short steps',
    sessionsPerSecond: 3.5,
    systems: 3,
    zipf: 0.5,
    hotShare: 0,
    systemWords: [1800, 2400],
    turns: [4, 12],
    questionWords: [60, 500],
    answerTokens: [15, 50],
    thinkSeconds: 1,
    kvTokens: 32_000,
    servers: 8,
  },
  hot: {
    title: 'hot: nine of ten share one long system prompt',
    sessionsPerSecond: 22,
    systems: 20,
    zipf: 0,
    hotShare: 0.9,
    systemWords: [2500, 3000],
    turns: [1, 3],
    questionWords: [40, 200],
    answerTokens: [20, 80],
    thinkSeconds: 3,
    kvTokens: 24_000,
    servers: 8,
  },
  documents: {
    title: 'documents: questions about 60 long texts, more than fit',
    sessionsPerSecond: 9,
    systems: 60,
    zipf: 0.7,
    hotShare: 0,
    systemWords: [3000, 5000],
    turns: [1, 3],
    questionWords: [15, 60],
    answerTokens: [20, 80],
    thinkSeconds: 3,
    kvTokens: 28_000,
    servers: 8,
  },
  /** For three small servers with a real model on two cores (`real.mjs`). */
  real: {
    title: 'conversations with four system prompts, real engines',
    sessionsPerSecond: 0.25,
    systems: 4,
    zipf: 0.5,
    hotShare: 0,
    systemWords: [180, 260],
    turns: [2, 6],
    questionWords: [15, 60],
    answerTokens: [8, 24],
    thinkSeconds: 6,
    kvTokens: 0,
    servers: 3,
  },
};

/**
 * @param {Load} load @param {{ seed: number, seconds: number, rate: number }} plan `rate` multiplies the arrivals
 * @returns {Session[]} in order of their first turn; sessions begin within `seconds`, turns planned later than that are left out
 */
export function planSessions(load, { seed, seconds, rate }) {
  const random = seededRandom(seed);
  const whole = (/** @type {[number, number]} */ [from, to]) => from + Math.floor(random() * (to - from + 1));
  const textOf = (/** @type {number} */ count) => Array.from({ length: count }, () => pick(random, words)).join(' ');
  const systems = Array.from(
    { length: load.systems },
    (_, index) => `Rules ${index}: ${textOf(whole(load.systemWords))}`,
  );
  const weights = systems.map((_, index) => 1 / (index + 1) ** load.zipf);
  /** @type {Session[]} */
  const sessions = [];
  let atMs = exponential(random, 1000 / (load.sessionsPerSecond * rate));
  while (atMs < seconds * 1000) {
    const isHot = random() < load.hotShare;
    const system = isHot ? systems[0] : systems[weighted(random, weights)];
    /** @type {Turn[]} */
    const turns = [];
    let turnMs = atMs;
    for (let left = whole(load.turns); left > 0; left--) {
      turns.push({ atMs: turnMs, question: textOf(whole(load.questionWords)), maxTokens: whole(load.answerTokens) });
      turnMs += 200 + exponential(random, load.thinkSeconds * 1000);
    }
    sessions.push({
      name: `s${sessions.length}`,
      system: system ?? '',
      turns: turns.filter((turn) => turn.atMs < seconds * 1000),
    });
    atMs += exponential(random, 1000 / (load.sessionsPerSecond * rate));
  }
  return sessions;
}

/** Mulberry32, uniform in [0, 1). @param {number} seed */
function seededRandom(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** @param {() => number} random @param {number} mean */
const exponential = (random, mean) => -Math.log(1 - random()) * mean;

/** @template T @param {() => number} random @param {readonly T[]} items @returns {T} */
function pick(random, items) {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error('nothing to pick from');
  return item;
}

/** @param {() => number} random @param {number[]} weights @returns {number} an index */
function weighted(random, weights) {
  let left = random() * weights.reduce((sum, weight) => sum + weight, 0);
  return Math.max(
    0,
    weights.findIndex((weight) => (left -= weight) < 0),
  );
}
