/**
 * The admin listener's routes that change the fleet: a backend added, taken out, drained and taken back. What they do is
 * somebody else's; here is who may ask, in what form, and what is answered.
 * A browser that shows another site's page must not be used for it: it says in `Sec-Fetch-Site` or `Origin` whose page
 * asks, and can't send JSON elsewhere without asking first, which is never allowed here. A page whose own name resolves to
 * this listener (DNS rebinding) says that it is of this site: none may change anything under a name that could be such.
 */
import type { Context, Hono } from 'hono';
import { adminJson, jsonHeaders } from './admin-json.ts';

export type BackendChange =
  | { readonly ok: true; readonly name: string }
  | {
      readonly ok: false;
      /** 400: what was sent is wrong; 404: no such backend; 409: it can't be done beside what is there */
      readonly status: 400 | 404 | 409;
      readonly message: string;
      readonly param?: string;
    };

export interface BackendsControl {
  /** @param value parsed JSON, unchecked */
  add(value: unknown): BackendChange;
  remove(name: string): BackendChange;
  drain(name: string, drain: boolean): BackendChange;
}

export const backendsIndex = {
  'POST /backends': 'add a backend: a JSON object as in the config under backends; until the restart',
  'DELETE /backends/{name}': 'take one out: no new work, what runs there ends well; until the restart',
  'POST /backends/{name}/drain': 'no new work there, it stays in the list; /undrain ends that',
} as const;

const maxBodyBytes = 64 * 1024;

export interface BackendsRoutes {
  /** What `/backends` says of one of them now. */
  readonly shown: (name: string) => object | undefined;
  /** Why nobody may change anything; undefined: who reaches the listener may. */
  readonly closed: () => string | undefined;
  /** A page under this Host is no stranger's; see `host-guard.ts`. */
  readonly isFixedHost: (host: string | undefined) => boolean;
}

/** Before any route for reading the same paths. */
export function mountBackends(app: Hono, control: BackendsControl, routes: BackendsRoutes): void {
  const { shown, closed, isFixedHost } = routes;
  const changed = (change: BackendChange, status: 200 | 201) => {
    if (!change.ok) {
      const { message, param } = change;
      return json({ error: { message, ...(param === undefined ? {} : { param }) } }, change.status);
    }
    return json({ name: change.name, backend: shown(change.name) }, status);
  };
  const guarded = (answer: (c: Context) => Response | Promise<Response>) => async (c: Context) =>
    off(closed()) ?? foreign(c, isFixedHost) ?? (await answer(c));
  app.post(
    '/backends',
    guarded(async (c) => {
      const body = await bodyOf(c);
      return 'refused' in body ? body.refused : changed(control.add(body.value), 201);
    }),
  );
  app.delete(
    '/backends/:name',
    guarded((c) => changed(control.remove(c.req.param('name') ?? ''), 200)),
  );
  for (const [verb, drain] of [['drain', true] as const, ['undrain', false] as const])
    app.post(
      `/backends/:name/${verb}`,
      guarded((c) => changed(control.drain(c.req.param('name') ?? '', drain), 200)),
    );
}

function off(why: string | undefined): Response | undefined {
  return why === undefined ? undefined : failure(why, 403);
}

function foreign(c: Context, isFixedHost: BackendsRoutes['isFixedHost']): Response | undefined {
  const site = c.req.header('sec-fetch-site');
  const origin = c.req.header('origin');
  const host = c.req.header('host');
  if (site === undefined && origin === undefined) return undefined;
  const isOwn = origin === undefined || hostOf(origin) === host;
  const isSame = site === undefined || site === 'same-origin' || site === 'none';
  if (isOwn && isSame && isFixedHost(host)) return undefined;
  return failure('A page of another site may not change anything here.', 403);
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

async function bodyOf(c: Context): Promise<{ readonly value: unknown } | { readonly refused: Response }> {
  const type = c.req.header('content-type')?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') return { refused: failure('Send JSON, with Content-Type: application/json.', 415) };
  const text = await textOf(c.req.raw.body);
  if (text === undefined) return { refused: failure('The body is longer than 64 KiB.', 413) };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { refused: failure('The body is no JSON.', 400) };
  }
}

/** @returns undefined when it is too long */
async function textOf(body: ReadableStream<Uint8Array> | null): Promise<string | undefined> {
  if (body === null) return '';
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > maxBodyBytes) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function failure(message: string, status: number): Response {
  return json({ error: { message } }, status);
}

function json(value: object, status: number): Response {
  return new Response(adminJson(value), { status, headers: jsonHeaders });
}
