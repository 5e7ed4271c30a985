/** Rule 10, for warmlane's own requests: one whose record is lost must not keep its backend from being warmed. */
import { afterEach, expect, it, vi } from 'vitest';
import type * as BuildRecord from '../../src/measure/build-record.ts';
import { createSimServer, type SimServer } from '../../src/sim/server.ts';
import { instantVllmServer } from '../../src/sim/server-settings.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { eventually } from '../support/stage.ts';

vi.mock('../../src/measure/build-record.ts', async (original) => {
  const actual = await original<typeof BuildRecord>();
  let built = 0;
  const buildRecord: typeof actual.buildRecord = (...told) => {
    built += 1;
    if (built === 1) throw new Error('no record');
    return actual.buildRecord(...told);
  };
  return { ...actual, buildRecord };
});

let proxy: Proxy | undefined;
let backend: SimServer | undefined;
afterEach(async () => {
  await proxy?.close();
  await backend?.close();
});

it('a warm-up whose record is lost is over all the same: the next prompt is sent', async () => {
  backend = await createSimServer(instantVllmServer, { port: 0 });
  const prompts = ['first', 'second'].map((name) => ({
    name,
    path: '/v1/completions',
    body: JSON.stringify({ model: 'simulated', prompt: name }),
  }));
  const hottest = { enabled: false, count: 1, maxBytes: 1024 };
  proxy = await startProxy([backend.url], {
    warmUp: { prompts, hottest, maxConcurrentPerFleet: 1, timeoutMs: 60_000 },
  });
  const { adminUrl } = proxy;
  const count = async (ending: string) => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const line = text
      .split('\n')
      .find((one) => one.startsWith('warmlane_warm_up_prompts_total') && one.includes(`"${ending}"`));
    return Number(line?.split(' ').at(-1) ?? 0);
  };
  await eventually(async () => (await count('done')) === 1, 'the second one is done', 10_000);
  expect(await count('failed')).toBe(1);
  expect(proxy.logged.filter(({ level }) => level === 'error')).toMatchObject([
    { msg: 'a record was lost', error: expect.stringContaining('no record') as string },
  ]);
});
