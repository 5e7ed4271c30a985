/** A bug of ours, played by a part that throws: the client is told while it has nothing yet, else its answer is cut. */
import { afterEach, expect, it, vi } from 'vitest';
import { reset, type Script } from '../../src/sim/fault-steps.ts';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { DONE, FIN, ROLE, T, wholeStream } from '../../src/sim/sse-script.ts';
import { type Proxy, startProxy } from '../support/proxy.ts';
import { R0, type RawClient, rawClient } from '../support/raw-http.ts';

let proxy: Proxy | undefined;
let backend: ScriptedServer | undefined;
afterEach(async () => {
  await proxy?.close();
  await backend?.close();
});

/** What the relay tells of its backend throws. */
async function broken(script: Script): Promise<{ proxy: Proxy; client: RawClient }> {
  backend = await createScriptedServer({ onRequest: () => script, probes: { engine: 'openai' } });
  proxy = await startProxy([backend.url]);
  const member = proxy.app.fleet.member(proxy.app.fleet.snapshot().backends[0]?.name ?? '');
  if (member === undefined) throw new Error('no backend');
  const report = () => {
    throw new Error('bug');
  };
  vi.spyOn(proxy.app.fleet, 'member').mockReturnValue({ ...member, report });
  const client = await rawClient(proxy.port);
  client.send(R0);
  return { proxy, client };
}

it('before the head it is a 500 in the shape of the dialect, with the request id, and nothing of the error itself', async () => {
  const { proxy: broke, client } = await broken([reset()]);
  const answer = await client.answer();
  expect(answer).toMatchObject({ status: 500, complete: true });
  expect(answer.headers['x-request-id']).toBeDefined();
  expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'internal', source: 'warmlane' } });
  expect(answer.body.toString()).not.toContain('bug');
  expect((await broke.records(1))[0]).toMatchObject({ outcome: 'proxy_error', reason: 'internal', status: 500 });
  client.leave();
});

it('after the head the answer is cut, and no second head stands in it', async () => {
  const { proxy: broke, client } = await broken([wholeStream(ROLE, T('a'), FIN('stop'), DONE)]);
  const answer = await client.answer();
  expect(answer).toMatchObject({ status: 200, complete: false });
  expect(client.received.toString().split('HTTP/1.1')).toHaveLength(2);
  expect((await broke.records(1))[0]).toMatchObject({ outcome: 'proxy_error', reason: 'internal' });
  client.leave();
});
