/**
 * The Files and Batch API as the commands use it: one call each, an object or the reason why not. Tells an API that is off
 * from a batch that isn't there.
 */
import type { Readable } from 'node:stream';

import type { Address } from './batch-args.ts';
import {
  readBatch,
  readBatchPage,
  readFileId,
  readModelNames,
  type BatchObject,
  type BatchPage,
} from './batch-object.ts';
import { adminPort, answerFailure, apiOff, unreachableFailure, type Failure } from './failure.ts';
import type { Answered, Unreachable, Upload, Wire } from './wire.ts';

export type Got<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly failure: Failure };

export interface Content {
  readonly bytes?: number;
  readonly body: Readable;
}

export interface NewBatch {
  readonly inputFileId: string;
  readonly endpoint: string;
  readonly window: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface BatchApi {
  /** @returns the file's id */
  upload(upload: Upload): Promise<Got<string>>;
  create(batch: NewBatch): Promise<Got<BatchObject>>;
  get(id: string): Promise<Got<BatchObject>>;
  cancel(id: string): Promise<Got<BatchObject>>;
  list(page: { readonly limit: number; readonly after?: string }): Promise<Got<BatchPage>>;
  /** What backends list; undefined: nothing is known of that. */
  models(): Promise<readonly string[] | undefined>;
  content(fileId: string): Promise<Got<Content>>;
  /** Whatever comes of it: for tidying up. */
  removeFile(fileId: string): Promise<void>;
}

export function createBatchApi(address: Address, wire: Wire): BatchApi {
  const failed = (answer: Answered | Unreachable): Failure =>
    answer.kind === 'unreachable' ? unreachableFailure(address, answer) : answerFailure(address, answer);

  function take<Value>(answer: Answered | Unreachable, read: (json: unknown) => Value | undefined): Got<Value> {
    if (answer.kind === 'unreachable' || answer.status !== 200) return { ok: false, failure: failed(answer) };
    const value = read(answer.json);
    if (value !== undefined) return { ok: true, value };
    // A page or something else that is no such object: no API there.
    return { ok: false, failure: apiOff(address) };
  }

  function noApi(answer: Answered): Failure {
    return adminPort(address, answer) ?? apiOff(address);
  }

  async function isOff(): Promise<boolean> {
    const answer = await wire.ask('GET', '/v1/batches?limit=1');
    return answer.kind === 'answered' && hasNoRoute(answer);
  }

  /** About one thing: its 404 may mean the thing or the API. */
  async function about(method: string, path: string): Promise<Got<BatchObject>> {
    const answer = await wire.ask(method, path);
    if (answer.kind === 'answered' && hasNoRoute(answer) && (await isOff()))
      return { ok: false, failure: noApi(answer) };
    return take(answer, readBatch);
  }

  return {
    async upload(upload) {
      const answer = await wire.upload('/v1/files', upload);
      if (answer.kind === 'unread') return { ok: false, failure: { says: answer.message, passing: false } };
      if (answer.kind === 'answered' && hasNoRoute(answer)) return { ok: false, failure: noApi(answer) };
      return take(answer, readFileId);
    },
    async create({ inputFileId, endpoint, window, metadata }) {
      const body = {
        input_file_id: inputFileId,
        endpoint,
        completion_window: window,
        ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
      };
      return take(await wire.ask('POST', '/v1/batches', body), readBatch);
    },
    get: (id) => about('GET', `/v1/batches/${encodeURIComponent(id)}`),
    cancel: (id) => about('POST', `/v1/batches/${encodeURIComponent(id)}/cancel`),
    async list({ limit, after }) {
      const query = new URLSearchParams({ limit: String(limit), ...(after === undefined ? {} : { after }) });
      const answer = await wire.ask('GET', `/v1/batches?${query.toString()}`);
      if (answer.kind === 'answered' && hasNoRoute(answer) && (after === undefined || (await isOff())))
        return { ok: false, failure: noApi(answer) };
      return take(answer, readBatchPage);
    },
    async models() {
      const answer = await wire.ask('GET', '/v1/models');
      return answer.kind === 'answered' && answer.status === 200 ? readModelNames(answer.json) : undefined;
    },
    async content(fileId) {
      const answer = await wire.open(`/v1/files/${encodeURIComponent(fileId)}/content`);
      return answer.kind === 'opened' ? { ok: true, value: answer } : { ok: false, failure: failed(answer) };
    },
    async removeFile(fileId) {
      await wire.ask('DELETE', `/v1/files/${encodeURIComponent(fileId)}`);
    },
  };
}

function hasNoRoute({ status }: Answered): boolean {
  return status === 404 || status === 405 || status === 501;
}
