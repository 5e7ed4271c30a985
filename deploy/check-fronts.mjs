/**
 * Runs each front server that is installed (nginx, Caddy, HAProxy) with the configuration beside this file, before a
 * stand-in for warmlane on loopback, and looks at what users would feel: tokens come one at a time, a client that leaves
 * is told behind, a large upload streams through, a WebSocket upgrade passes. Ports are replaced, nothing else.
 * Exit code 1 when one fails; a front that is not installed is named and left out.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, get, request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const gapMs = 50;
const events = 10;
/** RFC 6455, section 1.3. */
const webSocketGuid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const folder = mkdtempSync(join(tmpdir(), 'warmlane-fronts-'));

/**
 * Answers /stream with ten events, one every 50 ms, each saying when it was sent; /endless with more of them; /hang with
 * silence; /upload with how many bytes came, and over how long.
 */
function createStandIn() {
  const seen = { aborted: () => {} };
  const server = createServer((incoming, answer) => {
    if (incoming.url === '/readyz') return void answer.end('ok');
    if (incoming.url === '/upload') return countUpload(incoming, answer);
    answer.on('close', () => {
      if (!answer.writableFinished) seen.aborted();
    });
    if (incoming.url === '/hang') return undefined;
    answer.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform' });
    let count = 0;
    const timer = setInterval(() => {
      answer.write(`data: ${Date.now()}\n\n`);
      count += 1;
      if (count < (incoming.url === '/stream' ? events : Number.POSITIVE_INFINITY)) return;
      clearInterval(timer);
      answer.end();
    }, gapMs);
    answer.on('close', () => clearInterval(timer));
    return undefined;
  });
  server.on('upgrade', (incoming, socket) => {
    socket.on('error', () => {});
    const accept = createHash('sha1')
      .update(`${incoming.headers['sec-websocket-key']}${webSocketGuid}`)
      .digest('base64');
    const head = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', 'Upgrade: websocket'];
    socket.write([...head, `Sec-WebSocket-Accept: ${accept}`, '', ''].join('\r\n'));
    socket.pipe(socket);
  });
  return { server, seen };
}

function countUpload(incoming, answer) {
  let bytes = 0;
  let firstMs;
  incoming.on('data', (chunk) => {
    firstMs ??= performance.now();
    bytes += chunk.length;
  });
  incoming.on('end', () => answer.end(JSON.stringify({ bytes, spreadMs: performance.now() - (firstMs ?? 0) })));
}

function listening(server) {
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));
}

async function freePort() {
  const server = createServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const fronts = {
  nginx: {
    command: 'nginx',
    config(port, behind) {
      const site = readFileSync(new URL('nginx.conf', import.meta.url), 'utf8')
        .replace('listen 80;', `listen 127.0.0.1:${port};`)
        .replace('127.0.0.1:8484', `127.0.0.1:${behind}`);
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (name) => `${name}_temp_path ${folder}/${name};`,
      );
      return `pid ${folder}/nginx.pid; error_log stderr warn; events {} http { access_log off; ${temporary.join(' ')}\n${site}\n}`;
    },
    args: (file) => ['-c', file, '-e', 'stderr', '-g', 'daemon off; master_process off;'],
  },
  caddy: {
    command: 'caddy',
    config: (port, behind) =>
      `{\n\tadmin off\n\tauto_https off\n}\n${readFileSync(new URL('Caddyfile', import.meta.url), 'utf8')
        .replace(':80 {', `:${port} {\n\tbind 127.0.0.1`)
        .replace('127.0.0.1:8484', `127.0.0.1:${behind}`)}`,
    args: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
  },
  haproxy: {
    command: 'haproxy',
    config: (port, behind) =>
      readFileSync(new URL('haproxy.cfg', import.meta.url), 'utf8')
        .replace('bind :80', `bind 127.0.0.1:${port}`)
        .replace('127.0.0.1:8484', `127.0.0.1:${behind}`),
    args: (file) => ['-db', '-f', file],
  },
};

async function answers(port) {
  for (let tries = 0; tries < 100; tries += 1) {
    const up = await new Promise((resolve) => {
      const call = get({ port, path: '/readyz', agent: false }, (answer) => {
        answer.resume();
        resolve(answer.statusCode === 200);
      });
      call.on('error', () => resolve(false));
    });
    if (up) return true;
    await sleep(50);
  }
  return false;
}

const checks = {
  'tokens come one at a time': async (port) => {
    const lags = await new Promise((resolve, reject) => {
      const found = [];
      get({ port, path: '/stream', agent: false }, (answer) => {
        answer.setEncoding('utf8');
        answer.on('data', (chunk) => {
          for (const [, sentMs] of chunk.matchAll(/data: (\d+)/g)) found.push(Date.now() - Number(sentMs));
        });
        answer.on('end', () => resolve(found));
      }).on('error', reject);
    });
    // The middle one: a busy machine delays some, a front that collects delays most.
    const middle = lags.toSorted((one, other) => one - other)[Math.floor(events / 2)];
    return lags.length === events && middle < gapMs / 2
      ? ''
      : `${lags.length} of ${events} tokens, late by ${lags.join(' ')} ms`;
  },
  'a client that leaves mid-stream is told behind': (port, seen) => leaves(port, seen, '/endless', 200),
  'a client that leaves before the answer is told behind': (port, seen) => leaves(port, seen, '/hang', 200),
  'an upload of 8 MiB streams through': async (port) => {
    const answer = await new Promise((resolve, reject) => {
      const call = request({ port, path: '/upload', method: 'POST', agent: false }, (incoming) => {
        let text = '';
        incoming.on('data', (chunk) => (text += chunk));
        incoming.on('end', () => resolve(text));
      });
      call.on('error', reject);
      call.write(Buffer.alloc(4 * 1024 * 1024));
      setTimeout(() => call.end(Buffer.alloc(4 * 1024 * 1024)), 300);
    });
    if (!answer.startsWith('{')) return `the answer is ${JSON.stringify(answer.slice(0, 80))}`;
    const { bytes, spreadMs } = JSON.parse(answer);
    return bytes === 8 * 1024 * 1024 && spreadMs > 200 ? '' : `${bytes} bytes, all within ${Math.round(spreadMs)} ms`;
  },
  'a WebSocket upgrade passes': (port) =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1');
      let text = '';
      const end = (result) => {
        socket.destroy();
        resolve(result);
      };
      socket.setTimeout(3000, () => end(`no echo within 3 s: ${text.slice(0, 60)}`));
      socket.on('error', (error) => end(String(error)));
      socket.write('GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n');
      socket.write('Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
      let sent = false;
      socket.on('data', (chunk) => {
        text += chunk;
        if (!sent && text.includes('\r\n\r\n')) {
          sent = true;
          socket.write('echo-me');
        }
        if (text.endsWith('echo-me')) end('');
      });
    }),
};

async function leaves(port, seen, path, afterMs) {
  const told = new Promise((resolve) => (seen.aborted = resolve));
  const call = get({ port, path, agent: false }, (answer) => answer.resume().on('error', () => {}));
  call.on('error', () => {});
  await sleep(afterMs);
  const leftMs = performance.now();
  call.destroy();
  const inTime = await Promise.race([told.then(() => true), sleep(3000).then(() => false)]);
  seen.aborted = () => {};
  return inTime && performance.now() - leftMs < 1000 ? '' : 'not told within a second';
}

async function checkFront(name, { command, config, args }) {
  const { server, seen } = createStandIn();
  const behind = await listening(server);
  const port = await freePort();
  const file = join(folder, `${name}.conf`);
  writeFileSync(file, config(port, behind));
  const front = spawn(command, args(file), { stdio: ['ignore', 'pipe', 'pipe'], cwd: folder });
  let said = '';
  for (const output of [front.stdout, front.stderr]) output.on('data', (chunk) => (said += chunk));
  const exited = new Promise((resolve) => front.on('close', resolve));
  let failed = 0;
  try {
    if (!(await answers(port))) {
      console.log(`${name}: does not start\n${said}`);
      return 1;
    }
    for (const [what, check] of Object.entries(checks)) {
      const problem = await check(port, seen);
      if (problem !== '') failed += 1;
      console.log(`${name}: ${problem === '' ? 'ok   ' : 'WRONG'} ${what}${problem === '' ? '' : `: ${problem}`}`);
    }
  } finally {
    front.kill('SIGKILL');
    await exited;
    server.closeAllConnections();
    server.close();
  }
  return failed;
}

let failed = 0;
for (const [name, front] of Object.entries(fronts)) {
  if (spawnSync(front.command, [name === 'caddy' ? 'version' : '-v']).error === undefined)
    failed += await checkFront(name, front);
  else console.log(`${name}: NOT CHECKED, it is not installed`);
}
rmSync(folder, { recursive: true, force: true });
process.exitCode = failed === 0 ? 0 : 1;
