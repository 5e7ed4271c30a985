/**
 * `POST /v1/files`: streams the file to the shelf while it comes, and enters it once it is whole and allowed. Whatever goes wrong,
 * nothing of it stays: a crash between shelf and entry leaves bytes without an entry, which sweeping removes.
 */
import { anonymousTenant } from '../../domain/tenant.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { RouteReply, RouteRequest } from '../../platform/own-route.ts';
import type { StoredFile } from '../batch.ts';
import { newFileId } from '../new-id.ts';
import type { BatchSettings } from '../settings.ts';
import type { Shelf, ShelfWriter } from '../shelf/port.ts';
import { isStorable } from '../storable-text.ts';
import type { BatchStore } from '../store/port.ts';
import { badRequest, type Fault, faultReply, isFault, jsonReply, missing, tooLarge } from './fault.ts';
import { fileObject } from './objects.ts';
import { expirySeconds, invalid } from './parameters.ts';
import { fileTooLarge, receiveForm } from './receive-form.ts';

export type UploadSettings = Pick<
  BatchSettings,
  'maxFileBytes' | 'maxTenantBytes' | 'maxUploads' | 'maxTenantUploads' | 'fileLifeSeconds'
>;

export interface UploadDeps {
  readonly store: Pick<BatchStore, 'addFile' | 'fileBytes'>;
  readonly shelf: Pick<Shelf, 'create' | 'remove'>;
  readonly clock: Pick<Clock, 'wallMs'>;
  readonly log: Log;
}

/** What OpenAI's API takes. All are kept; only `batch` can be used. */
const uploadPurposes: ReadonlySet<string> = new Set([
  'assistants',
  'batch',
  'fine-tune',
  'vision',
  'user_data',
  'evals',
]);

/** Of a form beside its file: delimiters, part heads, short fields. */
const formBytes = 64 * 1024;
const maxFilenameChars = 255;

/** A file that is on the shelf, whole or not, and not entered yet. */
interface Arriving {
  filename: string;
  writer: ShelfWriter | undefined;
}

/** Known fields of the form. */
interface Fields {
  purpose?: string;
  anchor?: string;
  seconds?: string;
}

export function createUpload(
  settings: UploadSettings,
  deps: UploadDeps,
): (request: RouteRequest) => Promise<RouteReply> {
  const { store, shelf, clock, log } = deps;
  const underWay = createUploadCount(settings);
  /** Of each tenant: what of its files is on the shelf and not entered yet. Only those that upload just now. */
  const arrivingBytes = new Map<string, number>();

  const note = (tenant: string, bytes: number) => {
    const left = (arrivingBytes.get(tenant) ?? 0) + bytes;
    if (left === 0) arrivingBytes.delete(tenant);
    else arrivingBytes.set(tenant, left);
  };

  async function roomOf(tenant: string): Promise<number> {
    return settings.maxTenantBytes - (await store.fileBytes(tenant)) - (arrivingBytes.get(tenant) ?? 0);
  }

  async function receive(request: RouteRequest, id: string, arriving: Arriving): Promise<StoredFile | Fault> {
    const { tenant } = request;
    const announced = request.bytes;
    if (announced !== undefined && announced > settings.maxFileBytes + formBytes)
      return fileTooLarge(settings.maxFileBytes);
    const room = await roomOf(tenant);
    if (room <= 0 || (announced !== undefined && announced - formBytes > room)) return overTenant(settings);
    const fields: Fields = {};
    let counted = 0;
    try {
      const stopped = await receiveForm(
        { contentType: request.header('content-type'), body: request.body, proceed: () => request.proceed() },
        {
          maxFileBytes: settings.maxFileBytes,
          field: (name, value) => takeField(fields, name, value),
          async file(filename, bytes) {
            arriving.filename = filename;
            arriving.writer = await shelf.create(id);
            for await (const chunk of bytes) {
              counted += chunk.length;
              note(tenant, chunk.length);
              if (counted > room) return overTenant(settings);
              await arriving.writer.write(chunk);
            }
            return undefined;
          },
        },
      );
      if (stopped === 'gone' || request.signal.aborted) return leftMidway();
      if (stopped !== undefined) return stopped;
      if (arriving.writer === undefined) return missing('file');
      if (fields.purpose === undefined) return missing('purpose');
      const life = expirySeconds({ anchor: fields.anchor, seconds: fields.seconds }, 'expires_after');
      if (isFault(life)) return life;
      // Others may have come in meanwhile.
      if ((await roomOf(tenant)) < 0) return overTenant(settings);
      return await enter(arriving.writer, {
        id,
        tenant,
        purpose: fields.purpose,
        filename: cleanName(arriving.filename),
        lifeSeconds: life ?? settings.fileLifeSeconds,
      });
    } finally {
      note(tenant, -counted);
    }
  }

  async function enter(
    writer: ShelfWriter,
    { lifeSeconds, ...named }: Omit<StoredFile, 'bytes' | 'createdAt' | 'expiresAt'> & { readonly lifeSeconds: number },
  ): Promise<StoredFile> {
    const { bytes } = writer;
    await writer.commit();
    const createdAt = Math.floor(clock.wallMs() / 1000);
    const file: StoredFile = { ...named, bytes, createdAt, expiresAt: createdAt + lifeSeconds };
    try {
      await store.addFile(file);
    } catch (error) {
      await shelf.remove(file.id).catch((failure: unknown) => {
        log.warn('an upload that could not be entered stays on the shelf until it is swept', {
          file: file.id,
          error: String(failure),
        });
      });
      throw error;
    }
    return file;
  }

  return async (request) => {
    const full = underWay.begin(request.tenant);
    if (full !== undefined) return faultReply(full);
    try {
      const claimed = request.claim();
      if (!('ended' in claimed)) return claimed;
      try {
        return await taken(request);
      } finally {
        claimed.ended();
      }
    } finally {
      underWay.end(request.tenant);
    }
  };

  async function taken(request: RouteRequest): Promise<RouteReply> {
    const arriving: Arriving = { filename: 'file', writer: undefined };
    try {
      const file = await receive(request, newFileId(), arriving);
      return isFault(file) ? faultReply(file) : jsonReply(fileObject(file));
    } finally {
      // No effect on what was committed.
      await arriving.writer?.discard().catch((error: unknown) => {
        log.warn('what is left of an upload could not be removed', {
          requestId: request.requestId,
          error: String(error),
        });
      });
    }
  }
}

/** How many come at one time, of each tenant and in all. */
function createUploadCount({ maxUploads, maxTenantUploads }: UploadSettings) {
  const byTenant = new Map<string, number>();
  let all = 0;
  return {
    /** @returns why one more may not come; else it counts until `end` */
    begin(tenant: string): Fault | undefined {
      const own = byTenant.get(tenant) ?? 0;
      // Without keys all are one tenant: nobody is kept from taking what is another's.
      if (tenant !== anonymousTenant && own >= maxTenantUploads)
        return tooManyUploads(`${own} of your files`, 'batch.maxTenantUploads');
      if (all >= maxUploads) return tooManyUploads(`${all} files`, 'batch.maxUploads');
      byTenant.set(tenant, own + 1);
      all += 1;
      return undefined;
    },
    end(tenant: string): void {
      all -= 1;
      const left = (byTenant.get(tenant) ?? 0) - 1;
      if (left > 0) byTenant.set(tenant, left);
      else byTenant.delete(tenant);
    },
  };
}

/** Nobody knows how long the others take: their clients send as fast as they can. */
const retryAfterSeconds = 5;

function tooManyUploads(what: string, key: string): Fault {
  return {
    fault: true,
    status: 429,
    type: 'rate_limit_error',
    code: 'too_many_uploads',
    message: `${what} are being uploaded just now, and no more at one time (${key}). Try again in ${retryAfterSeconds} s.`,
    headers: { 'Retry-After': String(retryAfterSeconds) },
  };
}

function takeField(fields: Fields, name: string, value: string): Fault | undefined {
  if (name === 'expires_after[anchor]') fields.anchor = value;
  else if (name === 'expires_after[seconds]') fields.seconds = value;
  else if (name === 'purpose') {
    fields.purpose = value;
    if (!uploadPurposes.has(value))
      return invalid(
        'purpose',
        `\`purpose\` must be one of ${[...uploadPurposes].map((word) => `'${word}'`).join(', ')}.`,
      );
  }
  return undefined;
}

/** The last part of a path, as it can be kept and shown. */
function cleanName(filename: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what must not get through
  const clean = filename.replace(/[\u0000-\u001f\u007f]/g, '').slice(-maxFilenameChars);
  return clean !== '' && isStorable(clean) ? clean : 'file';
}

function overTenant({ maxTenantBytes }: UploadSettings): Fault {
  const message = `All files together may have ${maxTenantBytes} bytes (batch.maxTenantBytes); this one goes beyond. Delete some.`;
  return tooLarge(message, 'storage_quota_exceeded', 'file');
}

function leftMidway(): Fault {
  return badRequest({ message: 'The upload broke off.', code: 'upload_aborted' });
}
