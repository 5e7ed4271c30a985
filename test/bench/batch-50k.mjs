/**
 * A whole batch of 50,000 lines through warmlane onto a simulated engine that answers as fast as it can, with an online stream
 * beside it: lines a second, memory of the proxy, size of its store, and what each token of the stream lost on its way.
 * The stream's server and client are in this process, so both ends of a token are read from one clock. Fails when a line is
 * missing or doubled. Needs a build (`npm run build`); loopback only; ends what it started.
 * usage: node test/bench/batch-50k.mjs [--lines 50000] [--postgres URL] [--output FILE] [--profile FOLDER]
 *   --profile: where warmlane's CPU profiles go, of its main thread and the store's
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  createReadStream,
  createWriteStream,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer, get as httpGet, request as httpRequest } from 'node:http';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';

const root = join(import.meta.dirname, '..', '..');
const tokenEveryMs = 20;
const quietMs = 10_000;
const limitMs = 15 * 60_000;

const { values } = parseArgs({
  options: {
    lines: { type: 'string', default: '50000' },
    postgres: { type: 'string' },
    output: { type: 'string' },
    profile: { type: 'string' },
  },
});
const lineCount = Number(values.lines);
const folder = mkdtempSync(join(tmpdir(), 'warmlane-batch-50k-'));
/** @type {import('node:child_process').ChildProcess[]} */
const children = [];
/** @type {string[]} */
const told = [];

/** @param {string} text */
function tell(text) {
  console.log(text);
  told.push(text);
}

/** @param {string[]} words @param {RegExp} ready */
async function startChild(words, ready) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(WARMLANE|OTEL)_/.test(name)));
  const child = spawn(process.execPath, words, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let said = '';
  /** @type {Promise<RegExpExecArray>} */
  const found = new Promise((resolve, reject) => {
    const look = (/** @type {Buffer} */ bytes) => {
      if (said.length < 200_000) said += bytes.toString();
      const match = ready.exec(said);
      if (match !== null) resolve(match);
    };
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.once('exit', (code) => reject(new Error(`a child ended with ${code}: ${said.slice(-2000)}`)));
  });
  return { child, match: await found };
}

function startEngine() {
  const program = `
    const { createSimServer } = await import('./dist/sim/server.js');
    const { instantVllmServer } = await import('./dist/sim/server-settings.js');
    const server = await createSimServer({ ...instantVllmServer, model: 'bulk' });
    console.log('at ' + server.url);`;
  return startChild(['--input-type=module', '-e', program], /at (http:\S+)/);
}

/** Streams a token every 20 ms to whoever asks, and remembers when each left. */
function startPacedServer() {
  /** @type {number[]} */
  const leftMs = [];
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === '/v1/models') {
      response.setHeader('content-type', 'application/json');
      return response.end(JSON.stringify({ object: 'list', data: [{ id: 'paced', object: 'model' }] }));
    }
    if (request.method !== 'POST') {
      response.statusCode = request.url === '/health' ? 200 : 404;
      return response.end('{}');
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const timer = setInterval(() => {
      leftMs.push(performance.now());
      const delta = { role: 'assistant', content: `t${leftMs.length - 1} ` };
      const choices = [{ index: 0, delta, finish_reason: null }];
      response.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'paced', choices })}\n\n`,
      );
    }, tokenEveryMs);
    response.on('close', () => clearInterval(timer));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      resolve({ server, url: `http://127.0.0.1:${port}`, leftMs });
    });
  });
}

/** @param {string} url @param {number[]} leftMs one stream through the proxy; latency and gap of each token as it comes */
function startStream(url, leftMs) {
  /** @type {{ atMs: number, latencyMs: number, gapMs: number }[]} */
  const tokens = [];
  const body = JSON.stringify({ model: 'paced', messages: [{ role: 'user', content: 'go on' }], stream: true });
  const request = httpRequest(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
  });
  request.on('response', (response) => {
    let rest = '';
    response.setEncoding('utf8').on('data', (piece) => {
      const atMs = performance.now();
      const lines = (rest + piece).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const number = /"t(\d+) "/.exec(line)?.[1];
        if (number === undefined) continue;
        tokens.push({ atMs, latencyMs: atMs - leftMs[Number(number)], gapMs: atMs - (tokens.at(-1)?.atMs ?? atMs) });
      }
    });
    response.on('error', () => {});
  });
  request.on('error', () => {});
  request.end(body);
  return { tokens, stop: () => request.destroy() };
}

/** @param {string} path */
async function writeInput(path) {
  const padding = 'Classify the following sentence, in one word, as praise or as complaint. '.repeat(4);
  await pipeline(
    (function* () {
      for (let n = 0; n < lineCount; n += 1) {
        const content = `${padding}Sentence number ${n} of group ${n % 100}.`;
        const request = { model: 'bulk', messages: [{ role: 'user', content }], max_tokens: 8 };
        yield `${JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body: request })}\n`;
      }
    })(),
    createWriteStream(path),
  );
}

/** @param {string} url @param {string} path */
async function upload(url, path) {
  const boundary = 'bench-boundary';
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n`;
  const tail = `\r\n--${boundary}--\r\n`;
  const request = httpRequest(`${url}/v1/files`, {
    method: 'POST',
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': head.length + statSync(path).size + tail.length,
    },
  });
  const answer = new Promise((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => (text += piece));
      response.on('end', () => resolve(JSON.parse(text)));
    });
  });
  request.write(head);
  for await (const chunk of createReadStream(path))
    if (!request.write(chunk)) await new Promise((go) => request.once('drain', go));
  request.end(tail);
  return answer;
}

/** @param {string} url @param {object} [body] */
async function ask(url, body) {
  const answer = await fetch(
    url,
    body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
  );
  const json = await answer.json();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${JSON.stringify(json)}`);
  return json;
}

/** @param {number | undefined} pid in MB, now and at its highest */
function memoryOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kb = (/** @type {string} */ name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]);
  return { rssMb: kb('VmRSS') / 1024, peakMb: kb('VmHWM') / 1024 };
}

/** Seconds of processor time so far, of all its threads: says more than lines a second where others use the machine. @param {number | undefined} pid */
function processorSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** @type {pg.Client | undefined} */
let asking;

/** Of the database (SQLite: with its log), and of the files in the store's folder. @param {string} at */
async function sizesOf(at) {
  const sizes = { databaseMb: 0, filesMb: 0 };
  if (asking !== undefined) {
    const found = await asking.query('select pg_database_size(current_database())::float8 as bytes');
    sizes.databaseMb = found.rows[0].bytes / 1e6;
  }
  for (const entry of readdirSync(at, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const { size } = statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false }) ?? { size: 0 };
    if (/\.(db|sqlite3?)(-wal|-shm)?$/.test(entry.name)) sizes.databaseMb += size / 1e6;
    else sizes.filesMb += size / 1e6;
  }
  return sizes;
}

/** @param {number[]} list @param {number} share */
function quantile(list, share) {
  const sorted = list.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** @param {string} what @param {{ latencyMs: number, gapMs: number }[]} tokens */
function tellStream(what, tokens) {
  const row = (/** @type {number[]} */ list) =>
    [0.5, 0.99, 0.999, 1].map((share) => quantile(list, share).toFixed(2)).join(' / ');
  tell(
    `stream ${what}: ${tokens.length} tokens; latency p50 / p99 / p99.9 / max ${row(tokens.map((token) => token.latencyMs))} ms; gap ${row(tokens.map((token) => token.gapMs))} ms`,
  );
}

/** @param {string} url @param {string | null} id @param {Map<string, number>} times */
async function countLines(url, id, times) {
  if (id === null) return 0;
  const response = await new Promise((resolve, reject) =>
    httpGet(`${url}/v1/files/${id}/content`, resolve).on('error', reject),
  );
  let bytes = 0;
  response.on('data', (/** @type {Buffer} */ piece) => (bytes += piece.length));
  for await (const line of createInterface({ input: response })) {
    const customId = JSON.parse(line).custom_id;
    times.set(customId, (times.get(customId) ?? 0) + 1);
  }
  return bytes;
}

async function main() {
  const engine = await startEngine();
  const paced = await startPacedServer();
  const store = join(folder, 'store');
  const config = join(folder, 'warmlane.json');
  const batch =
    values.postgres === undefined ? { directory: store } : { postgres: { url: values.postgres }, directory: store };
  writeFileSync(
    config,
    JSON.stringify({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0' },
      log: { format: 'json', level: 'info', requests: false },
      backends: [
        { name: 'bulk', url: engine.match[1] },
        { name: 'paced', url: paced.url },
      ],
      batch,
    }),
  );
  const profiling = values.profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', values.profile];
  const proxy = await startChild(
    [...profiling, 'dist/main.js', '--config', config],
    /"msg":"listening".*?"data":"([^"]+)"/,
  );
  const url = proxy.match[1].replace(/\/$/, '');
  const { pid } = proxy.child;
  const input = join(folder, 'in.jsonl');
  await writeInput(input);
  tell(
    `${lineCount} lines, ${(statSync(input).size / 1e6).toFixed(1)} MB, ${values.postgres === undefined ? 'SQLite' : 'Postgres'}; ${cpus().length} × ${cpus()[0]?.model}`,
  );

  await pause(1000);
  const stream = startStream(url, paced.leftMs);
  await pause(quietMs);
  if (values.postgres !== undefined) {
    asking = new pg.Client(values.postgres);
    await asking.connect();
  }
  const before = memoryOf(pid);
  const quiet = stream.tokens.splice(0);

  const uploadMs = performance.now();
  const usedBefore = processorSeconds(pid);
  const file = await upload(url, input);
  const createMs = performance.now();
  let state = await ask(`${url}/v1/batches`, {
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  const since = { validating: createMs, in_progress: 0, finalizing: 0 };
  let highest = { databaseMb: 0, filesMb: 0 };
  let load = 0;
  while (!['completed', 'failed', 'expired', 'cancelled'].includes(state.status)) {
    if (performance.now() - createMs > limitMs) throw new Error(`not over: ${JSON.stringify(state)}`);
    await pause(100);
    state = await ask(`${url}/v1/batches/${state.id}`);
    if (since[state.status] === 0) since[state.status] = performance.now();
    const sizes = await sizesOf(store);
    if (sizes.databaseMb > highest.databaseMb) highest = sizes;
    load = Math.max(load, memoryOf(pid).rssMb);
  }
  const overMs = performance.now();
  const used = processorSeconds(pid) - usedBefore;
  const beside = stream.tokens.splice(0);
  stream.stop();
  const seconds = (/** @type {number} */ from, /** @type {number} */ to) => ((to - from) / 1000).toFixed(2);
  const began = since.in_progress || createMs;
  const ended = since.finalizing || overMs;
  tell(`status ${state.status}, counts ${JSON.stringify(state.request_counts)}`);
  tell(
    `upload ${seconds(uploadMs, createMs)} s, validation ${seconds(createMs, began)} s, lines ${seconds(began, ended)} s, files ${seconds(ended, overMs)} s`,
  );
  tell(
    `lines a second: ${Math.round((1000 * lineCount) / (ended - began))} while they ran, ${Math.round((1000 * lineCount) / (overMs - createMs))} from create to the end`,
  );
  tell(
    `processor time of the proxy: ${used.toFixed(1)} s, ${((1000 * used) / lineCount).toFixed(2)} ms a line; load of the machine ${loadavg()[1]?.toFixed(1)} (5 min)`,
  );
  const after = memoryOf(pid);
  tell(
    `memory of the proxy: ${before.rssMb.toFixed(0)} MB before, ${load.toFixed(0)} MB at most during it (kernel's peak ${after.peakMb.toFixed(0)} MB), ${after.rssMb.toFixed(0)} MB after`,
  );
  const times = new Map();
  const outputBytes = await countLines(url, state.output_file_id, times);
  await countLines(url, state.error_file_id, times);
  const left = await sizesOf(store);
  tell(
    `database: ${highest.databaseMb.toFixed(1)} MB at most, ${left.databaseMb.toFixed(1)} MB at the end; input and output files ${left.filesMb.toFixed(1)} MB, of them output ${(outputBytes / 1e6).toFixed(1)} MB`,
  );
  tellStream('alone', quiet);
  tellStream('beside', beside);
  const doubled = [...times.values()].filter((count) => count > 1).length;
  tell(`results: ${times.size} of ${lineCount}, ${doubled} doubled`);
  if (values.profile !== undefined) {
    const over = once(proxy.child, 'exit');
    proxy.child.kill('SIGTERM');
    await over;
  }
  paced.server.close();
  paced.server.closeAllConnections();
  if (values.output !== undefined) writeFileSync(values.output, `${told.join('\n')}\n`);
  if (times.size !== lineCount || doubled > 0 || state.status !== 'completed') process.exitCode = 1;
}

try {
  await main();
} finally {
  await asking?.end();
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}
