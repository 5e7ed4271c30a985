/**
 * What is measured: one row per scenario, as the client's options, the candidates that take part, and in which forms it runs.
 * `kind` says which figures a row of results has.
 */

/** @typedef {'tokens' | 'first-token' | 'requests' | 'memory'} Kind */
/**
 * @typedef {object} Scenario
 * @property {string} name
 * @property {string} title
 * @property {Kind} kind
 * @property {Record<string, number>} load the client's options
 * @property {readonly string[]} candidates
 * @property {readonly ('short' | 'long')[]} forms
 * @property {boolean} [directInShort] the short form needs `direct` here, since a goal speaks of added latency
 * @property {boolean} [plainInShort] the short form needs `nginx-plain` here, since a guarded goal speaks of it
 * @property {boolean} [fresh] each run gets a proxy of its own, just started
 * @property {number} [windowSeconds] fixed, whatever the form says
 */

const near = ['direct', 'nginx', 'warmlane'];
const proxies = ['nginx', 'bare-node', 'hono-fetch', 'warmlane'];
const peers = ['smg', 'vllm-router'];
const large = 400 * 1024;

/** @type {readonly Scenario[]} */
export const scenarios = [
  {
    name: 'streams-1',
    title: '1 stream, 50 tokens/s',
    kind: 'tokens',
    load: { streams: 1, rate: 50, ramp: 0 },
    candidates: near,
    forms: ['long'],
  },
  {
    name: 'streams-4',
    title: '4 streams, 200 tokens/s',
    kind: 'tokens',
    load: { streams: 4, rate: 50, ramp: 0.2 },
    candidates: ['direct', ...proxies, ...peers],
    forms: ['long'],
  },
  {
    name: 'streams-16',
    title: '16 streams, 800 tokens/s',
    kind: 'tokens',
    load: { streams: 16, rate: 50, ramp: 0.5 },
    candidates: ['direct', ...proxies],
    forms: ['long'],
  },
  {
    name: 'streams-128',
    title: '128 streams, 7,680 tokens/s',
    kind: 'tokens',
    load: { streams: 128, rate: 60 },
    candidates: ['direct', ...proxies, ...peers],
    forms: ['short', 'long'],
    directInShort: true,
  },
  {
    name: 'ending-128',
    title: '128 streams of 200 tokens that end and begin anew, 7,680 tokens/s: the ends’ work is in the figures',
    kind: 'tokens',
    // Telemetry is made at a request's end and sent every five seconds.
    load: { streams: 128, rate: 60, tokens: 200, again: 1, ramp: 3.4 },
    candidates: ['direct', 'nginx', 'warmlane', 'warmlane-traced', 'warmlane-events'],
    forms: ['long'],
    windowSeconds: 10,
  },
  {
    name: 'streams-1000',
    title: '1,000 streams, 8,000 tokens/s',
    kind: 'tokens',
    load: { streams: 1000, rate: 8, ramp: 2 },
    candidates: ['direct', ...proxies, ...peers],
    forms: ['short', 'long'],
  },
  {
    name: 'sync-128',
    title: '128 streams ticking together, 6,400 tokens/s',
    kind: 'tokens',
    load: { streams: 128, rate: 50, sync: 1 },
    candidates: ['direct', ...proxies, ...peers],
    forms: ['short', 'long'],
  },
  {
    name: 'tokens-20k',
    title: '400 streams, 20,000 tokens/s',
    kind: 'tokens',
    load: { streams: 400, rate: 50, ramp: 1.5 },
    candidates: ['direct', ...proxies],
    forms: ['long'],
  },
  {
    name: 'first-token',
    title: 'time to the first token, 400 streamed requests/s',
    kind: 'first-token',
    load: { 'open-rate': 400, 'open-tokens': 2, ramp: 0 },
    candidates: ['direct', ...proxies, 'nginx-plain', ...peers],
    forms: ['short', 'long'],
    directInShort: true,
  },
  {
    name: 'short-requests',
    title: 'short requests, not streamed, 32 connections in closed loop',
    kind: 'requests',
    load: { closed: 32, ramp: 0 },
    candidates: ['direct', ...proxies, 'nginx-plain', ...peers],
    forms: ['short', 'long'],
  },
  {
    name: 'body-400k',
    title: '400 KiB bodies, 40 requests/s',
    kind: 'requests',
    load: { 'open-rate': 40, 'open-bytes': large, ramp: 0 },
    candidates: ['direct', ...proxies, 'nginx-plain', ...peers],
    forms: ['short', 'long'],
    plainInShort: true,
  },
  {
    name: 'bodies-beside',
    title: '128 streams while 20 bodies of 400 KiB arrive each second',
    kind: 'tokens',
    load: { streams: 128, rate: 60, 'open-rate': 20, 'open-bytes': large },
    candidates: ['direct', ...proxies],
    forms: ['short', 'long'],
  },
  {
    name: 'memory-idle',
    title: 'memory of 4,000 streams after their first token, silent',
    kind: 'memory',
    load: { streams: 4000, rate: 0.1, tokens: 2, spread: 0, ramp: 4 },
    candidates: [...proxies, ...peers],
    forms: ['long'],
    fresh: true,
    windowSeconds: 1,
  },
  {
    name: 'memory-4000',
    title: 'memory of 4,000 streams, 4,000 tokens/s',
    kind: 'memory',
    load: { streams: 4000, rate: 1, ramp: 4 },
    candidates: [...proxies, ...peers],
    forms: ['long'],
    fresh: true,
    windowSeconds: 4,
  },
];

/**
 * Candidates of a scenario in a form: the short form guards warmlane against nginx and leaves the others out.
 * @param {Scenario} scenario @param {'short' | 'long'} form
 */
export function candidatesFor(scenario, form) {
  if (form === 'long') return scenario.candidates;
  return scenario.candidates.filter(
    (name) =>
      ['nginx', 'warmlane'].includes(name) ||
      (name === 'nginx-plain' && scenario.plainInShort === true) ||
      (name === 'direct' && scenario.directInShort === true),
  );
}

/** Before a fresh proxy's memory is read, both paths have run, so that what loads lazily is not booked on the streams. */
export const warmUpLoad = { closed: 4, 'open-rate': 100, 'open-tokens': 5, ramp: 0, warmup: 0.2, seconds: 1 };

/**
 * One round of warming (`warming.mjs`): short requests and streams, whose costs are watched, then large bodies. Streams apart
 * from the rest and as fast as they are measured: else short requests, of which there are many more, decide alone when it ends.
 */
export const warmingLoads = [
  { closed: 16, ramp: 0, warmup: 0.1, seconds: 1.5 },
  { 'open-rate': 400, 'open-tokens': 4, ramp: 0, warmup: 0.1, seconds: 3 },
  { 'open-rate': 60, 'open-bytes': large, ramp: 0, warmup: 0.1, seconds: 1 },
];
/** The first so many of them. */
export const watchedLoads = 2;
