/** A backend that is warmlane itself: the request goes round a few times and ends, with an error that says where to look. */
import { expect, it } from 'vitest';
import { createServer } from 'node:net';
import { startProxy } from '../support/proxy.ts';
import { R0, rawClient } from '../support/raw-http.ts';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

it('a proxy in front of itself answers 508 after nine rounds', async () => {
  const port = await freePort();
  const proxy = await startProxy([`http://127.0.0.1:${port}`], { http: { listen: { host: '127.0.0.1', port } } });
  try {
    const client = await rawClient(proxy.port);
    client.send(R0);
    const answer = await client.answer();
    expect(answer.status).toBe(508);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'loop_detected', source: 'warmlane', message: expect.stringContaining('backends') as string },
    });
    client.leave();
    await proxy.app.pipeline.idle();
    const records = await proxy.records(10);
    expect(records.filter(({ endpoint }) => endpoint === 'chat')).toHaveLength(10);
  } finally {
    await proxy.close();
  }
});
