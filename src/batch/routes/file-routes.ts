/** `/v1/files`: list, get, content, delete; upload is next door. A tenant's own files only: others' are not there. */
import type { RouteReply, RouteRequest } from '../../platform/own-route.ts';
import type { Clock } from '../../platform/clock.ts';
import type { StoredFile } from '../batch.ts';
import type { Shelf } from '../shelf/port.ts';
import { type BatchStore, StoreError } from '../store/port.ts';
import { rangeOf } from './byte-range.ts';
import { badRequest, type Fault, isFault, jsonReply, noRetry, notFound } from './fault.ts';
import { fileObject, listObject } from './objects.ts';
import { pageOf, unknownAfter } from './parameters.ts';

export interface FileRouteDeps {
  readonly store: Pick<BatchStore, 'file' | 'files' | 'removeFile'>;
  readonly shelf: Pick<Shelf, 'read' | 'bytes' | 'remove'>;
  readonly clock: Pick<Clock, 'wallMs'>;
}

export interface FileRoutes {
  list(request: RouteRequest): Promise<RouteReply | Fault>;
  get(request: RouteRequest, id: string): Promise<RouteReply | Fault>;
  content(request: RouteRequest, id: string): Promise<RouteReply | Fault>;
  remove(request: RouteRequest, id: string): Promise<RouteReply | Fault>;
}

const pageLimits = { most: 10_000, fallback: 10_000 } as const;

export function createFileRoutes({ store, shelf, clock }: FileRouteDeps): FileRoutes {
  return {
    async list({ tenant, query }) {
      const page = pageOf(query, pageLimits);
      if (isFault(page)) return page;
      const purpose = query.get('purpose');
      const found = await store.files(tenant, purpose === null ? page : { ...page, purpose });
      if (found === undefined) return unknownAfter();
      return jsonReply(listObject(found.files, found.hasMore, fileObject));
    },
    async get({ tenant }, id) {
      const file = await findFile({ store, clock }, tenant, id);
      return isFault(file) ? file : jsonReply(fileObject(file));
    },
    async content(request, id) {
      const file = await findFile({ store, clock }, request.tenant, id);
      return isFault(file) ? file : contentReply(request, file, shelf);
    },
    async remove({ tenant }, id) {
      const removed = isFileId(id) ? await store.removeFile(tenant, id) : 'absent';
      if (removed === 'absent') return noSuchFile(id);
      if (removed === 'in_use') {
        const message = `The file ${id} is the input of a batch that is not over; cancel that first.`;
        return badRequest({ status: 409, message, code: 'file_in_use', param: 'id', headers: noRetry });
      }
      await shelf.remove(id);
      return jsonReply({ id, object: 'file', deleted: true });
    },
  };
}

/** @returns a fault also for a file whose time is over, though its bytes may still be there */
export async function findFile(
  { store, clock }: { readonly store: Pick<BatchStore, 'file'>; readonly clock: Pick<Clock, 'wallMs'> },
  tenant: string,
  id: string,
): Promise<StoredFile | Fault> {
  const file = isFileId(id) ? await store.file(tenant, id) : undefined;
  const isOver = file?.expiresAt !== undefined && file.expiresAt * 1000 <= clock.wallMs();
  return file === undefined || isOver ? noSuchFile(id) : file;
}

export function noSuchFile(id: string, param = 'id'): Fault {
  return notFound(`No such File object: ${id.slice(0, 100)}`, param);
}

function isFileId(id: string): boolean {
  return /^file-[0-9A-Za-z_-]{1,64}$/.test(id);
}

async function contentReply(
  request: RouteRequest,
  file: StoredFile,
  shelf: FileRouteDeps['shelf'],
): Promise<RouteReply> {
  const size = await shelf.bytes(file.id);
  if (size === undefined) throw new StoreError('broken', `the bytes of ${file.id} are not on the shelf`);
  const headers = {
    'Content-Type': 'application/octet-stream',
    'Content-Disposition': disposition(file.filename),
    'Accept-Ranges': 'bytes',
  };
  const range = request.header('if-range') === undefined ? rangeOf(request.header('range'), size) : undefined;
  if (range === 'unsatisfiable')
    return { status: 416, headers: { 'Content-Range': `bytes */${size}`, 'Content-Length': '0' }, body: '' };
  if (range === undefined)
    return {
      status: 200,
      headers: { ...headers, 'Content-Length': String(size) },
      body: request.method === 'HEAD' ? '' : shelf.read(file.id),
    };
  const last = range.at + range.bytes - 1;
  return {
    status: 206,
    headers: {
      ...headers,
      'Content-Length': String(range.bytes),
      'Content-Range': `bytes ${range.at}-${last}/${size}`,
    },
    body: request.method === 'HEAD' ? '' : shelf.read(file.id, range),
  };
}

/** RFC 6266: the plain form for those who read nothing else, the exact one beside it where it differs. */
function disposition(filename: string): string {
  const plain = filename.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const exact = encodeURIComponent(filename).replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  return plain === filename
    ? `attachment; filename="${plain}"`
    : `attachment; filename="${plain}"; filename*=UTF-8''${exact}`;
}
