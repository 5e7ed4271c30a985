/** The admin listener over a real socket: whom it answers. */
import http from 'node:http';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

function ask(url: string, options: http.RequestOptions): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { agent: false, ...options }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (piece: string) => (text += piece));
      answer.on('end', () => resolve({ status: answer.statusCode, text }));
    });
    request.on('error', reject);
    request.end();
  });
}

it('on loopback answers a Host of this machine, and no name that a page made resolve to it', async () => {
  const { adminUrl } = await stage.proxy(await stage.backend({}));
  for (const host of ['localhost:9091', '127.0.0.1', '[::1]:1']) {
    expect(await ask(`${adminUrl}/records`, { headers: { Host: host } }), host).toEqual({
      status: 200,
      text: '{"records":[]}\n',
    });
  }
  const refused = await ask(`${adminUrl}/records`, { headers: { Host: 'evil.example:9091' } });
  expect(refused.status).toBe(403);
  expect(refused.text).toContain('--admin-listen');
});

it('answers HEAD as GET without a body, and 405 to what would change something', async () => {
  const { adminUrl } = await stage.proxy(await stage.backend({}));
  expect(await ask(`${adminUrl}/records`, { method: 'HEAD' })).toEqual({ status: 200, text: '' });
  expect((await ask(`${adminUrl}/backends`, { method: 'DELETE' })).status).toBe(405);
});
