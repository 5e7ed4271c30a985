/** A record that can't be made must cost no tenant its place: each request gives it back once, whatever happens. */
import { afterEach, expect, it, vi } from 'vitest';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import { accessOf, keyOf } from '../support/keys.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { chatBody, postBytes, rawClient } from '../support/raw-http.ts';

vi.mock('../../src/measure/build-record.ts', () => ({
  buildRecord() {
    throw new Error('no record');
  },
}));

let proxy: Proxy | undefined;
let backend: ScriptedServer | undefined;
afterEach(async () => {
  await proxy?.close();
  await backend?.close();
});

it('a place under a limit comes back where booking failed', async () => {
  backend = await createScriptedServer({ onRequest: () => [wholeAnswer(200, { ok: true })] });
  proxy = await startProxy([backend.url], { access: accessOf([{ name: 'a', limits: { concurrent: 1 } }]) });
  for (let round = 0; round < 3; round += 1) {
    const client = await rawClient(proxy.port);
    client.send(postBytes('/v1/chat/completions', chatBody, { Authorization: `Bearer ${keyOf('a')}` }));
    expect(await client.answer()).toMatchObject({ status: 200 });
    client.leave();
    await proxy.app.pipeline.idle();
  }
  expect(proxy.logged.filter(({ msg }) => msg === 'a record was lost')).toHaveLength(3);
});
