import { describe, expect, it } from 'vitest';
import { createAdminApp } from '../../../src/http/admin-app.ts';
import type { AdminPage } from '../../../src/http/admin-page.ts';
import { sampleBackend } from '../../support/sample.ts';
import { sampleRecord } from '../../support/sample-record.ts';

function admin(over: Partial<Parameters<typeof createAdminApp>[0]> = {}) {
  const app = createAdminApp({
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

  it('are not for a Host that a page made resolve to loopback', async () => {
    const answer = await admin()('/records', { headers: { Host: 'evil.example' } });
    expect(answer.status).toBe(403);
    expect(await answer.text()).toContain('loopback');
    const elsewhere = admin({ listeningOn: () => ({ host: '0.0.0.0', address: '0.0.0.0' }) });
    expect((await elsewhere('/records', { headers: { Host: 'evil.example' } })).status).toBe(200);
  });
});
