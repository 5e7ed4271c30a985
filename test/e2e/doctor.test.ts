/** `warmlane doctor` before simulated engines, bare and behind gateways with one bad habit each. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createSimServer, type SimServer } from '../../src/sim/server.ts';
import { laptopLlamaServer, laptopVllmServer, type SimServerSettings } from '../../src/sim/server-settings.ts';
import { doctor, type DoctorReport } from '../support/doctor.ts';
import { startGateway, type GatewayHabits } from '../support/gateway.ts';
import { accessOf, keyOf } from '../support/keys.ts';
import { hasNginx, startNginx } from '../support/nginx.ts';
import { startProxy } from '../support/proxy.ts';

/** Quick, but slow enough for a stream to be told from a lump. */
const stepTime = { ...laptopVllmServer.engine.stepTime, baseMs: 8, perSequenceMs: 0.5, perPrefillTokenMs: 0.2 };
const oneVllm = { ...laptopVllmServer, engine: { ...laptopVllmServer.engine, stepTime } };
const twoSlots = { ...laptopLlamaServer, engine: { ...laptopLlamaServer.engine, stepTime, maxSequences: 2 } };

const closing: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const server of closing.splice(0).toReversed()) await server.close();
});
async function sim(settings: SimServerSettings = oneVllm): Promise<SimServer> {
  const server = await createSimServer(settings);
  closing.push(server);
  return server;
}
async function behind(habits: GatewayHabits, settings?: SimServerSettings): Promise<string> {
  const gateway = await startGateway((await sim(settings)).port, habits);
  closing.push(gateway);
  return gateway.url;
}

describe('an engine without a gateway', () => {
  it('vLLM: all is well but for the marker that it never sends', async () => {
    const { exitCode, of, findings } = await doctor((await sim()).url);
    expect(exitCode).toBe(0);
    expect(of('engine')).toMatch(/^ok vllm 0\.32\.0/);
    expect(of('buffering.spread')).toMatch(/^ok/);
    expect(of('buffering.markers')).toMatch(/^warn .*X-Accel-Buffering/);
    expect(of('abort.decode')).toBe('ok reaches the engine');
    expect(of('abort.prefill')).toBe('ok reaches the engine');
    expect(of('keep_alive.stream')).toMatch(/^ok/);
    expect(of('usage.per_event')).toContain('gives counts in every event');
    expect(of('errors.model')).toContain('404');
    expect(findings.filter(({ verdict }) => verdict === 'bad')).toEqual([]);
  });

  it('R01 R09 llama-server: closes after streams, and keeps an abandoned request in its queue', async () => {
    const { exitCode, of } = await doctor((await sim(twoSlots)).url);
    expect(exitCode).toBe(0);
    expect(of('engine')).toMatch(/^ok llama-server/);
    expect(of('keep_alive.stream')).toContain('though its headers promise to keep it');
    expect(of('abort.decode')).toMatch(/^ok/);
    expect(of('abort.queued')).toMatch(/^warn .*stays in the queue/);
    expect(of('errors.model')).toBe('warn an unknown model name is accepted');
    expect(of('shape')).toBe('ok 2 slots, context 8192 tokens');
  });

  it('flags that are wanting are named with their remedy', async () => {
    const vllm = await doctor((await sim({ ...oneVllm, promptTokensDetails: false })).url);
    expect(vllm.findings.find(({ check }) => check === 'usage.cached')).toMatchObject({
      verdict: 'warn',
      remedy: 'start vLLM with --enable-prompt-tokens-details',
    });
    const llama = await doctor((await sim({ ...twoSlots, metrics: false })).url);
    expect(llama.findings.find(({ check }) => check === 'metrics')?.remedy).toBe('start llama-server with --metrics');
    expect(llama.of('abort.decode')).toMatch(/^unknown can't be seen from here/);
  });
});

describe('a gateway', () => {
  it('C095 that gathers the whole answer is found, by an engine that tells its times', async () => {
    const { exitCode, findings, of } = await doctor(await behind({ buffers: 'chunked' }, twoSlots));
    expect(exitCode).toBe(1);
    expect(findings.find(({ check }) => check === 'buffering.spread')).toMatchObject({ verdict: 'bad' });
    // Though no token tells when a request is under way, its counters do.
    expect(of('abort.decode')).toBe('ok reaches the engine');
    expect(of('abort.queued')).toMatch(/^warn .*stays in the queue/);
  });

  it('C095 that gathers the whole answer is found, by an engine that does not', async () => {
    const url = await behind({ buffers: 'length', headers: { server: 'nginx/1.22.1' } });
    const { exitCode, findings, of } = await doctor(url);
    expect(exitCode).toBe(1);
    const spread = findings.find(({ check }) => check === 'buffering.spread');
    expect(spread?.verdict).toBe('bad');
    expect(spread?.remedy).toContain('proxy_buffering off');
    expect(of('buffering.length')).toMatch(/^bad/);
    expect(of('gateway')).toBe('ok nginx');
  });

  it('that gathers a few events at a time is warned of', async () => {
    expect((await doctor(await behind({ gathers: 6 }))).of('buffering.spread')).toMatch(/^warn events arrive in lots/);
  });

  it('that compresses streams is warned of', async () => {
    expect((await doctor(await behind({ compresses: true }))).of('buffering.encoding')).toContain('compressed (gzip)');
  });

  it('C077 that goes on for a client that left is found', async () => {
    const { exitCode, of } = await doctor(await behind({ swallowsAborts: true }));
    expect(exitCode).toBe(1);
    expect(of('abort.decode')).toBe('bad the engine works on for a client that left');
  });

  it('C077 that goes on for a client that left, its counters hidden, before one slot: the next request waits', async () => {
    const oneSlot = { ...twoSlots, engine: { ...twoSlots.engine, maxSequences: 1 } };
    const { of } = await doctor(await behind({ swallowsAborts: true, hides: ['/metrics'] }, oneSlot));
    expect(of('abort.decode')).toBe('bad the next request waited as if the abandoned one still ran');
  });

  it('that closes each connection is warned of', async () => {
    const { of } = await doctor(await behind({ dropsKeepAlive: true }));
    expect(of('keep_alive.short')).toBe('warn closes the connection after short answers');
    expect(of('keep_alive.stream')).toBe('warn closes the connection after streams');
  });

  it('warmlane passes, adds the marker and holds the queue itself', async () => {
    const engine = await sim(twoSlots);
    const proxy = await startProxy([engine.url]);
    closing.push(proxy);
    const { exitCode, of } = await doctor(proxy.url);
    expect(exitCode).toBe(0);
    expect(of('gateway')).toBe('ok warmlane');
    expect(of('buffering.markers')).toMatch(/^ok/);
    expect(of('keep_alive.stream')).toMatch(/^ok/);
    expect(of('abort.queued')).toBe('ok requests wait in front of the engine, where leaving is immediate');
  });

  it('warmlane whose key may use one model: what the key is refused proves nothing of what stands behind', async () => {
    const engine = await sim(twoSlots);
    const access = accessOf([{ name: 'a', models: ['tiny'] }]);
    const proxy = await startProxy([engine.url], { access, classify: { modelAliases: { tiny: 'simulated' } } });
    closing.push(proxy);
    const { of, findings } = await doctor(proxy.url, ['--api-key', keyOf('a'), '--model', 'tiny']);
    expect(of('buffering.spread')).toMatch(/^ok/);
    expect(of('metrics')).toBe('unknown this key may not see /metrics (403): the counters can not be seen with it');
    expect(findings.find(({ check }) => check === 'metrics')?.remedy).not.toContain('--metrics');
    expect(of('errors.model')).toMatch(/^unknown .*403/);
    expect(of('errors.json')).toMatch(/^unknown .*403/);
    expect((await doctor(proxy.url)).findings.find(({ check }) => check === 'chat')?.remedy).toContain('--api-key');
  });

  it.runIf(hasNginx)(
    'C095 a real nginx is seen; to a quick reader it passes on, and the missing marker is named',
    async () => {
      const nginx = await startNginx((await sim()).port);
      closing.push(nginx);
      const { of } = await doctor(`http://127.0.0.1:${nginx.port}`);
      expect(of('gateway')).toBe('ok nginx');
      expect(of('buffering.spread')).toMatch(/^ok/);
      expect(of('buffering.markers')).toMatch(/^warn/);
      expect(of('abort.decode')).toMatch(/^ok/);
    },
  );

  it.runIf(hasNginx)('C095 a real nginx that compresses streams is warned of', async () => {
    const more = 'gzip on; gzip_proxied any; gzip_types text/event-stream;';
    const nginx = await startNginx((await sim()).port, undefined, more);
    closing.push(nginx);
    const { of, findings } = await doctor(`http://127.0.0.1:${nginx.port}`);
    expect(of('buffering.encoding')).toMatch(/^warn .*gzip/);
    expect(findings.find(({ check }) => check === 'buffering.encoding')?.remedy).toContain('gzip off');
  });
});

/** An endpoint that lists one model and answers whatever else by `answer`. */
async function speaking(answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) => {
    response.on('error', () => {});
    request.resume();
    if (request.url === '/v1/models')
      return void response.setHeader('content-type', 'application/json').end('{"object":"list","data":[{"id":"m"}]}');
    if (request.url !== '/v1/chat/completions') return void response.writeHead(404).end();
    request.on('end', () => answer(response));
  });
  return listening(server);
}

async function listening(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => void sockets.add(socket.on('error', () => {})));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  closing.push({
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => void server.close(resolve));
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's
}

const eventOf = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;

/** The text again and again for as long as anybody reads. */
const repeating = (text: string, everyMs: number) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
  const timer = setInterval(() => {
    response.write(text);
  }, everyMs);
  response.on('close', () => clearInterval(timer));
};

const endless = repeating(eventOf({ content: 'on ' }).repeat(5), 1);
const streamsOf = { tokens: endless, silence: repeating('', 1000), comments: repeating(': on\n\n', 5) };

describe('an endpoint that is none, or a broken one', () => {
  it('is called bad where a stream ends in which no token ever came', async () => {
    const url = await speaking((response) => {
      const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n`;
      response
        .writeHead(200, { 'content-type': 'text/event-stream' })
        .end(`${eventOf({ role: 'assistant' })}${finish}data: [DONE]\n\n`);
    });
    const { exitCode, of } = await doctor(url, ['--timeout', '2']);
    expect(exitCode).toBe(1);
    expect(of('buffering.spread')).toBe('bad the stream brought no token');
  });

  it('is said at once to be no API where a web page comes with 200', async () => {
    const page = '<!doctype html>\n<title>Welcome</title>';
    const server = createServer((_, response) => void response.setHeader('content-type', 'text/html').end(page));
    const url = await listening(server);
    for (const flags of [[], ['--cache', '--yes']]) {
      const { exitCode, findings, of }: DoctorReport = await doctor(url, flags);
      expect(exitCode).toBe(1);
      expect(of('chat')).toBe('bad a web page came instead of an answer: this is no API');
      expect(findings.map(({ check }) => check)).toEqual(['engine', 'gateway', 'chat']);
    }
  });

  it('is told by what it says where that is no HTTP', async () => {
    const url = await listening(createTcpServer((socket) => void socket.end('SSH-2.0-OpenSSH_9.6\r\n')));
    const { exitCode, said } = await doctor(url);
    expect(exitCode).toBe(2);
    expect(said).toContain('does not answer in HTTP (');
    expect(said).toContain('it began "SSH-2.0-OpenSSH_9.6');
  });

  it('is left where its stream has no end, and nothing is concluded from what would come behind it', async () => {
    const { exitCode, of, findings } = await doctor(await speaking(endless), ['--timeout', '6']);
    expect(exitCode).toBe(1);
    expect(of('stream.end')).toBe('bad a stream goes on far past max_tokens');
    expect(findings.find(({ check }) => check === 'stream.end')?.evidence).toMatch(
      /^24 tokens were asked for; no end after \d+/,
    );
    expect(of('usage.stream')).toBe('unknown the stream was not seen to its end, where usage comes');
    expect(of('usage.cached')).toMatch(/^unknown/);
  });

  it.each(['tokens', 'silence', 'comments'] as const)(
    'keeps the experiment no longer than it was given, by a stream of %s',
    async (what) => {
      const startMs = performance.now();
      const { exitCode, said } = await doctor(await speaking(streamsOf[what]), [
        '--cache',
        '--timeout',
        '2',
        '--prompt-tokens',
        '100',
      ]);
      expect(said).toContain(' 2 s;');
      expect(exitCode).toBe(1);
      expect(performance.now() - startMs).toBeLessThan(4000);
    },
  );
});

describe('the command', () => {
  it('says when nobody answers, and ends with 2', async () => {
    const server = await createSimServer(oneVllm);
    await server.close();
    const { exitCode, said } = await doctor(server.url);
    expect(exitCode).toBe(2);
    expect(said).toContain('does not answer (refused)');
  });

  it('says when a key is wanted, and takes one', async () => {
    const { url } = await sim({ ...oneVllm, apiKey: 'secret' });
    const without = await doctor(url);
    expect(without.exitCode).toBe(1);
    expect(without.findings.find(({ check }) => check === 'chat')?.remedy).toBe('give the key with --api-key');
    const withKey = await doctor(url, ['--api-key', 'secret']);
    expect(withKey.exitCode).toBe(0);
    expect(JSON.stringify(withKey)).not.toContain('secret');
  });

  it('states its budget and keeps its time', async () => {
    const { url } = await sim();
    const startMs = performance.now();
    const { said, of } = await doctor(url, ['--timeout', '1']);
    expect(said).toMatch(/^Budget: at most 8 generating requests, [\d,]+ prompt tokens, 1 s\n/);
    expect(of('time')).toMatch(/^warn/);
    expect(performance.now() - startMs).toBeLessThan(8000);
  });
});
