import { describe, expect, it } from 'vitest';
import { createAdminApp } from '../../../src/http/admin-app.ts';
import type { AdminPage } from '../../../src/http/admin-page.ts';
import { noBatchesPage } from '../../../src/http/no-batches-page.ts';
import { sampleBackend } from '../../support/sample.ts';
import { sampleNote } from '../../support/sample-routing.ts';
import { sampleRecord } from '../../support/sample-record.ts';

function admin(over: Partial<Parameters<typeof createAdminApp>[0]> = {}) {
  const app = createAdminApp({
    settle: () => {},
    running: () => [],
    fleet: () => ({ atMs: 5, backends: [sampleBackend('a', { healthSinceMs: 100 })] }),
    load: () => ({ jobs: 1, slots: 2, lastUsed: 9 }),
    waiting: () => 0,
    records: () => [],
    pages: [],
    status: () => ({ uptimeSeconds: 1 }),
    nowMs: () => 350.123456,
    listeningOn: () => ({ host: '127.0.0.1', address: '127.0.0.1' }),
    ...over,
  });
  return (path: string, init: RequestInit = {}) => app.request(`http://localhost:1${path}`, init);
}

describe('the admin pages', () => {
  it('give the age of a health, to the microsecond, and no moment of a clock that nobody sees', async () => {
    const { backends } = (await (await admin()('/backends')).json()) as { backends: Record<string, unknown>[] };
    expect(backends[0]).toMatchObject({ name: 'a', healthAgeMs: 250.123 });
    expect(backends[0]).not.toHaveProperty('healthSinceMs');
    expect(backends[0]?.['load']).toEqual({ jobs: 1, slots: 2 });
  });

  it('end with a newline', async () => {
    const ask = admin({ records: () => [sampleRecord({ requestId: 'r1' })] });
    for (const path of [
      '/',
      '/healthz',
      '/running',
      '/backends',
      '/records',
      '/records/r1',
      '/records/none',
      '/nowhere',
    ]) {
      const text = await (await ask(path)).text();
      expect(text.endsWith('}\n'), path).toBe(true);
      expect(() => JSON.parse(text) as unknown, path).not.toThrow();
    }
  });

  it('are all on lines of their own, long or short, errors too; of records each has one line', async () => {
    const page = (kind: 'json' | 'long'): AdminPage => ({
      path: `/${kind}`,
      about: '',
      params: [],
      answer: () => ({ kind, value: { a: [{ b: 1.23456 }] } }),
    });
    const ask = admin({ pages: [page('json'), page('long')], records: () => [sampleRecord({ requestId: 'r1' })] });
    const text = async (path: string) => (await ask(path)).text();
    for (const path of ['/json', '/long'])
      expect(await text(path)).toBe('{\n  "a": [\n    {\n      "b": 1.235\n    }\n  ]\n}\n');
    for (const path of ['/', '/healthz', '/running', '/backends', '/nowhere'])
      expect(await text(path), path).toMatch(/^\{\n {2}"/);
    expect((await text('/records')).trimEnd().split('\n')).toHaveLength(2);
  });

  it('tell who comes with a client’s request which port serves it, and who asks for batches that they are off', async () => {
    const ask = admin({
      listeningOn: () => ({ host: '127.0.0.1', address: '127.0.0.1', clientPort: 8484 }),
      pages: [noBatchesPage],
    });
    for (const [path, init] of [
      ['/v1/batches?limit=1', {}],
      ['/v1/files', { method: 'POST', body: 'x' }],
    ] as const) {
      const answer = await ask(path, init);
      expect(answer.status).toBe(404);
      expect(await answer.json()).toEqual({
        error: {
          message: "This is warmlane's admin port (1). Clients are served on port 8484 of the same machine.",
          type: 'invalid_request_error',
          param: null,
          code: 'admin_port',
        },
      });
    }
    const off = await ask('/batches?open=true');
    expect(off.status).toBe(404);
    const { error } = (await off.json()) as { error: Record<string, unknown> };
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'batch_api_off' });
    expect(error['message']).toContain('--batch-dir');
  });

  it('say on the index that moments are monotonic', async () => {
    expect(await (await admin()('/')).text()).toContain('monotonic');
  });

  it('refuse other methods with 405 and say which they take; HEAD is one of them', async () => {
    for (const path of ['/', '/healthz', '/running', '/backends', '/records', '/records/r1']) {
      const answer = await admin()(path, { method: 'POST' });
      expect([answer.status, answer.headers.get('allow')], path).toEqual([405, 'GET, HEAD']);
    }
    expect((await admin()('/healthz', { method: 'HEAD' })).status).toBe(200);
    expect((await admin()('/nowhere', { method: 'POST' })).status).toBe(404);
  });

  it('say that a backend may be added at /backends, where it may', async () => {
    const change = () => ({ ok: true as const, name: 'b1' });
    const ask = admin({ control: { add: change, remove: change, drain: change } });
    for (const method of ['PUT', 'DELETE']) {
      const answer = await ask('/backends', { method });
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
      expect(await answer.json()).toEqual({ error: { message: 'This page takes GET, HEAD, POST.' } });
    }
    expect((await ask('/running', { method: 'PUT' })).headers.get('allow')).toBe('GET, HEAD');
  });

  it('refuse query parameters that they don’t know, and those given twice, with what is allowed', async () => {
    const page = (path: string, params: readonly string[] | undefined) =>
      ({ path, about: '', params, answer: () => ({ kind: 'json', value: {} }) }) satisfies AdminPage;
    const ask = admin({ pages: [page('/none', []), page('/two', ['a', 'b']), page('/any', undefined)] });
    const asked = async (path: string) => {
      const answer = await ask(path);
      return [answer.status, ((await answer.json()) as { error?: object }).error];
    };
    for (const path of ['/two?a=1&b=2', '/none', '/any?x=1', '/records?limit=1', '/healthz?x=1'])
      expect(await asked(path), path).toEqual([200, undefined]);
    expect(await asked('/none?x=1')).toEqual([400, { param: 'x', message: 'unknown parameter; there are none here' }]);
    const unknown = (param: string, allowed: string) => ({
      param,
      message: `unknown parameter; allowed are ${allowed}`,
    });
    expect(await asked('/two?A=1')).toEqual([400, unknown('A', 'a, b')]);
    expect(await asked('/two?a=1&a=2')).toEqual([400, { param: 'a', message: 'a may be given once' }]);
    expect(await asked('/records?limt=1')).toEqual([400, unknown('limt', 'limit')]);
    expect((await asked('/running?x=1'))[0]).toBe(400);
    expect((await asked('/backends?x=1'))[0]).toBe(400);
  });

  it('may be of something that stands behind their path: 404 where there is nothing of it', async () => {
    const explain: AdminPage = {
      path: '/explain',
      of: 'request id',
      about: 'why',
      params: [],
      answer: (_query, of) =>
        of === 'r/1' ? { kind: 'json', value: { of } } : { kind: 'missing', message: `nothing of ${of}` },
    };
    const ask = admin({ pages: [explain] });
    expect(await (await ask('/explain/r%2F1')).json()).toEqual({ of: 'r/1' });
    const missing = await ask('/explain/x');
    expect([missing.status, await missing.json()]).toEqual([404, { error: { message: 'nothing of x' } }]);
    expect((await ask('/explain/x?y=1')).status).toBe(400);
    expect((await ask('/explain/x', { method: 'POST' })).status).toBe(405);
    expect((await ask('/explain')).status).toBe(404);
    expect(await (await ask('/')).json()).toMatchObject({ '/explain/{request id}': 'why' });
  });

  it('show records without the backends that were considered', async () => {
    const ask = admin({ records: () => [sampleRecord({ requestId: 'r1', routing: sampleNote() })] });
    for (const path of ['/records', '/records/r1']) {
      const text = await (await ask(path)).text();
      expect(text).toContain('"predictedTokens":512');
      expect(text).not.toContain('considered');
    }
  });

  it('are not for a Host that a page made resolve to loopback', async () => {
    const answer = await admin()('/records', { headers: { Host: 'evil.example' } });
    expect(answer.status).toBe(403);
    expect(await answer.text()).toContain('loopback');
    const elsewhere = admin({ listeningOn: () => ({ host: '0.0.0.0', address: '0.0.0.0' }) });
    expect((await elsewhere('/records', { headers: { Host: 'evil.example' } })).status).toBe(200);
  });
});

describe('changes on a listener that others reach, where they are allowed', () => {
  const drains: string[] = [];
  const control = {
    add: () => ({ ok: false, status: 409, message: 'not here' }) as const,
    remove: (name: string) => ({ ok: true, name }) as const,
    drain(name: string) {
      drains.push(name);
      return { ok: true, name } as const;
    },
  };
  const app = createAdminApp({
    settle: () => {},
    running: () => [],
    fleet: () => ({ atMs: 5, backends: [sampleBackend('a')] }),
    load: () => ({ jobs: 0, slots: 0 }),
    waiting: () => 0,
    records: () => [],
    pages: [],
    status: () => ({}),
    nowMs: () => 1,
    control,
    changes: 'always',
    listeningOn: () => ({ host: 'admin.lan', address: '10.0.0.5' }),
  });
  const drained = async (host: string, headers: Record<string, string>) => {
    const init = { method: 'POST', headers: { host, ...headers } };
    return (await app.request(`http://${host}/backends/a/drain`, init)).status;
  };
  const page = (host: string) => ({ origin: `http://${host}`, 'sec-fetch-site': 'same-origin' });

  it.each(['10.0.0.5:8485', '[fd00::5]:8485', 'localhost:8485', 'admin.lan:8485'])(
    'may come from a page under %s',
    async (host) => {
      expect(await drained(host, page(host))).toBe(200);
    },
  );

  it('may not come from a page whose own name was made to resolve to it, and may from who is no browser', async () => {
    drains.length = 0;
    const host = 'evil.example:8485';
    expect(await drained(host, page(host))).toBe(403);
    expect(await drained(host, { origin: `http://${host}` })).toBe(403);
    expect(await drained(host, { 'sec-fetch-site': 'same-origin' })).toBe(403);
    expect(drains).toEqual([]);
    expect(await drained('admin.other.lan:8485', {})).toBe(200);
  });
});
