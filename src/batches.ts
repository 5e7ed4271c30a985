/**
 * Files and batches as a whole: where they are kept, the API's routes, the runner, and the way of its lines to the backends. Loaded
 * only where batches are on; `app.ts` opens it before the listeners, starts it after them and stops it first.
 */
import { randomUUID } from 'node:crypto';
import { type BatchFeedSettings, createBatchFeed } from './batch-feed.ts';
import { batchesPage } from './batch/run/batches-page.ts';
import { createRunner, type Runner } from './batch/run/runner.ts';
import type { PromptKeys } from './batch/input/prompt-keys.ts';
import { createBatchApi } from './batch/routes/own-routes.ts';
import type { BatchSettings, BatchStoreSettings } from './batch/settings.ts';
import { createBatchStore } from './batch/store/create-batch-store.ts';
import type { BatchFigures } from './domain/batch-figures.ts';
import type { Pipeline } from './pipeline.ts';
import type { Clock } from './platform/clock.ts';
import type { Log } from './platform/log.ts';
import type { OwnRoutes } from './platform/own-route.ts';

export interface Batches {
  readonly routes: OwnRoutes;
  readonly page: BatchesAdminPage;
  figures(): BatchFigures;
  /** Lines go from now on. */
  start(): void;
  /** No more lines go; what is under way gets so long, then all batches are given back. Idempotent; a failure is logged. */
  stop(graceMs: number): Promise<void>;
  /** After which the routes can't be used any more; stops first where nobody did. Idempotent; a failure is logged. */
  close(): Promise<void>;
}

/** A page of the admin listener. */
export interface BatchesAdminPage {
  readonly path: string;
  readonly about: string;
  readonly params: readonly string[];
  answer(query: URLSearchParams): Promise<PageAnswer>;
}

type PageAnswer =
  | { readonly kind: 'json'; readonly value: object }
  | { readonly kind: 'wrong'; readonly message: string; readonly param: string };

export interface BatchesDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Asked when a line is sent. */
  readonly pipeline: () => Pick<Pipeline, 'serve'>;
  /** How often a line may be taken back for online work. */
  readonly maxReclaims: () => number;
  /** Tells which prompts begin alike; absent: their raw text does. */
  readonly prompts?: PromptKeys;
}

const mostShown = 100;

/** @throws StoreError when the storage can't be opened */
export async function openBatches(
  settings: BatchSettings,
  storage: BatchStoreSettings,
  deps: BatchesDeps,
): Promise<Batches> {
  const { clock, log } = deps;
  const { store, shelf } = await createBatchStore(storage, { clock, log });
  const feed: BatchFeedSettings = {
    maxAnswerBytes: settings.maxAnswerBytes,
    get maxReclaims() {
      return deps.maxReclaims();
    },
  };
  const sender = createBatchFeed(feed, deps);
  let runner: Runner | undefined;
  let stopped: Promise<void> | undefined;
  let closed: Promise<void> | undefined;

  function stop(graceMs: number): Promise<void> {
    stopped ??= (runner?.stop(graceMs) ?? Promise.resolve()).catch(failed('batches could not be given back'));
    return stopped;
  }

  /** Nobody waits for the end of what stops: a rejection would end the process, with streams that are to be let finish. */
  function failed(msg: string): (error: unknown) => void {
    return (error) => log.error(msg, { error: error instanceof Error ? error.message : String(error) });
  }

  return {
    routes: createBatchApi(settings, { store, shelf, clock, log, changed: () => runner?.wake() }),
    page: {
      path: '/batches',
      about: `batches of all tenants, newest first, and how those under way come along; ?open=true &limit=1–${mostShown}`,
      params: ['limit', 'open'],
      async answer(query) {
        const limit = query.get('limit') ?? '20';
        if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > mostShown)
          return { kind: 'wrong', param: 'limit', message: `limit must be a whole number from 1 to ${mostShown}` };
        const open = query.get('open');
        if (open !== null && open !== 'true' && open !== 'false')
          return { kind: 'wrong', param: 'open', message: 'open must be true or false' };
        const page = {
          limit: Number(limit),
          order: 'desc' as const,
          ...(open === null ? {} : { open: open === 'true' }),
        };
        const { batches, hasMore } = (await store.batches(undefined, page)) ?? { batches: [], hasMore: false };
        const nowSeconds = Math.floor(clock.wallMs() / 1000);
        const value = batchesPage({ batches, hasMore, progress: runner?.progress() ?? [], nowSeconds });
        return { kind: 'json', value };
      },
    },
    figures: () => figuresOf(runner, clock),
    start() {
      const prompts = deps.prompts === undefined ? {} : { prompts: deps.prompts };
      const parts = { store, shelf, sender, clock, log, random: Math.random, ...prompts };
      runner ??= createRunner(settings, { ...parts, owner: randomUUID() });
    },
    stop,
    close() {
      closed ??= stop(0)
        .then(() => store.close())
        .catch(failed('the storage of batches could not be closed'));
      return closed;
    },
  };
}

const nothing = { completed: 0, failed: 0, expired: 0, cancelled: 0 };

function figuresOf(runner: Runner | undefined, clock: Clock): BatchFigures {
  if (runner === undefined) return { results: nothing, retries: 0, reclaimed: 0, inFlight: 0, backingOff: 0 };
  const { counts, inFlight, backingOff, store } = runner.figures();
  const { results, retries, reclaimed } = counts;
  if (store === undefined) return { results, retries, reclaimed, inFlight, backingOff };
  const { pendingLines, oldestAt, bytes } = store;
  return {
    results,
    retries,
    reclaimed,
    inFlight,
    backingOff,
    store: {
      openBatches: store.openBatches,
      pendingLines,
      ...(oldestAt === undefined ? {} : { oldestSeconds: Math.max(0, clock.wallMs() / 1000 - oldestAt) }),
      ...(bytes === undefined ? {} : { bytes }),
    },
  };
}
