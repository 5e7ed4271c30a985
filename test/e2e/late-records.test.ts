/** Records are looked at a little later, many at a time: nobody who reads what comes of them notices, and none is left behind. */
import { afterEach, expect, it, vi } from 'vitest';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { DONE, FIN, ROLE, T, wholeStream } from '../../src/sim/sse-script.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { R0, rawClient } from '../support/raw-http.ts';

let proxy: Proxy | undefined;
let backend: ScriptedServer | undefined;
afterEach(async () => {
  await proxy?.close();
  await backend?.close();
});

/** One request from its sending to its answer's last byte. */
async function answered(): Promise<Proxy> {
  backend = await createScriptedServer({ onRequest: () => [wholeStream(ROLE, T('a'), FIN('stop'), DONE)] });
  proxy = await startProxy([backend.url]);
  const client = await rawClient(proxy.port);
  client.send(R0);
  await client.answer();
  client.leave();
  return proxy;
}

const lines = ({ logged }: Proxy) => logged.filter(({ msg }) => msg === 'request');

it('the log has it soon, though nobody asks', async () => {
  const one = await answered();
  await vi.waitFor(() => expect(lines(one)).toHaveLength(1));
});

it('the admin port has it at once', async () => {
  const one = await answered();
  await one.app.pipeline.idle();
  const metrics = await (await fetch(`${one.adminUrl}/metrics`)).text();
  expect(metrics).toMatch(/^warmlane_requests_total\{.*outcome="ok".*\} 1$/m);
});

it.each(['stop', 'kill'] as const)('a process that ends by %s leaves none behind', async (how) => {
  const one = await answered();
  await one.app.pipeline.idle();
  await one.app[how]();
  expect(lines(one)).toHaveLength(1);
});
