/** Routes of the data listener: its own health answers; everything else goes to the pipeline. */
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import type { IncomingMessage, ServerResponse } from 'node:http';

export interface DataAppDeps {
  readonly front: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
  /** Why this instance should get no new traffic; undefined: it may. */
  readonly notReady: () => string | undefined;
}

/** None of these ever calls a model. */
export function createDataApp(deps: DataAppDeps): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>();
  app.get('/livez', (c) => c.json({ status: 'ok' }));
  const ready = () => {
    const reason = deps.notReady();
    return reason === undefined
      ? Response.json({ status: 'ok' })
      : Response.json({ status: 'unavailable', reason }, { status: 503 });
  };
  app.get('/readyz', ready);
  app.get('/health', ready);
  app.all('*', (c) => {
    deps.front(c.env.incoming, c.env.outgoing as ServerResponse);
    return RESPONSE_ALREADY_SENT;
  });
  return app;
}
