/** A request's prefix over real sockets: the same from every cut of its body, and there when the request is classified. */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { classify } from '../../src/classify/classify.ts';
import { findEndpoint } from '../../src/classify/endpoint-table.ts';
import { planBody, receive } from '../../src/classify/receive.ts';
import { keysToScan } from '../../src/classify/wanted-keys.ts';
import type { Job } from '../../src/domain/job.ts';
import { isRefusal } from '../../src/domain/refusal.ts';
import { createByteBudget } from '../../src/platform/byte-budget.ts';
import { createJsonScan } from '../../src/platform/json-scan.ts';
import { chainOf, promptReader, sharedKeys } from '../support/prefix.ts';

const keys = keysToScan({ shape: false, prefix: true });
const on = promptReader();
const limits = { maxBodyBytes: 1 << 26, keys, witness: { bytes() {}, last() {} } };
let server: Server;
const jobs: Job[] = [];

beforeEach(async () => {
  jobs.length = 0;
  const take = async (request: IncomingMessage): Promise<void> => {
    const { method = '', url = '', headers } = request;
    const endpoint = findEndpoint(method, url);
    const upload = { stream: request, bytes: undefined, proceed() {} };
    const contentType = headers['content-type'];
    const plan = { kind: planBody(upload, contentType, endpoint), contentType, prompt: endpoint.reads };
    const prompts = headers['x-test-off'] === undefined ? on : undefined;
    const received = await receive(upload, plan, { ...limits, prompts, budget: createByteBudget(1 << 26) });
    if (received === 'gone' || isRefusal(received)) throw new Error('not taken in');
    const head = { requestId: 'r', method, target: url, header: (name: string) => String(headers[name] ?? '') };
    const classified = classify(head, received, { openRoutes: [], modelAliases: { alias: 'real' } });
    if (isRefusal(classified)) throw new Error('refused');
    jobs.push(classified);
  };
  server = createServer((request, response) => void take(request).finally(() => response.end()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(() => void server.close());

/** Sends the body in pieces of so many bytes, each in a write of its own once the one before is out. */
async function job(body: unknown, pieceBytes: number, head = ''): Promise<Job> {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay(true);
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n${head}Content-Length: ${bytes.length}\r\n\r\n`,
  );
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    await new Promise<void>((resolve) => socket.write(bytes.subarray(at, at + pieceBytes), () => resolve()));
  }
  socket.resume();
  await new Promise((resolve) => socket.on('close', resolve));
  const found = jobs.pop();
  if (found === undefined) throw new Error('no job');
  return found;
}

const body = {
  messages: [
    { role: 'system', content: 'Be brief. '.repeat(300) },
    { role: 'user', content: 'Füße und 猫 '.repeat(100) },
  ],
  tools: [{ type: 'function', function: { name: 'f', parameters: {} } }],
  model: 'real',
  user: 'someone',
};

describe('the prefix of a request', () => {
  it('is on the job, and the same from every cut of the body', async () => {
    const expected = chainOf(body);
    for (const pieceBytes of [37, 1000, 1 << 20]) expect((await job(body, pieceBytes)).prefix).toEqual(expected);
  });

  it('is the same for an alias of the model, and another for another model', async () => {
    const [real, alias, other] = [
      await job(body, 4096),
      await job({ ...body, model: 'alias' }, 4096),
      await job({ ...body, model: 'x' }, 4096),
    ];
    expect(alias.prefix).toEqual(real.prefix);
    expect(other.prefix?.keys[0]).not.toBe(real.prefix?.keys[0]);
  });

  it('comes with the session that the client names', async () => {
    expect((await job(body, 4096)).session).toBe('user:someone');
    expect((await job(body, 4096, 'X-Session-Id: s1\r\n')).session).toBe('header:s1');
  });

  it('is absent where the body cannot be read', async () => {
    const broken = await job('{"messages":[{"role":"user","content":"x"}]', 4096);
    expect([broken.readable, broken.prefix]).toEqual([false, undefined]);
  });

  it('is absent where prompts are not hashed, and all else as ever', async () => {
    const { prefix, ...rest } = await job(body, 4096);
    expect(prefix).toBeDefined();
    expect(await job(body, 4096, 'X-Test-Off: 1\r\n')).toEqual(rest);
  });

  it('C146 of an image of 40 MB holds nobody up: no piece of it takes 50 ms', async () => {
    const data = Buffer.alloc(30 * 1024 * 1024);
    for (let at = 0, state = 1; at < data.length; at += 4) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      data.writeUInt32LE(state, at);
    }
    const url = `data:image/png;base64,${data.toString('base64')}`;
    const ask = (text: string) =>
      JSON.stringify({
        model: 'real',
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image_url', image_url: { url } },
              { type: 'text', text },
            ],
          },
          { role: 'user', content: text },
        ],
      });
    let slowestMs = 0;
    const reader = on('chat');
    if (reader === undefined) throw new Error('no reader');
    const scan = createJsonScan({ keys, pieces: reader });
    const bytes = Buffer.from(ask('What?'));
    for (let at = 0; at < bytes.length; at += 65_536) {
      const began = performance.now();
      scan.push(bytes.subarray(at, at + 65_536));
      slowestMs = Math.max(slowestMs, performance.now() - began);
    }
    scan.end();
    const chain = reader.chain('real');
    const overSocket = (await job(ask('What?'), 1 << 20)).prefix;
    expect(overSocket).toEqual(chain);
    if (chain === undefined) throw new Error('no chain');
    expect(sharedKeys(chain, chainOf(ask('Why?')))).toBeGreaterThan(0);
    expect(chain.bytes).toBeLessThan(20_000);
    expect(slowestMs).toBeLessThan(50);
  });
});
