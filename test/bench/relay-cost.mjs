/**
 * What warmlane's own telemetry costs per token, in one process and without sockets: the clock, the scanner, and the whole
 * of it (clock, scanner, understanding of the event, stamp), on tokens in the bench backend's shape, one per read as nearly
 * all come. Beside it the share of the CPU per token that the latest bench measured, which is what the goal speaks of.
 * usage: node test/bench/relay-cost.mjs (after `npm run build`)
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { median } from './goals.mjs';
import { latestCpuPerToken } from './latest-results.mjs';

const distFolder = join(import.meta.dirname, '../../dist');
const tokensPerStream = 400;
const streamsPerRound = 250;
const rounds = 15;
const warmUpRounds = 5;

/** @typedef {import('../../src/platform/upstream/port.ts').BodyRead} BodyRead */

/** @param {number} number */
function tokenEvent(number) {
  const stamp = String(1_000_000_000_000 + number * 130_208).padStart(20, '0');
  const content = ` ~00007.${String(number).padStart(7, '0')}@${stamp}`;
  const choices = [{ index: 0, delta: { content }, logprobs: null, finish_reason: null, token_ids: null }];
  return `data: ${JSON.stringify({ id: 'chatcmpl-0000000000000007', object: 'chat.completion.chunk', created: 1_795_970_621, model: 'bench', choices })}\n\n`;
}

/** One read that holds `count` tokens, each a chunk of the chunked coding. @param {number} first @param {number} count @returns {BodyRead} */
function makeRead(first, count) {
  /** @type {number[]} */
  const starts = [];
  /** @type {number[]} */
  const ends = [];
  let text = '';
  for (let number = first; number < first + count; number++) {
    const event = tokenEvent(number);
    text += `${event.length.toString(16)}\r\n`;
    starts.push(text.length);
    text += event;
    ends.push(text.length);
    text += '\r\n';
  }
  const wire = Buffer.from(text, 'latin1');
  const payloadBytes = ends.reduce((sum, end, index) => sum + end - (starts[index] ?? 0), 0);
  return {
    wire,
    wireStart: 0,
    wireEnd: wire.length,
    count,
    starts,
    ends,
    payloadBytes,
    verbatim: true,
    last: false,
    retain() {},
  };
}

/** @type {import('../../src/domain/job.ts').Job} */
const job = {
  requestId: 'bench',
  endpoint: 'chat',
  method: 'POST',
  target: '/v1/chat/completions',
  format: 'chat',
  generates: true,
  model: 'bench',
  stream: true,
  choices: 1,
  bodyBytes: 300,
  readable: true,
  lane: 'online',
  usage: { byClient: false },
  measured: true,
};

const maxEventBytes = 1 << 20;
const measureSettings = { maxStamps: 65_536, maxEventBytes, maxAnswerValueBytes: 65_536, prefixHitShare: 0.5 };

/**
 * @param {object} parts
 * @param {typeof import('../../src/relay/sse-scanner.ts')} parts.scanners
 * @param {typeof import('../../src/relay/answer-reader.ts')} parts.readers
 * @param {typeof import('../../src/measure/observer.ts')} parts.observers
 * @param {typeof import('../../src/platform/clock.ts')} parts.clocks
 * @returns {Record<string, (reads: readonly BodyRead[]) => unknown>} each takes the reads of one stream
 */
function defineCases({ scanners, readers, observers, clocks }) {
  const clock = clocks.systemClock;
  let noticed = 0;
  const whole = (/** @type {readonly BodyRead[]} */ reads, /** @type {boolean} */ strip) => {
    const head = { requestId: 'bench', method: 'POST', target: job.target, receivedMs: clock.nowMs() };
    const observer = observers.createObserver(measureSettings, { head, wallMs: 0 });
    observer.classified(job);
    observer.attempt({ backend: 'bench', engine: 'vllm', atMs: clock.nowMs() });
    const reader = readers.createAnswerReader(
      { medium: 'sse', format: 'chat', maxEventBytes, strip, measured: true },
      observer,
    );
    for (const read of reads) {
      const nowMs = clock.nowMs();
      observer.mark('firstByte', nowMs);
      observer.responseBytes(read.payloadBytes);
      noticed += reader.read(read, nowMs) === undefined ? 0 : 1;
    }
    return observer;
  };
  return {
    'clock alone': (reads) => reads.forEach(() => (noticed += clock.nowMs())),
    'clock and scanner': (reads) => {
      const scanner = scanners.createSseScanner(
        { maxEventBytes },
        () => (noticed += 1),
        () => {},
      );
      for (const read of reads) {
        noticed += clock.nowMs();
        for (let index = 0; index < read.count; index++)
          scanner.push(read.wire, read.starts[index] ?? 0, read.ends[index] ?? 0);
      }
    },
    'whole telemetry': (reads) => whole(reads, false),
    'whole, usage to be stripped': (reads) => whole(reads, true),
    'whole, and the record at the end': (reads) =>
      whole(reads, false).finish({ outcome: 'ok', spokenBy: 'backend', atMs: clock.nowMs(), status: 200 }),
  };
}

/** Nanoseconds per token, median of the rounds. @param {(reads: readonly BodyRead[]) => unknown} run @param {readonly BodyRead[]} reads */
function timePerToken(run, reads) {
  const tokens = reads.reduce((sum, read) => sum + read.count, 0);
  /** @type {number[]} */
  const perToken = [];
  for (let round = 0; round < warmUpRounds + rounds; round++) {
    const from = process.cpuUsage();
    for (let stream = 0; stream < streamsPerRound; stream++) run(reads);
    const { user, system } = process.cpuUsage(from);
    if (round >= warmUpRounds) perToken.push(((user + system) * 1000) / (tokens * streamsPerRound));
  }
  return median(perToken);
}

/** @param {string} file @returns {Promise<any>} a built module; its source's type is named where it is used */
const built = (file) => import(pathToFileURL(join(distFolder, file)).href);

async function main() {
  if (!existsSync(join(distFolder, 'measure/observer.js'))) {
    console.log('relay-cost: dist/measure/observer.js is absent: run `npm run build`');
    return 1;
  }
  const [scanners, readers, observers, clocks] = await Promise.all(
    ['relay/sse-scanner.js', 'relay/answer-reader.js', 'measure/observer.js', 'platform/clock.js'].map(built),
  );
  const cases = defineCases({ scanners, readers, observers, clocks });
  const latest = latestCpuPerToken();
  const single = Array.from({ length: tokensPerStream }, (_, number) => makeRead(number, 1));
  const burst = Array.from({ length: tokensPerStream / 8 }, (_, number) => makeRead(number * 8, 8));
  if (latest !== undefined) console.log(`share of ${latest.micros.toFixed(1)} µs CPU per token (${latest.name})`);
  for (const [name, run] of Object.entries(cases)) {
    const ns = timePerToken(run, single);
    const share = latest === undefined ? '' : ` · ${(ns / 10 / latest.micros).toFixed(1)} %`;
    console.log(
      `${name.padEnd(34)} ${ns.toFixed(0).padStart(6)} ns/token${share} · eight tokens a read: ${timePerToken(run, burst).toFixed(0)} ns/token`,
    );
  }
  return 0;
}

process.exitCode = await main();
