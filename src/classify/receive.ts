/**
 * Takes a request's body in: scanned as it arrives and held when warmlane must know what it asks or may have to send it
 * again; passed on as a stream otherwise. Bounded per body and over all bodies. Never changes a byte.
 */
import type { Readable } from 'node:stream';
import type { BodyEdit } from '../domain/job.ts';
import type { EndpointKind } from '../domain/names.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { ByteBudget } from '../platform/byte-budget.ts';
import type { ClientUpload } from '../platform/client-port.ts';
import { createJsonScan, type JsonScanResult } from '../platform/json-scan.ts';
import { createMultipartScan, type MultipartFields } from '../platform/multipart-scan.ts';
import type { BodySink, RequestBody } from '../platform/upstream/port.ts';
import { applyEdits } from './edit-body.ts';
import { bodiesMemoryFull, bodyTooLarge } from './refusals.ts';

export interface ReceiveSettings {
  readonly maxBodyBytes: number;
  readonly keys: ReadonlyMap<string, number>;
}

/** What the endpoint table says of a route's body. */
export interface PlannedEndpoint {
  readonly kind: EndpointKind;
  readonly readsBody: boolean;
}

/** How a body is to be taken in. */
export type BodyPlan = 'none' | 'json' | 'multipart' | 'hold' | 'stream';

export interface Received {
  readonly body: RequestBody;
  /** Bytes known so far: the whole body unless it streams with unknown length. */
  readonly bytes: number;
  readonly scan?: JsonScanResult;
  readonly multipart?: MultipartFields;
  /** The body with some spans replaced; the spans must lie in what is here already. */
  edited(edits: readonly BodyEdit[]): RequestBody;
  /** The held bytes are no longer needed. Idempotent. */
  release(): void;
}

/** Small bodies are held even if nobody reads them, so that a stale connection costs nothing. */
const smallBytes = 64 * 1024;
/** A multipart body is searched for its `model` field so far, then streamed (C119). */
const multipartSearchBytes = 1024 * 1024;

/**
 * A route of the table is read whatever its body calls itself (curl says form, some clients nothing); an unknown route only
 * when it says JSON.
 */
export function planBody(upload: ClientUpload, contentType: string | undefined, endpoint: PlannedEndpoint): BodyPlan {
  if (upload.bytes === 0) return 'none';
  const type = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (endpoint.readsBody && type === 'multipart/form-data') return 'multipart';
  const json = type === '' || type === 'application/json' || type.endsWith('+json');
  if (endpoint.readsBody && (json || endpoint.kind !== 'other')) return 'json';
  return upload.bytes !== undefined && upload.bytes <= smallBytes ? 'hold' : 'stream';
}

/** Resolves when the body is here, or as much of it as is waited for; `gone` when the client left meanwhile. */
export function receive(
  upload: ClientUpload,
  plan: { readonly kind: BodyPlan; readonly contentType: string | undefined },
  limits: ReceiveSettings & {
    readonly budget: ByteBudget;
    /** Is given the way to end the waiting with a refusal. */
    readonly stoppable?: (stop: (refusal: Refusal) => void) => void;
  },
): Promise<Received | Refusal | 'gone'> {
  if (plan.kind === 'none') return Promise.resolve(unread({ kind: 'none' }, 0));
  if (plan.kind === 'stream') {
    upload.proceed();
    return Promise.resolve(unread(streamBody(upload.stream, [], upload.bytes), upload.bytes ?? 0));
  }
  if (upload.bytes !== undefined && upload.bytes > limits.maxBodyBytes && plan.kind === 'json') {
    return Promise.resolve(bodyTooLarge(limits.maxBodyBytes));
  }
  upload.proceed();
  return new Promise((resolve) => {
    const stop = hold(upload, plan, { ...limits, resolve });
    limits.stoppable?.(stop);
  });
}

interface HoldLimits extends ReceiveSettings {
  readonly budget: ByteBudget;
  readonly resolve: (result: Received | Refusal | 'gone') => void;
}

/** @returns ends the waiting with a refusal */
function hold(
  upload: ClientUpload,
  plan: { kind: BodyPlan; contentType: string | undefined },
  limits: HoldLimits,
): (refusal: Refusal) => void {
  const { stream } = upload;
  const { budget } = limits;
  const chunks: Buffer[] = [];
  let bytes = 0;
  const scan = plan.kind === 'json' ? createJsonScan({ keys: limits.keys }) : undefined;
  const multipart = plan.kind === 'multipart' ? createMultipartScan(plan.contentType ?? '') : undefined;

  let settled = false;
  const settle = (result: Received | Refusal | 'gone') => {
    settled = true;
    stream.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken);
    // An error on a body that nobody reads any more is the client's leaving; that is noticed elsewhere.
    stream.on('error', ignore);
    limits.resolve(result);
  };
  const refuse = (refusal: Refusal) => {
    if (settled) return;
    budget.give(bytes);
    settle(refusal);
    stream.resume();
  };
  let held = true;
  const release = () => {
    if (held) budget.give(bytes);
    held = false;
    chunks.length = 0;
  };
  const onData = (chunk: Buffer) => {
    if (plan.kind === 'json' && bytes + chunk.length > limits.maxBodyBytes)
      return refuse(bodyTooLarge(limits.maxBodyBytes));
    if (!budget.take(chunk.length)) return refuse(bodiesMemoryFull());
    chunks.push(chunk);
    bytes += chunk.length;
    scan?.push(chunk);
    if (multipart === undefined) return;
    multipart.push(chunk);
    if (multipart.fields.model === undefined && bytes < multipartSearchBytes) return;
    stream.pause();
    const fields = multipart.fields;
    const first = chunks.slice();
    settle({
      body: streamBody(stream, first, upload.bytes),
      bytes: upload.bytes ?? bytes,
      multipart: fields,
      edited(edits) {
        const changed = applyEdits(first, edits);
        const grown = changed.bytes - bytes;
        return streamBody(stream, changed.chunks, upload.bytes === undefined ? undefined : upload.bytes + grown);
      },
      release,
    });
  };
  const onEnd = () => {
    const whole = chunks.slice();
    settle({
      body: { kind: 'held', chunks: whole, bytes },
      bytes,
      edited: (edits) => ({ kind: 'held', ...applyEdits(whole, edits) }),
      release,
      ...(scan === undefined ? {} : { scan: scan.end() }),
      ...(multipart === undefined ? {} : { multipart: multipart.fields }),
    });
  };
  const onBroken = () => {
    budget.give(bytes);
    settle('gone');
  };
  stream.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  return refuse;
}

function ignore(): void {}

/** A body that nobody reads here. */
function unread(body: RequestBody, bytes: number): Received {
  return { body, bytes, edited: () => body, release() {} };
}

/** A body that is sent once, as it comes: what was read already, then the rest with back-pressure. */
function streamBody(stream: Readable, first: readonly Buffer[], bytes: number | undefined): RequestBody {
  return {
    kind: 'stream',
    bytes,
    start(sink: BodySink) {
      for (const chunk of first) sink.write(chunk);
      stream.on('data', (chunk: Buffer) => {
        if (!sink.write(chunk)) stream.pause();
      });
      stream.on('end', () => sink.end());
      stream.on('error', () => sink.fail());
      stream.on('close', () => {
        if (!stream.readableEnded) sink.fail();
      });
      stream.resume();
    },
    drained() {
      stream.resume();
    },
  };
}
