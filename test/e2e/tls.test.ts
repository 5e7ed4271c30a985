/** TLS on both sides (decision 14): https backends with their own authority and name, and warmlane's own certificate. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer, type AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startApp } from '../../src/app.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { BackendTls } from '../../src/fleet/settings.ts';
import { silentLog } from '../../src/platform/log.ts';
import type { Script } from '../../src/sim/fault-steps.ts';
import { DONE, FIN, ROLE, T, USE, wholeAnswer } from '../../src/sim/sse-script.ts';
import { paced } from '../support/exchange.ts';
import {
  type Authority,
  type Certificate,
  createAuthority,
  createTlsFront,
  hasOpenssl,
  type TlsFront,
} from '../support/openssl.ts';
import type { ConfigChange } from '../support/proxy.ts';
import { chatBody, parseAnswer, postBytes, R0, rawClient, requestBytes } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';
import { createUpgradeBackend, handshakeBytes, switching } from '../support/upgrade-backend.ts';

if (!hasOpenssl) console.warn('LEFT OUT: test/e2e/tls.test.ts, since there is no `openssl` on this machine.');

describe.runIf(hasOpenssl)('TLS', () => {
  let stage: Stage;
  let authority: Authority;
  let forLocalhost: Certificate;
  let forModelTest: Certificate;
  const fronts: { close(): Promise<unknown> }[] = [];
  beforeAll(() => {
    authority = createAuthority();
    forLocalhost = authority.sign('DNS:localhost', 'IP:127.0.0.1');
    forModelTest = authority.sign('DNS:model.test');
  });
  afterAll(() => authority?.remove());
  beforeEach(() => {
    stage = createStage();
  });
  afterEach(async () => {
    await stage.close();
    for (const server of fronts.splice(0)) await server.close();
  });

  async function front(port: number, certificate: Certificate): Promise<TlsFront> {
    const made = await createTlsFront(port, certificate);
    fronts.push(made);
    return made;
  }

  const events = [ROLE, T('a'), T('b'), FIN('stop'), USE(5, 2), DONE];

  /** A streaming backend behind TLS, and a warmlane that was told this of it. */
  async function secured(certificate: Certificate, tls: BackendTls, more: ConfigChange & { host?: string } = {}) {
    const { host = '127.0.0.1', ...change } = more;
    const backend = await stage.backend({ onRequest: () => paced(5, ...events) });
    const before = await front(backend.port, certificate);
    const backends = [{ name: 'b', url: `https://${host}:${before.port}`, tls }];
    const proxy = await stage.proxy(backend, { change: { ...change, fleet: { backends } } });
    const client = await stage.client(proxy);
    return { backend, front: before, proxy, client };
  }

  describe.each(['h1', 'undici'] as const)('to a backend, by the client %s', (upstreamClient) => {
    it('streams as without it, on connections that serve again', async () => {
      const {
        backend,
        front: before,
        proxy,
        client,
      } = await secured(forLocalhost, { ca: authority.ca, verify: true }, { upstreamClient });
      const probed = before.names.length;
      for (let i = 0; i < 3; i += 1) {
        const at = client.received.length;
        client.send(R0);
        await client.until(() => parseAnswer(client.received.subarray(at))?.complete === true);
        const answer = parseAnswer(client.received.subarray(at));
        expect(answer?.body.toString()).toBe(events.join(''));
        expect(answer?.chunks).toHaveLength(events.length);
      }
      expect(before.names.length - probed).toBe(1);
      expect(new Set(usersOf(backend).map(({ connectionId }) => connectionId)).size).toBe(1);
      expect(usersOf(backend)[0]?.header('host')).toBe(`127.0.0.1:${before.port}`);
      expect(usersOf(backend)[0]?.header('x-forwarded-proto')).toBe('http');
      for (const record of await proxy.records(3))
        expect(record).toMatchObject({ outcome: 'ok', tokens: { output: { value: 2 } } });
      // An address is no name that a certificate server could be asked for.
      expect(new Set(before.names)).toEqual(new Set([false]));
    });

    it('asks for the name of the URL, or the one that the config gives', async () => {
      const named = await secured(
        forLocalhost,
        { ca: authority.ca, verify: true },
        { upstreamClient, host: 'localhost' },
      );
      named.client.send(R0);
      expect((await named.client.answer()).status).toBe(200);
      expect(new Set(named.front.names)).toEqual(new Set(['localhost']));
      const other = await secured(
        forModelTest,
        { ca: authority.ca, serverName: 'model.test', verify: true },
        { upstreamClient },
      );
      other.client.send(R0);
      expect((await other.client.answer()).status).toBe(200);
      expect(new Set(other.front.names)).toEqual(new Set(['model.test']));
      expect(usersOf(other.backend)[0]?.header('host')).toBe(`127.0.0.1:${other.front.port}`);
    });

    it.each([
      ['whose authority is unknown', () => ({ verify: true }), () => forLocalhost],
      ['whose name is another', () => ({ ca: authority.ca, verify: true }), () => forModelTest],
      [
        'whose configured name is another',
        () => ({ ca: authority.ca, serverName: 'other.test', verify: true }),
        () => forModelTest,
      ],
    ])('sends nothing to one %s', async (_, tls, certificate) => {
      const { backend, proxy, client } = await secured(certificate(), tls(), { upstreamClient });
      client.send(R0);
      const answer = await client.answer();
      expect(answer.status).toBe(502);
      expect(JSON.parse(answer.body.toString())).toMatchObject({
        error: { code: 'backend_unreachable', source: 'backend' },
      });
      expect(answer.body.toString()).toMatch(/certificate|altnames/i);
      expect([backend.requests, backend.probes]).toEqual([[], []]);
      expect(proxy.app.fleet.snapshot().backends[0]).toMatchObject({ health: 'down', healthReason: 'tls' });
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_error', status: 502 });
    });

    it('takes any certificate where verification is switched off', async () => {
      const { proxy, client } = await secured(forModelTest, { verify: false }, { upstreamClient });
      client.send(R0);
      expect((await client.answer()).status).toBe(200);
      expect(proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
    });

    it('tells what it is when a backend speaks no TLS at all', async () => {
      const plain = createServer(
        (socket) => void socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')),
      );
      await new Promise<void>((resolve) => void plain.listen(0, '127.0.0.1', resolve));
      fronts.push({ close: () => new Promise((resolve) => void plain.close(resolve)) });
      const { port } = plain.address() as AddressInfo;
      const backends = [{ name: 'b', url: `https://127.0.0.1:${port}`, tls: { verify: true } }];
      const proxy = await stage.proxy(await stage.backend(), { change: { upstreamClient, fleet: { backends } } });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expect(answer.status).toBe(502);
      expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'backend_unreachable' } });
      expect(proxy.app.fleet.snapshot().backends[0]).toMatchObject({ health: 'down', healthReason: 'tls' });
    });
  });

  describe("by warmlane's own certificate", () => {
    const ownTls = () => ({ change: { http: { tls: { cert: forLocalhost.cert, key: forLocalhost.key } } } });
    const trust = () => ({ tls: { ca: authority.ca, servername: 'localhost' } });

    it('a stream reaches its client, and the backend learns that it came that way', async () => {
      const backend = await stage.backend({ onRequest: () => paced(5, ...events) });
      const proxy = await stage.proxy(backend, ownTls());
      const client = await rawClient(proxy.port, trust());
      for (let i = 0; i < 2; i += 1) {
        const at = client.received.length;
        client.send(R0);
        await client.until(() => parseAnswer(client.received.subarray(at))?.complete === true);
        const answer = parseAnswer(client.received.subarray(at));
        expect(answer?.body.toString()).toBe(events.join(''));
        expect(answer?.chunks).toHaveLength(events.length);
      }
      client.leave();
      expect(usersOf(backend)[0]?.header('x-forwarded-proto')).toBe('https');
      expect(usersOf(backend)[0]?.header('forwarded')).toBe('for=127.0.0.1;proto=https;host="test"');
    });

    it('a client that leaves is seen to leave', async () => {
      const backend = await stage.backend({ onRequest: () => paced(20, ...Array.from({ length: 100 }, () => T('x'))) });
      const proxy = await stage.proxy(backend, ownTls());
      const client = await rawClient(proxy.port, trust());
      client.send(R0);
      await client.until(() => client.received.includes('"x"'));
      client.leave();
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'client_abort' });
    });

    it('no other protocol than HTTP/1.1 is agreed on, and an offer of h2c inside is not taken up', async () => {
      const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, { ok: true })] });
      const proxy = await stage.proxy(backend, ownTls());
      const socket = connect({
        port: proxy.port,
        host: '127.0.0.1',
        ca: authority.ca,
        servername: 'localhost',
        ALPNProtocols: ['h2', 'http/1.1'],
      });
      await new Promise((resolve) => socket.once('secureConnect', resolve));
      expect(socket.alpnProtocol).toBe('http/1.1');
      socket.destroy();
      const client = await rawClient(proxy.port, trust());
      for (let i = 1; i <= 2; i += 1) {
        const at = client.received.length;
        client.send(
          postBytes(
            '/v1/chat/completions',
            { ...chatBody, stream: false },
            { Upgrade: 'h2c', Connection: 'Upgrade, HTTP2-Settings', 'HTTP2-Settings': 'x' },
          ),
        );
        await client.until(() => parseAnswer(client.received.subarray(at))?.complete === true);
        expect(parseAnswer(client.received.subarray(at))?.body.toString()).toBe('{"ok":true}');
      }
      client.leave();
      expect(usersOf(backend)).toHaveLength(2);
    });

    it('plain HTTP gets nothing, and the next client is served', async () => {
      const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, { ok: true })] });
      const proxy = await stage.proxy(backend, ownTls());
      const plain = await stage.client(proxy);
      plain.send(requestBytes('GET /x'));
      await plain.until(() => plain.ended !== 'no');
      expect(plain.received.includes('HTTP/1.1 200')).toBe(false);
      const client = await rawClient(proxy.port, trust());
      client.send(requestBytes('GET /livez'));
      expect((await client.answer()).status).toBe(200);
      client.leave();
      expect(usersOf(backend)).toEqual([]);
    });

    it('a WebSocket passes, to a backend with TLS of its own', async () => {
      const backend = await createUpgradeBackend({
        tls: forModelTest,
        onHandshake: ({ socket }) => void socket.write(switching),
      });
      fronts.push(backend);
      const backends = [
        { name: 'b', url: backend.url, tls: { ca: authority.ca, serverName: 'model.test', verify: true } },
      ];
      const proxy = await stage.proxy(await stage.backend(), { change: { ...ownTls().change, fleet: { backends } } });
      const client = await rawClient(proxy.port, trust());
      client.send(handshakeBytes('/v1/realtime'));
      await client.until(() => client.received.toString('latin1') === switching);
      client.send('ping');
      await client.until(() => backend.handshakes[0]?.received() === 'ping');
      expect(backend.handshakes[0]?.header('forwarded')).toContain('proto=https');
      client.leave();
      await proxy.records(1);
    });
  });

  it('is set up by files that the config names', async () => {
    const backend = await stage.backend({ onRequest: () => paced(1, ...events) });
    const before = await front(backend.port, forModelTest);
    const file = join(authority.folder, 'w.yaml');
    writeFileSync(
      file,
      `listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
tls: { certFile: ${forLocalhost.certFile}, keyFile: ${forLocalhost.keyFile} }
backends:
  - url: https://127.0.0.1:${before.port}
    tls: { caFile: ca.pem, serverName: model.test }
`,
    );
    const loaded = loadConfig({ file, env: {}, flags: {} });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    const app = await startApp(loaded.config, { log: silentLog });
    const client = await rawClient(app.data.port, { tls: { ca: authority.ca, servername: 'localhost' } });
    client.send(R0);
    expect((await client.answer()).body.toString()).toBe(events.join(''));
    client.leave();
    app.kill();
    await Promise.all([app.data.close(), app.admin.close()]);
  });
});
