/** Routes of the data listener that are warmlane's own: its health answers. Everything else goes to the pipeline. */
import { Hono } from 'hono';
import { allowedOrigin, type CorsSettings } from './cors.ts';

export interface DataAppDeps {
  /** Why this instance should get no new traffic; undefined: it may. */
  readonly notReady: () => string | undefined;
  readonly cors: CorsSettings;
}

const ownPaths: ReadonlySet<string> = new Set(['/livez', '/readyz', '/health']);

/** @param head with an origin-form target */
export function isOwnPath({ method, target }: { readonly method: string; readonly target: string }): boolean {
  return (method === 'GET' || method === 'HEAD') && ownPaths.has(target.split('?', 1)[0] ?? '');
}

/** None of these ever calls a model. */
export function createDataApp(deps: DataAppDeps): Hono {
  const app = new Hono();
  app.use(async (c, next) => {
    await next();
    const origin = allowedOrigin(deps.cors, c.req.header('origin'));
    if (origin !== undefined) c.res.headers.set('Access-Control-Allow-Origin', origin);
  });
  app.get('/livez', (c) => c.json({ status: 'ok' }));
  const ready = () => {
    const reason = deps.notReady();
    return reason === undefined
      ? Response.json({ status: 'ok' })
      : Response.json({ status: 'unavailable', reason }, { status: 503 });
  };
  app.get('/readyz', ready);
  app.get('/health', ready);
  return app;
}
