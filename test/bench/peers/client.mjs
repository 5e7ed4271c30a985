/**
 * The load's client, a process of its own: plays a seeded load against one router, or in turn against several backends, and
 * prints what came of it as one line of JSON. Streams only; one connection per request at a time, kept alive.
 * A turn is sent at its planned moment, or when its predecessor's answer is whole, whichever comes later: a reader can't ask
 * on before. Nothing is left out for being late. Its own lag and CPU are in the result, so that it can be seen not to be
 * the bottleneck.
 * usage: node test/bench/peers/client.mjs '{"load":"chat","seed":1,"seconds":20,"rate":1,"urls":["http://…"], …}'
 */
import { Agent, request } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

import { readCounters } from './counters.mjs';
import { loads, planSessions } from './loads.mjs';

/**
 * @typedef {object} Ask
 * @property {string} load
 * @property {number} seed
 * @property {number} seconds
 * @property {number} rate
 * @property {number} warmSeconds what is planned before counts for nothing; the backends' counters are read then and at the end
 * @property {string[]} urls where to send; several: in turn
 * @property {string[]} backends whose counters are read
 * @property {import('./counters.mjs').Dialect} dialect
 * @property {string} model
 * @property {boolean} sessionHeader tells the conversation's name in `X-Session-ID`
 * @property {number} answerLimitSeconds an answer that isn't whole by then has failed
 */
/**
 * @typedef {object} Outcome of one turn; times in ms
 * @property {string} id
 * @property {string} session
 * @property {number} turn
 * @property {number} plannedMs
 * @property {number} sentMs
 * @property {number} ttftMs
 * @property {number | null} tpotMs null with fewer than two tokens
 * @property {number} promptTokens
 * @property {number | null} cachedTokens null: not told
 * @property {number} outputTokens
 * @property {string | null} backend as the router names it, if it does
 * @property {string} [failure]
 */

/** @type {Ask} */
const ask = JSON.parse(process.argv[2] ?? '');
const load = loads[ask.load];
if (load === undefined) throw new Error(`no load ${ask.load}`);
const sessions = planSessions(load, ask);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity, scheduling: 'lifo' });
/** @type {Outcome[]} */
const outcomes = [];
let skipped = 0;
let nextUrl = 0;

/** @param {{ role: string, content: string }[]} messages @param {import('./loads.mjs').Turn} turn @param {string} session @param {string} id */
function sendTurn(messages, turn, session, id) {
  const url = /** @type {string} */ (ask.urls[nextUrl++ % ask.urls.length]);
  const body = JSON.stringify({
    model: ask.model,
    messages,
    max_tokens: turn.maxTokens,
    temperature: 0,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
  });
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    'X-Request-Id': id,
    ...(ask.sessionHeader ? { 'X-Session-ID': session } : {}),
  };
  const sentMs = performance.now();
  /** @type {{ atMs: number, text: string }[]} */
  const reads = [];
  return /** @type {Promise<Answer>} */ (
    new Promise((resolve) => {
      const end = (/** @type {string} */ failure, /** @type {string | null} */ backend = null) => {
        clearTimeout(limit);
        resolve(readAnswer(reads, { sentMs, failure, backend }));
      };
      const sent = request(
        `${url}/v1/chat/completions`,
        { method: 'POST', agent, headers },
        (/** @type {import('node:http').IncomingMessage} */ response) => {
          const named = response.headers['x-warmlane-backend'];
          response.setEncoding('utf8');
          response.on('data', (text) => reads.push({ atMs: performance.now(), text }));
          response.on('error', (error) => end(`broken: ${error.message}`));
          response.on('end', () =>
            end(
              response.statusCode === 200 ? '' : `status ${response.statusCode}`,
              typeof named === 'string' ? named : null,
            ),
          );
        },
      );
      const limit = setTimeout(() => sent.destroy(new Error('too late')), ask.answerLimitSeconds * 1000);
      sent.on('error', (error) => end(`broken: ${error.message}`));
      sent.end(body);
    })
  );
}

/** @typedef {{ text: string, ttftMs: number, tpotMs: number | null, promptTokens: number, cachedTokens: number | null, outputTokens: number, backend: string | null, failure: string, sentMs: number }} Answer */

/**
 * @param {{ atMs: number, text: string }[]} reads @param {{ sentMs: number, failure: string, backend: string | null }} how
 * @returns {Answer}
 */
function readAnswer(reads, { sentMs, failure, backend }) {
  let text = '';
  let rest = '';
  let firstMs = Number.NaN;
  let lastMs = Number.NaN;
  let done = false;
  let error = '';
  /** @type {{ prompt_tokens?: number, completion_tokens?: number, prompt_tokens_details?: { cached_tokens?: number } | null } | undefined} */
  let usage;
  if (failure === '')
    for (const read of reads) {
      const lines = (rest + read.text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line === 'data: [DONE]') done = true;
        if (!line.startsWith('data: {')) continue;
        const event = JSON.parse(line.slice(6));
        if (event.error !== undefined) error = `error event: ${JSON.stringify(event.error).slice(0, 120)}`;
        usage = event.usage ?? usage;
        const choice = event.choices?.[0];
        const content = choice?.delta?.content ?? '';
        if (content !== '' || (choice?.finish_reason ?? null) !== null) lastMs = read.atMs;
        if (content === '') continue;
        if (text === '') firstMs = read.atMs;
        text += content;
      }
    }
  const outputTokens = usage?.completion_tokens ?? 0;
  const missing = !done ? 'no end' : usage === undefined ? 'no usage' : text === '' ? 'no text' : '';
  return {
    text,
    sentMs,
    backend,
    ttftMs: firstMs - sentMs,
    tpotMs: outputTokens > 1 ? (lastMs - firstMs) / (outputTokens - 1) : null,
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
    outputTokens,
    failure: failure || error || missing,
  };
}

/** @param {import('./loads.mjs').Session} session @param {number} startMs */
async function playSession(session, startMs) {
  const messages = [{ role: 'system', content: session.system }];
  for (const [number, turn] of session.turns.entries()) {
    const aheadMs = startMs + turn.atMs - performance.now();
    if (aheadMs > 0) await sleep(aheadMs);
    messages.push({ role: 'user', content: turn.question });
    const id = `${ask.load}-${session.name}-${number}`;
    const { text, failure, sentMs, ...answer } = await sendTurn(messages, turn, session.name, id);
    outcomes.push({
      ...{ id, session: session.name, turn: number, plannedMs: turn.atMs, sentMs: sentMs - startMs },
      ...answer,
      ...(failure === '' ? {} : { failure }),
    });
    if (failure !== '') {
      // What nobody answered can't be asked further.
      skipped += session.turns.length - number - 1;
      return;
    }
    messages.push({ role: 'assistant', content: text });
  }
}

const counters = () => Promise.all(ask.backends.map((url) => readCounters(url, ask.dialect)));

/** Counters move when a request leaves the engine, a little after its answer. */
async function countersAtRest() {
  for (let turn = 0; turn < 100; turn++) {
    const all = await counters();
    if (all.every(({ busy }) => busy === 0)) return all;
    await sleep(100);
  }
  throw new Error('an engine is still busy ten seconds after the last answer');
}

const delay = monitorEventLoopDelay({ resolution: 5 });
const atStart = await counters();
const startMs = performance.now();
const playing = Promise.all(sessions.map((session) => playSession(session, startMs)));
await sleep(ask.warmSeconds * 1000);
const before = await counters();
delay.enable();
const cpuBefore = process.cpuUsage();
const windowMs = performance.now();
await playing;
delay.disable();
const cpu = process.cpuUsage(cpuBefore);
const elapsedMs = performance.now() - windowMs;
const after = await countersAtRest();
agent.destroy();
process.stdout.write(
  `${JSON.stringify({
    sessions: sessions.length,
    skipped,
    windowSeconds: elapsedMs / 1000,
    clientCpuShare: (cpu.user + cpu.system) / 1000 / elapsedMs,
    clientLagP99Ms: delay.percentile(99) / 1e6 - 5,
    atStart,
    before,
    after,
    outcomes,
  })}\n`,
);
