/**
 * OpenAI's Files and Batch API: which route a request is, and what a failing store means for its client. The handlers do the
 * rest; `http/` mounts them, after it has asked whose request it is.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { OwnRoutes, RouteReply, RouteRequest } from '../../platform/own-route.ts';
import type { BatchSettings } from '../settings.ts';
import type { Shelf } from '../shelf/port.ts';
import { type BatchStore, StoreError } from '../store/port.ts';
import { createBatchRoutes } from './batch-routes.ts';
import { badRequest, type Fault, faultReply, isFault, notFound, storeFault } from './fault.ts';
import { createFileRoutes } from './file-routes.ts';
import { createUpload } from './upload-file.ts';

export interface BatchApiDeps {
  readonly store: BatchStore;
  readonly shelf: Shelf;
  readonly clock: Pick<Clock, 'wallMs'>;
  readonly log: Log;
  /** A batch was created, or is to be cancelled. */
  readonly changed: () => void;
}

type Handler = (request: RouteRequest, id: string) => Promise<RouteReply | Fault>;

interface Route {
  readonly path: RegExp;
  readonly methods: Readonly<Record<string, Handler>>;
}

const ownPath = /^\/v1\/(?:files|batches)(?:\/|$)/;

export function createBatchApi(settings: BatchSettings, deps: BatchApiDeps): OwnRoutes {
  const files = createFileRoutes(deps);
  const batches = createBatchRoutes(settings, deps);
  const upload = createUpload(settings, deps);
  const routes: readonly Route[] = [
    { path: /^\/v1\/files\/?$/, methods: { GET: files.list, POST: upload } },
    { path: /^\/v1\/files\/([^/]+)$/, methods: { GET: files.get, DELETE: files.remove } },
    { path: /^\/v1\/files\/([^/]+)\/content$/, methods: { GET: files.content } },
    { path: /^\/v1\/batches\/?$/, methods: { GET: batches.list, POST: batches.create } },
    { path: /^\/v1\/batches\/([^/]+)$/, methods: { GET: batches.get } },
    { path: /^\/v1\/batches\/([^/]+)\/cancel$/, methods: { POST: batches.cancel } },
  ];

  async function handle(request: RouteRequest): Promise<RouteReply | Fault> {
    for (const { path, methods } of routes) {
      const found = path.exec(request.path);
      if (found === null) continue;
      const handler = methods[request.method === 'HEAD' ? 'GET' : request.method];
      return handler === undefined ? wrongMethod(request.method, methods) : handler(request, found[1] ?? '');
    }
    return notFound(`There is no route ${request.path.slice(0, 200)}.`, 'path');
  }

  return {
    takes: (_method, path) => ownPath.test(path),
    async answer(request) {
      try {
        const reply = await handle(request);
        return isFault(reply) ? faultReply(reply) : reply;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        deps.log.warn('the storage of files and batches failed on a request', {
          requestId: request.requestId,
          reason: error.fault,
          error: error.message,
        });
        return faultReply(storeFault(error));
      }
    },
  };
}

function wrongMethod(method: string, methods: Route['methods']): Fault {
  const allow = Object.keys(methods).join(', ');
  const message = `This route takes no ${method.slice(0, 20)}, only ${allow}.`;
  return badRequest({ status: 405, message, code: 'method_not_allowed', headers: { Allow: allow } });
}
