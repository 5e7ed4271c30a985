/** Rule 10: a failure in measuring or exporting costs a record, and nothing else. */
import { afterEach, expect, it, vi } from 'vitest';
import type { RunningView } from '../../src/domain/running-view.ts';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { DONE, FIN, ROLE, T, wholeStream } from '../../src/sim/sse-script.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { R0, rawClient } from '../support/raw-http.ts';

vi.mock('../../src/export/records.ts', () => ({
  createRecords: () => ({
    add() {
      throw new Error('no room');
    },
    list: () => [],
    failures: 0,
  }),
}));

let proxy: Proxy | undefined;
let backend: ScriptedServer | undefined;
afterEach(async () => {
  await proxy?.close();
  await backend?.close();
});

it('a record that can’t be kept is counted, the first of its sink in the log: its answer is whole, the next is served, nothing waits for it', async () => {
  const events = [ROLE, T('a'), FIN('stop'), DONE];
  backend = await createScriptedServer({ onRequest: () => [wholeStream(...events)] });
  proxy = await startProxy([backend.url]);
  for (let i = 0; i < 2; i += 1) {
    const client = await rawClient(proxy.port);
    client.send(R0);
    expect((await client.answer()).body.toString()).toBe(events.join(''));
    client.leave();
  }
  await proxy.app.pipeline.idle();
  expect(proxy.app.pipeline.running()).toEqual<RunningView[]>([]);
  const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
  expect(metrics).toMatch(/^warmlane_telemetry_records_lost_total\{.*sink="records".*\} 2$/m);
  const lost = proxy.logged.filter(({ level }) => level === 'error');
  expect(lost).toMatchObject([
    {
      msg: 'a record was lost; further ones of this sink are only counted',
      sink: 'records',
      requestId: expect.any(String) as string,
      error: expect.stringContaining('no room') as string,
    },
  ]);
});
