/**
 * What hashing a prompt costs while its body is scanned, in one process and without sockets: the scan alone, the scan with the
 * prefix, and the chain at the end, on bodies of several sizes, whole and in the pieces in which a socket gives them.
 * usage: node test/bench/prefix-cost.mjs (after `npm run build`)
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { median } from './goals.mjs';

const distFolder = join(import.meta.dirname, '../../dist');
const rounds = 31;
const roundMs = 12;
const warmUpMs = 120;
const sliceBytes = 64 * 1024;

/** @param {number} bytes @param {string} alphabet words to draw from */
function prose(bytes, alphabet) {
  const words = alphabet.split(' ');
  let text = '';
  for (let i = 0; text.length < bytes; i += 1) text += `${words[(i * 7919 + (i >> 5)) % words.length]} `;
  return text.slice(0, bytes);
}

const english =
  'the model reads a prompt from its beginning and keeps what it has computed so that another turn is cheap';
const chinese = '模型 从头 读取 提示 并 保留 已 计算 的 内容 这样 下一轮 就 便宜';

/** @param {number} bytes @param {number} messages @param {string} words */
function chat(bytes, messages, words = english) {
  const each = Math.max(1, Math.floor(bytes / messages) - 32);
  const list = Array.from({ length: messages }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: prose(each, words),
  }));
  return { model: 'bench', stream: true, temperature: 0.2, max_tokens: 256, messages: list };
}

/** Base64 as mixed as a JPEG's. @param {number} bytes */
function picture(bytes) {
  const data = Buffer.alloc(Math.floor((bytes * 3) / 4));
  for (let i = 0, state = 1; i < data.length; i += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    data[i] = state >>> 16;
  }
  const url = `data:image/jpeg;base64,${data.toString('base64')}`;
  const content = [
    { type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url } },
  ];
  return { model: 'bench', stream: true, messages: [{ role: 'user', content }] };
}

/** @param {number} count */
function toolBody(count) {
  const tool = (/** @type {number} */ i) => ({
    type: 'function',
    function: {
      name: `lookup_${i}`,
      description: prose(300, english),
      parameters: {
        type: 'object',
        properties: { q: { type: 'string' }, limit: { type: 'integer' } },
        required: ['q'],
      },
    },
  });
  return { ...chat(8 * 1024, 6), tools: Array.from({ length: count }, (_, i) => tool(i)) };
}

/** @type {Record<string, string>} */
const bodies = {
  'chat 1 KB, 2 messages': JSON.stringify(chat(1024, 2)),
  'chat 16 KB, 8 messages': JSON.stringify(chat(16 * 1024, 8)),
  'chat 128 KB, 20 messages': JSON.stringify(chat(128 * 1024, 20)),
  'chat 128 KB, 1000 messages': JSON.stringify(chat(128 * 1024, 1000)),
  'chat 400 KB, 40 messages': JSON.stringify(chat(400 * 1024, 40)),
  'chat 400 KB UTF-8 beyond ASCII': JSON.stringify(chat(136 * 1024, 40, chinese)),
  'chat 400 KB in \\u escapes': JSON.stringify(chat(70 * 1024, 40, chinese)).replace(
    /[^\0-~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  ),
  '60 tools, 8 KB of chat': JSON.stringify(toolBody(60)),
  'token numbers, 32,000': JSON.stringify({
    model: 'bench',
    prompt: Array.from({ length: 32_000 }, (_, i) => (i * 7919) % 128_000),
  }),
  'image 300 KB': JSON.stringify(picture(300 * 1024)),
  'image 40 MB': JSON.stringify(picture(40 * 1024 * 1024)),
};

/** @typedef {typeof import('../../src/platform/json-scan.ts')} Scans */
/** @typedef {import('../../src/classify/prefix-scan.ts').PromptReader} PromptReader */

/** @param {Buffer} body @param {number} bytes */
function slices(body, bytes) {
  const list = [];
  for (let at = 0; at < body.length; at += bytes) list.push(body.subarray(at, at + bytes));
  return list;
}

/**
 * Microseconds of CPU for a run of each, one for each round; in turns, so that a busy moment meets all.
 * @param {readonly (() => unknown)[]} runs
 */
function sample(runs) {
  const counts = runs.map((run) => {
    const fromMs = performance.now();
    let count = 0;
    for (; performance.now() - fromMs < warmUpMs; count += 1) run();
    return Math.max(1, Math.round((count * roundMs) / warmUpMs));
  });
  /** @type {number[][]} */
  const samples = runs.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, run] of runs.entries()) {
      const count = counts[index] ?? 1;
      const before = process.cpuUsage();
      for (let done = 0; done < count; done += 1) run();
      const { user, system } = process.cpuUsage(before);
      samples[index]?.push((user + system) / count);
    }
  }
  return samples;
}

/** @param {readonly number[]} samples */
function figures(samples) {
  const sorted = samples.toSorted((a, b) => a - b);
  return `${median(samples).toFixed(2)} (${(sorted[0] ?? 0).toFixed(2)}–${(sorted.at(-1) ?? 0).toFixed(2)})`;
}

async function main() {
  if (!existsSync(join(distFolder, 'main.js'))) throw new Error('not built: npm run build');
  const load = (/** @type {string} */ path) => import(pathToFileURL(join(distFolder, path)).href);
  /** @type {Scans} */
  const scans = await load('platform/json-scan.js');
  const { keysToScan } = await load('classify/wanted-keys.js');
  const { createPromptReader } = await load('classify/prefix-scan.js');
  const { prefixDefaults } = await load('classify/settings.js');
  const { loadXxhash } = await load('platform/xxhash.js');
  const began = performance.now();
  const hash = await loadXxhash();
  console.log(`loading the hash: ${(performance.now() - began).toFixed(1)} ms`);
  /** @type {PromptReader} */
  const reader = createPromptReader(prefixDefaults, hash);
  const off = keysToScan({ shape: false, prefix: false });
  const on = keysToScan({ shape: false, prefix: true });

  console.log('µs of CPU for each body: median of the rounds (least–most)');
  for (const [name, text] of Object.entries(bodies)) {
    const body = Buffer.from(text);
    const pieces = slices(body, sliceBytes);
    const reading = name.startsWith('token') ? 'completions' : 'chat';
    const scanned = (/** @type {boolean} */ hashes, /** @type {readonly Buffer[]} */ list) => {
      const prompt = hashes ? reader(reading) : undefined;
      const scan = scans.createJsonScan({ keys: hashes ? on : off, pieces: prompt });
      for (const piece of list) scan.push(piece);
      scan.end();
      return prompt?.chain('bench');
    };
    const chain = scanned(true, pieces);
    const [alone = [], hashed = []] = sample([() => scanned(false, pieces), () => scanned(true, pieces)]);
    const costs = hashed.map((one, round) => one - (alone[round] ?? 0));
    console.log(
      `${name}: body ${body.length} B in ${pieces.length}, ${chain?.keys.length} keys, canonical ${chain?.bytes} B (wide ${chain?.wideBytes})\n` +
        `  scan ${figures(alone)}   with prefix ${figures(hashed)}   prefix alone ${figures(costs)}`,
    );
    if (body.length > 1 << 22)
      console.log(`  slowest piece of 64 KiB: ${slowestPieceMs(scans, { reader, on, pieces }).toFixed(2)} ms`);
  }
}

/** @param {Scans} scans @param {{ reader: PromptReader, on: ReadonlyMap<string, number>, pieces: readonly Buffer[] }} parts */
function slowestPieceMs(scans, { reader, on, pieces }) {
  const scan = scans.createJsonScan({ keys: on, pieces: reader('chat') });
  let slowest = 0;
  for (const piece of pieces) {
    const began = performance.now();
    scan.push(piece);
    slowest = Math.max(slowest, performance.now() - began);
  }
  scan.end();
  return slowest;
}

await main();
