/** Routes of the admin listener: what runs, what ran, what is known of the backends, as JSON. Loopback by default. */
import { Hono, type Context } from 'hono';
import type { FleetSnapshot } from '../domain/fleet.ts';
import type { RequestRecord } from '../domain/record.ts';
import type { RunningView } from '../domain/running-view.ts';
import { type AdminAnswer, type AdminPage, wrongQuery } from './admin-page.ts';
import { adminJson, jsonHeaders, longJson, recordJson, recordsJson, streamOf } from './admin-json.ts';
import { backendsIndex, type BackendsControl, mountBackends } from './admin-backends.ts';
import { isFixedHost, isLoopback, mayName, type ListeningOn } from './host-guard.ts';
import type { HttpSettings } from './settings.ts';

export interface AdminDeps {
  /** Takes in what has ended and was not looked at yet. */
  readonly settle: () => void;
  /** Requests and open tunnels. */
  readonly running: () => readonly RunningView[];
  readonly fleet: () => FleetSnapshot;
  readonly load: (backend: string) => { readonly jobs: number; readonly slots: number };
  readonly waiting: () => number;
  /** Newest first. */
  readonly records: () => readonly RequestRecord[];
  readonly status: () => Readonly<Record<string, string | number>>;
  readonly pages: readonly AdminPage[];
  /** Changes who is in the fleet; absent: nothing can. */
  readonly control?: BackendsControl;
  /** As `HttpSettings.adminChanges`; `loopback` unless given. */
  readonly changes?: HttpSettings['adminChanges'];
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Asked at each request: the address is known once the listener is open. */
  readonly listeningOn: () => ListeningOn;
}

const index = {
  '/healthz': 'is the process well',
  '/running': 'requests under way, and open WebSockets (phase tunnel)',
  '/records?limit=100':
    'finished requests, newest first; moments (timeline, stamps, stalls) are monotonic ms of this process, no wall clock: ' +
    'only their differences mean something',
  '/records/{request id}': 'one finished request',
  '/backends':
    'what is known of the backends, and their load; healthAgeMs: for how long health has been what it is; backAgeMs: since it came or came back',
};

export function createAdminApp(deps: AdminDeps): Hono {
  const app = new Hono();
  app.use(async (c, next) => {
    const on = deps.listeningOn();
    if (mayName(c.req.header('host'), on)) {
      deps.settle();
      return next();
    }
    const message =
      `The admin listener is on loopback and answers only to a Host of this machine (localhost, 127.0.0.1, [::1], ${on.host}). ` +
      'Ask it by one of these, or have it listen on another address (--admin-listen).';
    return json(failure(message), 403);
  });
  page(app, '/', () => {
    const changes = deps.control === undefined ? {} : backendsIndex;
    const all = {
      ...index,
      ...changes,
      ...Object.fromEntries(deps.pages.map(({ path, of, about }) => [shownPath(path, of), about])),
    };
    return json(all);
  });
  for (const { path, of, params, answer } of deps.pages)
    page(app, of === undefined ? path : `${path}/:of`, async (c) => {
      const query = queryOf(c);
      return answered(wrongQuery(query, params) ?? (await answer(query, c.req.param('of') ?? '')));
    });
  if (deps.control !== undefined)
    mountBackends(app, deps.control, {
      shown: (name) => backendsOf(deps).find((backend) => backend.name === name),
      closed: () => mayNotChange(deps),
      isFixedHost: (host) => isFixedHost(host, deps.listeningOn()),
    });
  page(app, '/healthz', () => json({ status: 'ok', ...deps.status() }));
  const asked = (c: Context, params: readonly string[], answer: () => Response) => {
    const wrong = wrongQuery(queryOf(c), params);
    return wrong === undefined ? answer() : answered(wrong);
  };
  page(app, '/running', (c) => asked(c, [], () => json({ waiting: deps.waiting(), running: deps.running() })));
  page(app, '/backends', (c) => asked(c, [], () => json({ backends: backendsOf(deps) })), {
    alsoTakes: deps.control === undefined ? [] : ['POST'],
  });
  page(app, '/records', (c) =>
    asked(c, ['limit'], () => {
      const limit = c.req.query('limit') ?? '1000';
      if (!/^\d{1,6}$/.test(limit)) return json(failure('limit must be a whole number', 'limit'), 400);
      return new Response(streamOf(recordsJson(deps.records().slice(0, Number(limit)))), { headers: jsonHeaders });
    }),
  );
  page(app, '/records/:id', (c) => {
    const record = deps.records().find((each) => each.requestId === c.req.param('id'));
    if (record === undefined)
      return json(
        failure(
          'No record of this request is kept: it is under way (see /running), came before the last start, or newer ones took its place.',
        ),
        404,
      );
    return new Response(streamOf(recordJson(record)), { headers: jsonHeaders });
  });
  app.notFound((c) => json(notHere(new URL(c.req.url), deps.listeningOn().clientPort), 404));
  return app;
}

function shownPath(path: string, of: string | undefined): string {
  return of === undefined ? path : `${path}/{${of}}`;
}

/** @returns why nobody may change anything here */
function mayNotChange({ changes = 'loopback', listeningOn }: AdminDeps): string | undefined {
  if (changes === 'never') return 'Changes are off here (admin.changes).';
  if (changes === 'always' || isLoopback(listeningOn().address)) return undefined;
  return 'Whoever reaches this address could change the fleet. To allow it, set admin.changes: always.';
}

/** A page can be read, and nothing else but what is mounted before it (`alsoTakes`). */
function page(
  app: Hono,
  path: string,
  answer: (c: Context) => Response | Promise<Response>,
  { alsoTakes }: { readonly alsoTakes: readonly string[] } = { alsoTakes: [] },
): void {
  const takes = ['GET', 'HEAD', ...alsoTakes].join(', ');
  const why = alsoTakes.length === 0 ? 'This page can only be read: use GET.' : `This page takes ${takes}.`;
  app.get(path, answer);
  app.all(path, () => {
    const refused = json(failure(why), 405);
    refused.headers.set('Allow', takes);
    return refused;
  });
}

function queryOf(c: Context): URLSearchParams {
  return new URL(c.req.url).searchParams;
}

function answered(answer: AdminAnswer): Response {
  switch (answer.kind) {
    case 'json':
      return json(answer.value);
    case 'long':
      return new Response(streamOf(longJson(answer.value)), { headers: jsonHeaders });
    case 'text':
      return new Response(answer.text, { headers: { 'Content-Type': answer.contentType } });
    case 'missing':
      return json(answer.code === undefined ? failure(answer.message) : wholeFailure(answer.message, answer.code), 404);
    case 'wrong':
      return json(failure(answer.message, answer.param), 400);
  }
}

/** The moment of the last change means nothing outside this process: its age does. Of load, what counts, and no tie-breaker. */
function backendsOf({ fleet, load, nowMs }: AdminDeps) {
  return fleet().backends.map(({ healthSinceMs, backSinceMs, ...backend }) => {
    const { jobs, slots } = load(backend.name);
    const back = backSinceMs === undefined ? {} : { backAgeMs: nowMs() - backSinceMs };
    return { ...backend, healthAgeMs: nowMs() - healthSinceMs, ...back, load: { jobs, slots } };
  });
}

function failure(message: string, param?: string) {
  return { error: { message, ...(param === undefined ? {} : { param }) } };
}

/** As OpenAI's clients read it. */
function wholeFailure(message: string, code: string) {
  return { error: { message, type: 'invalid_request_error', param: null, code } };
}

/** Requests of clients are told where they belong: both ports answer HTTP, and are easily mistaken. */
function notHere(url: URL, clientPort: number | undefined) {
  if (clientPort !== undefined && url.pathname.startsWith('/v1/')) {
    const message = `This is warmlane's admin port (${url.port}). Clients are served on port ${clientPort} of the same machine.`;
    return wholeFailure(message, 'admin_port');
  }
  return failure(`No such page. See ${new URL('/', url).href}`);
}

function json(value: object, status = 200): Response {
  return new Response(adminJson(value), { status, headers: jsonHeaders });
}
