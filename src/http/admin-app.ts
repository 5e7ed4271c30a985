/** Routes of the admin listener: what runs, what ran, what is known of the backends, as JSON. Loopback by default. */
import { Hono } from 'hono';
import type { FleetSnapshot } from '../domain/fleet.ts';
import type { RequestRecord } from '../domain/record.ts';
import type { Pipeline } from '../pipeline.ts';

export interface AdminDeps {
  readonly pipeline: Pipeline;
  readonly fleet: () => FleetSnapshot;
  readonly load: (backend: string) => { readonly jobs: number; readonly slots: number };
  readonly waiting: () => number;
  /** Newest first. */
  readonly records: () => readonly RequestRecord[];
  readonly status: () => Readonly<Record<string, string | number>>;
}

export function createAdminApp(deps: AdminDeps): Hono {
  const app = new Hono();
  app.get('/', (c) =>
    c.json({
      '/healthz': 'is the process well',
      '/running': 'requests under way',
      '/records?limit=100': 'finished requests, newest first',
      '/records/{request id}': 'one finished request',
      '/backends': 'what is known of the backends, and their load',
    }),
  );
  app.get('/healthz', (c) => c.json({ status: 'ok', ...deps.status() }));
  app.get('/running', (c) => c.json({ waiting: deps.waiting(), running: deps.pipeline.running() }));
  app.get('/backends', (c) =>
    c.json({ backends: deps.fleet().backends.map((backend) => ({ ...backend, load: deps.load(backend.name) })) }),
  );
  app.get('/records', (c) => {
    const limit = c.req.query('limit') ?? '1000';
    if (!/^\d{1,6}$/.test(limit)) return c.json({ error: { message: 'limit must be a whole number', param: 'limit' } }, 400);
    return new Response(recordsJson(deps.records().slice(0, Number(limit))), {
      headers: { 'Content-Type': 'application/json; charset=utf-8' },
    });
  });
  app.get('/records/:id', (c) => {
    const record = deps.records().find((each) => each.requestId === c.req.param('id'));
    if (record === undefined) return c.json({ error: { message: 'No record of this request is kept (any more).' } }, 404);
    return new Response(recordJson(record), { headers: { 'Content-Type': 'application/json; charset=utf-8' } });
  });
  app.notFound((c) => c.json({ error: { message: `No such page. See ${new URL('/', c.req.url).href}` } }, 404));
  return app;
}

/** Record by record, so that a long list never holds up the streams. */
function recordsJson(records: readonly RequestRecord[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let at = 0;
  return new ReadableStream({
    start: (controller) => controller.enqueue(encoder.encode('{"records":[')),
    pull(controller) {
      const record = records[at];
      if (record === undefined) {
        controller.enqueue(encoder.encode(']}\n'));
        controller.close();
        return;
      }
      controller.enqueue(encoder.encode((at > 0 ? ',\n' : '\n') + recordJson(record)));
      at += 1;
    },
  });
}

function recordJson(record: RequestRecord): string {
  return JSON.stringify(record, (_key, value: unknown) =>
    ArrayBuffer.isView(value) ? Array.from(value as Float64Array) : value,
  );
}
