/**
 * The same response bytes, from a raw TCP server, to three clients: the own one, undici and Node's. What the own one takes for
 * a whole response must be what the others read, byte for byte; it may refuse more than they, never less.
 * WARMLANE_FUZZ_RUNS sets the number of cases for a longer run; the seed is printed.
 */
import http from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createH1Client } from '../../../../src/platform/upstream/h1-client.ts';
import type { UpstreamClient } from '../../../../src/platform/upstream/port.ts';
import { upstreamDefaults } from '../../../../src/platform/upstream/settings.ts';
import { createUndiciClient } from '../../../../src/platform/upstream/undici-client.ts';
import { arbitraryBrokenResponse, arbitraryResponse } from './arbitrary-response.ts';
import { get, run } from './exchange-log.ts';
import { onRequests, type RawBackend, startRawBackend } from './raw-backend.ts';

const runs = Number(process.env['WARMLANE_FUZZ_RUNS'] ?? 250);
const seed = Number(process.env['WARMLANE_FUZZ_SEED'] ?? Date.now() % 2 ** 31);

interface Reading {
  /** The response was whole in this client's eyes. */
  readonly whole: boolean;
  readonly status: number | undefined;
  /** Names in lower case, values without blanks around them. */
  readonly fields: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
}

let server: RawBackend;
let own: UpstreamClient;
let undici: UpstreamClient;
let serving: { readonly bytes: Buffer; readonly pieces: number } = { bytes: Buffer.alloc(0), pieces: 1 };

beforeAll(async () => {
  server = await startRawBackend((socket) => onRequests(socket, () => void send(socket)));
  own = createH1Client(upstreamDefaults, { clock: systemClock });
  undici = createUndiciClient();
  console.log(`differential test: seed ${seed}, ${runs} runs`);
});

afterAll(async () => {
  own.close();
  undici.close();
  await server.close();
});

/** One piece or a few, each in a turn of its own, then FIN. */
async function send(socket: { write(bytes: Buffer): boolean; end(): unknown; destroyed: boolean }): Promise<void> {
  const { bytes, pieces } = serving;
  const size = Math.max(1, Math.ceil(bytes.length / pieces));
  for (let at = 0; at < bytes.length && !socket.destroyed; at += size) {
    if (at > 0) await new Promise((resolve) => void setImmediate(resolve));
    socket.write(bytes.subarray(at, at + size));
  }
  socket.end();
}

function normal(raw: readonly string[]): string[] {
  return raw.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text.replace(/^[ \t]+|[ \t]+$/g, '')));
}

async function readBy(client: UpstreamClient, method: string): Promise<Reading> {
  const log = await run(client, server.target, get('/', { method, fresh: true, headers: [] }));
  expect(log.broken).toEqual([]);
  return {
    whole: log.fault === undefined,
    status: log.head?.status,
    fields: normal(log.head?.rawHeaders ?? []),
    body: Buffer.concat(log.reads).toString('latin1'),
    trailers: normal(log.trailers ?? []),
  };
}

function readByNode(method: string): Promise<Reading> {
  return new Promise((resolve) => {
    const refused = { whole: false, status: undefined, fields: [], body: '', trailers: [] };
    let answered = false;
    const request = http.request({ port: server.port, host: '127.0.0.1', method, agent: false }, (response) => {
      answered = true;
      const body: Buffer[] = [];
      response.on('data', (bytes: Buffer) => void body.push(bytes));
      response.on('error', () => {});
      response.on('close', () =>
        resolve({
          whole: response.complete,
          status: response.statusCode,
          fields: normal(response.rawHeaders),
          body: Buffer.concat(body).toString('latin1'),
          trailers: normal(response.rawTrailers),
        }),
      );
    });
    request.on('upgrade', (_, socket) => {
      socket.destroy();
      resolve(refused);
    });
    // Bytes behind a whole response are an error of the request, but not of the response.
    request.on('error', () => (answered ? undefined : resolve(refused)));
    request.end();
  });
}

async function readByAll(bytes: Buffer, method: string, pieces: number) {
  serving = { bytes, pieces };
  const [ours, theirs, nodes] = await Promise.all([readBy(own, method), readBy(undici, method), readByNode(method)]);
  return { ours, theirs, nodes };
}

describe('the own client beside undici and Node', () => {
  it('reads every valid response as they do', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryResponse({ interim: true }), fc.integer({ min: 1, max: 3 }), async (made, pieces) => {
        const { ours, theirs, nodes } = await readByAll(made.bytes, made.method, pieces);
        expect(ours).toEqual({
          whole: true,
          status: made.status,
          fields: normal(made.headers),
          body: made.body.toString('latin1'),
          trailers: normal(made.trailers),
        });
        expect(nodes).toEqual(ours);
        expect(theirs).toEqual(ours);
      }),
      { numRuns: runs, seed },
    );
  }, 600_000);

  it('takes no broken response that both of them refuse, and none for another than they do', async () => {
    let wholes = 0;
    let stricter = 0;
    await fc.assert(
      fc.asyncProperty(arbitraryBrokenResponse(), fc.integer({ min: 1, max: 3 }), async ({ bytes, method }, pieces) => {
        const { ours, theirs, nodes } = await readByAll(bytes, method, pieces);
        const others = [theirs, nodes].filter(({ whole }) => whole);
        for (const other of others) {
          if (ours.whole) expect(ours).toEqual(other);
          else expect(other.body.startsWith(ours.body)).toBe(true);
        }
        if (ours.whole) {
          wholes += 1;
          expect(others.length).toBeGreaterThan(0);
        } else if (others.length > 0) stricter += 1;
      }),
      { numRuns: runs * 2, seed },
    );
    console.log(
      `differential test: of ${runs * 2} broken responses ${wholes} were whole, ${stricter} only to the others`,
    );
    // Some mutations leave a valid response: without them nothing would have been compared.
    expect(wholes).toBeGreaterThan(runs / 20);
  }, 600_000);
});
