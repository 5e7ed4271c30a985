/**
 * The Files and Batch API behind a real listener, on a real SQLite store and a folder of its own, without backends and without a
 * runner: what a client may be told. The key says whose request it is: `Bearer anna` is anna's; none is nobody's.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBatchApi } from '../../src/batch/routes/own-routes.ts';
import type { BatchSettings } from '../../src/batch/settings.ts';
import type { Shelf } from '../../src/batch/shelf/port.ts';
import { createBatchStore } from '../../src/batch/store/create-batch-store.ts';
import type { BatchStore } from '../../src/batch/store/port.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Refusal } from '../../src/domain/refusal.ts';
import { createDataApp } from '../../src/http/data-app.ts';
import { createFront } from '../../src/http/front.ts';
import { openListener } from '../../src/http/listener.ts';
import { createOwnServer, type OwnServer, type OwnServerDeps } from '../../src/http/own-server.ts';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import { createLog } from '../../src/platform/log.ts';

export interface BatchApi {
  readonly url: string;
  readonly port: number;
  readonly store: BatchStore;
  readonly shelf: Shelf;
  readonly server: OwnServer;
  /** Names in the folder where the files' bytes are, whole or not. */
  onShelf(): readonly string[];
  readonly logged: readonly Record<string, unknown>[];
  /** Times that the runner would have been woken. */
  readonly changes: () => number;
  /** Refuses requests that begin from now on. */
  closeWith(refusal: Refusal): void;
  close(): Promise<void>;
}

export interface BatchApiOptions {
  readonly settings?: Partial<BatchSettings>;
  readonly clock?: Pick<Clock, 'wallMs'>;
  readonly origins?: readonly string[];
  readonly stallMs?: number;
  /** Who may have one more request at one time; everybody unless given. */
  readonly claim?: OwnServerDeps['claim'];
  /** Puts something between the API and its store or shelf. */
  readonly store?: (real: BatchStore) => BatchStore;
  readonly shelf?: (real: Shelf) => Shelf;
}

export function batchDefaults(): BatchSettings {
  const loaded = loadConfig({ env: {}, flags: {} });
  if (!loaded.ok) throw new Error('the defaults must load');
  return loaded.config.batch;
}

export async function startBatchApi(options: BatchApiOptions = {}): Promise<BatchApi> {
  const directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-api-'));
  const logged: Record<string, unknown>[] = [];
  const log = createLog(
    { level: 'debug', format: 'json' },
    (line) => void logged.push(JSON.parse(line) as Record<string, unknown>),
  );
  const real = await createBatchStore({ kind: 'sqlite', directory }, { clock: systemClock, log });
  const store = options.store?.(real.store) ?? real.store;
  const shelf = options.shelf?.(real.shelf) ?? real.shelf;
  let changes = 0;
  let closing: Refusal | undefined;
  const cors = { origins: options.origins ?? [] };
  const server = createOwnServer({
    routes: createBatchApi(
      { ...batchDefaults(), ...options.settings },
      { store, shelf, clock: options.clock ?? systemClock, log, changed: () => (changes += 1) },
    ),
    caller(head) {
      const [, tenant] = /^Bearer ([a-z]+)$/.exec(head.header('authorization') ?? '') ?? [];
      return tenant === undefined ? noKey : { tenant };
    },
    claim: options.claim ?? (() => ({ ended() {} })),
    closing: () => closing,
    clock: systemClock,
    log,
    cors,
    stallMs: () => options.stallMs ?? 0,
  });
  let ids = 0;
  const listener = await openListener(createDataApp({ notReady: () => undefined, cors }), {
    listen: { host: '127.0.0.1', port: 0 },
    requestHeadMs: 10_000,
    requestMs: 0,
    halfClose: 'abort',
    take: createFront({
      pipeline: {
        serve: (_head, _upload, client) => {
          client.head(299, 'To The Backends', [], { kind: 'length', bytes: 0 });
          client.end();
        },
      },
      clock: systemClock,
      makeId: () => `made-${(ids += 1)}`,
      clientStallMs: 0,
      cors,
      own: server,
    }),
  });
  return {
    url: `http://127.0.0.1:${listener.port}`,
    port: listener.port,
    store,
    shelf,
    server,
    onShelf: () => readdirSync(join(directory, 'files')),
    logged,
    changes: () => changes,
    closeWith: (refusal) => void (closing = refusal),
    async close() {
      listener.destroy();
      await listener.close();
      await server.idle();
      await real.store.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const noKey: Refusal = {
  refused: true,
  code: 'invalid_api_key',
  status: 401,
  type: 'invalid_request_error',
  message: 'No key.',
  headers: ['WWW-Authenticate', 'Bearer'],
  spokenBy: 'warmlane',
  outcome: 'client_error',
};

export interface FormPart {
  readonly name: string;
  readonly filename?: string;
  readonly value: string | Buffer;
}

export const boundary = 'a-boundary-of-tests';
export const formType = `multipart/form-data; boundary=${boundary}`;

/** A form's body, part by part in this order. */
export function formBody(parts: readonly FormPart[], { closed = true } = {}): Buffer {
  const pieces = parts.flatMap(({ name, filename, value }) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n` +
        `${filename === undefined ? '' : 'Content-Type: application/octet-stream\r\n'}\r\n`,
    ),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat(closed ? [...pieces, Buffer.from(`--${boundary}--\r\n`)] : pieces);
}

export const purposeOf = (value = 'batch'): FormPart => ({ name: 'purpose', value });
export const fileOf = (value: string | Buffer, filename = 'in.jsonl'): FormPart => ({ name: 'file', filename, value });

export interface JsonAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Readonly<Record<string, unknown>> & {
    readonly error?: {
      readonly code: string;
      readonly param: string | null;
      readonly message: string;
      readonly type: string;
    };
  };
}

export async function askApi(
  api: { readonly url: string },
  path: string,
  init: RequestInit = {},
  tenant = 'anna',
): Promise<JsonAnswer> {
  const answer = await fetch(`${api.url}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${tenant}`, ...(init.headers as Record<string, string> | undefined) },
  });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    json: JSON.parse(text === '' ? '{}' : text) as JsonAnswer['json'],
  };
}

export function uploadParts(
  api: { readonly url: string },
  parts: readonly FormPart[],
  tenant = 'anna',
): Promise<JsonAnswer> {
  return askApi(
    api,
    '/v1/files',
    { method: 'POST', headers: { 'content-type': formType }, body: formBody(parts) },
    tenant,
  );
}

/** @returns the file's id */
export async function uploadText(
  api: { readonly url: string },
  text: string,
  { purpose = 'batch', tenant = 'anna' } = {},
): Promise<string> {
  const { json } = await uploadParts(api, [purposeOf(purpose), fileOf(text)], tenant);
  return String(json['id']);
}

export function createBatch(api: { readonly url: string }, body: object, tenant = 'anna'): Promise<JsonAnswer> {
  return askApi(api, '/v1/batches', { method: 'POST', body: JSON.stringify(body) }, tenant);
}
