/** `/v1/batches`: create, get, list, cancel. What becomes of a batch is the runner's; it is told that there is something to do. */
import type { Readable } from 'node:stream';
import type { Clock } from '../../platform/clock.ts';
import type { RouteReply, RouteRequest } from '../../platform/own-route.ts';
import { type BatchEndpoint, batchEndpoints, type StoredBatch } from '../batch.ts';
import { newBatchId } from '../new-id.ts';
import type { BatchSettings } from '../settings.ts';
import type { BatchStore } from '../store/port.ts';
import { badRequest, type Fault, isFault, jsonReply, noRetry, notFound, tooLarge } from './fault.ts';
import { findFile, noSuchFile } from './file-routes.ts';
import { batchObject, listObject } from './objects.ts';
import { expirySeconds, invalid, metadataOf, pageOf, textOf, unknownAfter, windowSeconds } from './parameters.ts';

export interface BatchRouteDeps {
  readonly store: Pick<BatchStore, 'file' | 'addBatch' | 'batch' | 'batches' | 'cancel'>;
  readonly clock: Pick<Clock, 'wallMs'>;
  /** A batch was created, or is to be cancelled: nobody need wait for the next look at the store. */
  readonly changed: () => void;
}

export interface BatchRoutes {
  create(request: RouteRequest): Promise<RouteReply | Fault>;
  list(request: RouteRequest): Promise<RouteReply | Fault>;
  get(request: RouteRequest, id: string): Promise<RouteReply | Fault>;
  cancel(request: RouteRequest, id: string): Promise<RouteReply | Fault>;
}

const pageLimits = { most: 100, fallback: 20 } as const;
/** Sixteen pairs of metadata in six-byte escapes have some 55 KB. */
const maxBodyBytes = 128 * 1024;

export function createBatchRoutes(settings: Pick<BatchSettings, 'maxOpenBatches'>, deps: BatchRouteDeps): BatchRoutes {
  const { store, clock, changed } = deps;
  /** Batches that are being entered now, of each tenant. */
  const entering = new Map<string, number>();

  async function isCrowded(tenant: string): Promise<boolean> {
    const limit = settings.maxOpenBatches;
    const open = await store.batches(tenant, { limit, order: 'desc', open: true });
    return (open?.batches.length ?? 0) + (entering.get(tenant) ?? 0) > limit;
  }

  async function enter(batch: StoredBatch): Promise<RouteReply | Fault> {
    const { tenant } = batch;
    entering.set(tenant, (entering.get(tenant) ?? 0) + 1);
    try {
      if (await isCrowded(tenant)) return tooMany(settings.maxOpenBatches);
      if ((await store.addBatch(batch)) === 'no_file') return noSuchFile(batch.inputFileId, 'input_file_id');
    } finally {
      const left = (entering.get(tenant) ?? 1) - 1;
      if (left === 0) entering.delete(tenant);
      else entering.set(tenant, left);
    }
    changed();
    return jsonReply(batchObject(batch));
  }

  return {
    async create(request) {
      const body = await readObject(request);
      if (isFault(body)) return body;
      const asked = readAsked(body);
      if (isFault(asked)) return asked;
      const file = await findFile(deps, request.tenant, asked.inputFileId);
      if (isFault(file)) return { ...file, param: 'input_file_id' };
      if (file.purpose !== 'batch')
        return invalid('input_file_id', `The file ${file.id} has the purpose '${file.purpose}'; it must be 'batch'.`);
      const createdAt = Math.floor(clock.wallMs() / 1000);
      const { windowSeconds: seconds, ...kept } = asked;
      return enter({
        ...kept,
        id: newBatchId(),
        tenant: request.tenant,
        status: 'validating',
        errors: [],
        createdAt,
        expiresAt: createdAt + seconds,
        counts: { total: 0, completed: 0, failed: 0 },
        usage: { inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 },
      });
    },
    async list({ tenant, query }) {
      const page = pageOf(query, pageLimits);
      if (isFault(page)) return page;
      const found = await store.batches(tenant, page);
      if (found === undefined) return unknownAfter();
      return jsonReply(listObject(found.batches, found.hasMore, batchObject));
    },
    async get({ tenant }, id) {
      const batch = isBatchId(id) ? await store.batch(tenant, id) : undefined;
      return batch === undefined ? noSuchBatch(id) : jsonReply(batchObject(batch));
    },
    async cancel({ tenant }, id) {
      const nowSeconds = Math.floor(clock.wallMs() / 1000);
      const batch = isBatchId(id) ? await store.cancel(tenant, id, nowSeconds) : undefined;
      if (batch === undefined) return noSuchBatch(id);
      if (batch.status === 'cancelling') changed();
      return jsonReply(batchObject(batch));
    },
  };
}

interface Asked {
  readonly inputFileId: string;
  readonly endpoint: BatchEndpoint;
  readonly completionWindow: string;
  readonly windowSeconds: number;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly outputExpiresSeconds?: number;
}

function readAsked(body: Readonly<Record<string, unknown>>): Asked | Fault {
  const inputFileId = textOf(body['input_file_id'], 'input_file_id');
  if (isFault(inputFileId)) return inputFileId;
  const endpoint = endpointOf(body['endpoint']);
  if (isFault(endpoint)) return endpoint;
  const completionWindow = textOf(body['completion_window'], 'completion_window');
  if (isFault(completionWindow)) return completionWindow;
  const seconds = windowSeconds(completionWindow);
  if (isFault(seconds)) return seconds;
  const metadata = metadataOf(body['metadata']);
  if (isFault(metadata)) return metadata;
  const outputExpiresSeconds = outputExpiry(body['output_expires_after']);
  if (isFault(outputExpiresSeconds)) return outputExpiresSeconds;
  return {
    inputFileId,
    endpoint,
    completionWindow,
    windowSeconds: seconds,
    ...(metadata === undefined ? {} : { metadata }),
    ...(outputExpiresSeconds === undefined ? {} : { outputExpiresSeconds }),
  };
}

function endpointOf(value: unknown): BatchEndpoint | Fault {
  const text = textOf(value, 'endpoint');
  if (isFault(text)) return text;
  const endpoint = batchEndpoints.find((known) => known === text);
  return (
    endpoint ??
    invalid('endpoint', `\`endpoint\` must be one of ${batchEndpoints.map((path) => `'${path}'`).join(', ')}.`)
  );
}

function outputExpiry(value: unknown): number | undefined | Fault {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) return invalid('output_expires_after', '`output_expires_after` must be an object.');
  return expirySeconds({ anchor: value['anchor'], seconds: value['seconds'] }, 'output_expires_after');
}

/** The request's body, which is small. */
async function readObject(request: RouteRequest): Promise<Readonly<Record<string, unknown>> | Fault> {
  if (request.bytes !== undefined && request.bytes > maxBodyBytes) return bodyTooLarge();
  request.proceed();
  const text = await readText(request.body);
  if (text === undefined) return bodyTooLarge();
  const message = 'The JSON body of the request can not be read; it must be one object.';
  const unreadable = badRequest({ message, code: 'invalid_json' });
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : unreadable;
  } catch {
    return unreadable;
  }
}

async function readText(body: Readable): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // What is left unread is dropped by whoever owns the stream.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBodyBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function bodyTooLarge(): Fault {
  return tooLarge(`The body is larger than ${maxBodyBytes} bytes.`, 'body_too_large', 'body');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isBatchId(id: string): boolean {
  return /^batch_[0-9A-Za-z_-]{1,64}$/.test(id);
}

function noSuchBatch(id: string): Fault {
  return notFound(`No batch found with id '${id.slice(0, 100)}'.`, 'batch_id');
}

function tooMany(maxOpenBatches: number): Fault {
  return {
    fault: true,
    status: 429,
    type: 'rate_limit_error',
    code: 'too_many_batches',
    message: `There are ${maxOpenBatches} batches that are not over (batch.maxOpenBatches); wait for one, or cancel one.`,
    headers: noRetry,
  };
}
