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
import type { BodyReading } from './endpoint-table.ts';
import type { PromptRead, PromptReader } from './prefix-scan.ts';
import { bodiesMemoryFull, bodyTooLarge } from './refusals.ts';

export interface ReceiveSettings {
  readonly maxBodyBytes: number;
  readonly keys: ReadonlyMap<string, number>;
  /** Hashes prompts as they come; absent: nobody wants that. `keys` must have the prompt's then. */
  readonly prompts?: PromptReader | undefined;
}

/** Is told of a body what is known of it, when it is known. */
export interface BodyWitness {
  /** The whole body's length. */
  bytes(total: number): void;
  /** Its last byte is here. */
  last(): void;
}

/** What the endpoint table says of a route's body. */
export interface PlannedEndpoint {
  readonly kind: EndpointKind;
  readonly readsBody: boolean;
  /** Servers look for ids in it, whatever it calls itself. */
  readonly refersBy?: unknown;
}

/** How a body is to be taken in. */
export type BodyPlan = 'none' | 'json' | 'multipart' | 'hold' | 'stream';

export interface Received {
  readonly body: RequestBody;
  /** Bytes known so far: the whole body unless it streams with unknown length. */
  readonly bytes: number;
  /** For `classify`; whoever holds the body longer lets go of it. */
  scan?: JsonScanResult | undefined;
  /** Likewise. */
  prompt?: PromptRead | undefined;
  readonly multipart?: MultipartFields;
  /** It could not be read, being in UTF-16 or UTF-32, which Python's servers take for JSON as well. */
  readonly isWide?: boolean;
  /** The body with some spans replaced; the spans must lie in what is here already. */
  edited(edits: readonly BodyEdit[]): RequestBody;
  /** The held bytes are no longer needed, by any body that came of them: they are let go. Idempotent. */
  release(): void;
}

/** Small bodies are held even if nobody reads them, so that a stale connection costs nothing. */
const smallBytes = 64 * 1024;
/** So much of a streamed body is read before its backend is known: only a socket that is read shows its client's leaving. */
const aheadBytes = 1024 * 1024;
/** A multipart body is searched for its `model` field so far, then streamed (C119). */
const multipartSearchBytes = 1024 * 1024;

/**
 * A route of the table is read whatever its body calls itself (curl says form, some clients nothing); an unknown route only
 * when it says JSON.
 */
export function planBody(upload: ClientUpload, contentType: string | undefined, endpoint: PlannedEndpoint): BodyPlan {
  if (upload.bytes === 0) return 'none';
  // As nearly every client writes it.
  if (endpoint.readsBody && contentType === 'application/json') return 'json';
  const type = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (endpoint.readsBody && type === 'multipart/form-data') return 'multipart';
  const json = type === '' || type === 'application/json' || type.endsWith('+json');
  const isKnown = endpoint.kind !== 'other' || endpoint.refersBy !== undefined;
  if (endpoint.readsBody && (json || isKnown)) return 'json';
  return upload.bytes !== undefined && upload.bytes <= smallBytes ? 'hold' : 'stream';
}

/** How a body is taken in, and as what. */
export interface ReceivePlan {
  readonly kind: BodyPlan;
  readonly contentType: string | undefined;
  /** How the prompt in it is to be read; absent where none is. */
  readonly prompt?: BodyReading | undefined;
}

/** Resolves when the body is here, or as much of it as is waited for; `gone` when the client left meanwhile. */
export function receive(
  upload: ClientUpload,
  plan: ReceivePlan,
  limits: ReceiveSettings & {
    readonly budget: ByteBudget;
    readonly witness: BodyWitness;
    /** Is given the way to end the waiting with a refusal. */
    readonly stoppable?: (stop: (refusal: Refusal) => void) => void;
  },
): Promise<Received | Refusal | 'gone'> {
  const { budget, witness } = limits;
  if (upload.bytes !== undefined) witness.bytes(upload.bytes);
  if (plan.kind === 'none') {
    witness.last();
    return Promise.resolve({ body: { kind: 'none' }, bytes: 0, edited: () => ({ kind: 'none' }), release() {} });
  }
  if (plan.kind === 'stream') {
    upload.proceed();
    const rest = readAhead(upload.stream, { budget, witness, bytesBefore: 0 });
    const body = streamBody(rest, [], upload.bytes);
    return Promise.resolve({ body, bytes: upload.bytes ?? 0, edited: () => body, release: rest.release });
  }
  if (upload.bytes !== undefined && upload.bytes > limits.maxBodyBytes && plan.kind === 'json') {
    return Promise.resolve(bodyTooLarge(limits.maxBodyBytes));
  }
  upload.proceed();
  return new Promise((resolve) => {
    const { maxBodyBytes, keys, prompts } = limits;
    const stop = hold(upload, plan, { resolve, budget, witness, maxBodyBytes, keys, prompts });
    limits.stoppable?.(stop);
  });
}

interface HoldLimits extends ReceiveSettings {
  readonly budget: ByteBudget;
  readonly witness: BodyWitness;
  readonly resolve: (result: Received | Refusal | 'gone') => void;
}

/** @returns ends the waiting with a refusal */
function hold(upload: ClientUpload, plan: ReceivePlan, limits: HoldLimits): (refusal: Refusal) => void {
  const { stream } = upload;
  const { budget, witness } = limits;
  const chunks: Buffer[] = [];
  let bytes = 0;
  let prompt = plan.kind === 'json' && plan.prompt !== undefined ? limits.prompts?.(plan.prompt) : undefined;
  let scan = plan.kind === 'json' ? createJsonScan({ keys: limits.keys, pieces: prompt }) : undefined;
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
  /** Every list that was handed out: emptied when the bytes are let go, whoever still holds the list. */
  const lists: Buffer[][] = [chunks];
  const handOut = (list: readonly Buffer[]): readonly Buffer[] => {
    const copy = [...list];
    lists.push(copy);
    return copy;
  };
  let held = true;
  const release = () => {
    if (held) budget.give(bytes);
    held = false;
    for (const list of lists) list.length = 0;
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
    const first = handOut(chunks);
    const rest = readAhead(stream, { budget, witness, bytesBefore: bytes });
    settle({
      body: streamBody(rest, first, upload.bytes),
      bytes: upload.bytes ?? bytes,
      multipart: fields,
      edited(edits) {
        const changed = applyEdits(first, edits);
        const grown = changed.bytes - bytes;
        return streamBody(rest, handOut(changed.chunks), upload.bytes === undefined ? undefined : upload.bytes + grown);
      },
      release() {
        rest.release();
        release();
      },
    });
  };
  const onEnd = () => {
    const whole = handOut(chunks);
    const scanned = scan?.end();
    const read = prompt;
    // The functions here live as long as the request.
    scan = undefined;
    prompt = undefined;
    witness.bytes(bytes);
    witness.last();
    const received: Received = {
      body: { kind: 'held', chunks: whole, bytes },
      bytes,
      scan: scanned,
      prompt: read,
      isWide: scanned?.readable === false && isWideText(whole),
      edited(edits) {
        const changed = applyEdits(whole, edits);
        return { kind: 'held', chunks: handOut(changed.chunks), bytes: changed.bytes };
      },
      release,
    };
    settle(multipart === undefined ? received : { ...received, multipart: multipart.fields });
  };
  const onBroken = () => {
    budget.give(bytes);
    settle('gone');
  };
  stream.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  return refuse;
}

function ignore(): void {}

/** Told from UTF-8 as Python's `json` does: by a byte order mark, or a NUL among the first bytes, which JSON in UTF-8 never has. */
function isWideText(chunks: readonly Buffer[]): boolean {
  const first: number[] = [];
  for (const chunk of chunks) for (const byte of chunk.subarray(0, 4 - first.length)) first.push(byte);
  const [a, b] = first;
  return first.includes(0) || (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff);
}

/** What has not been read of a body yet. */
interface Rest {
  /** From now on all goes to the sink. Once. */
  start(sink: BodySink, first: readonly Buffer[]): void;
  resume(): void;
  /** Lets go what was read ahead, and reads no more unless it was started. Idempotent. */
  release(): void;
}

/** Reads on from now, up to a bound, until the rest is asked for. */
function readAhead(
  stream: Readable,
  { budget, witness, bytesBefore }: { budget: ByteBudget; witness: BodyWitness; bytesBefore: number },
): Rest {
  let ahead: Buffer[] = [];
  let takenBytes = 0;
  let bytes = bytesBefore;
  let state: 'open' | 'ended' | 'broken' = 'open';
  let sink: BodySink | undefined;
  const letGo = () => {
    budget.give(takenBytes);
    takenBytes = 0;
    ahead = [];
  };
  const onData = (chunk: Buffer) => {
    bytes += chunk.length;
    if (sink !== undefined) {
      if (!sink.write(chunk)) stream.pause();
      return;
    }
    ahead.push(chunk);
    // What was read can't be put back: one read past a full budget is kept, and it is the last.
    const counted = budget.take(chunk.length);
    if (counted) takenBytes += chunk.length;
    if (!counted || takenBytes >= aheadBytes) stream.pause();
  };
  const onEnd = () => {
    state = 'ended';
    witness.bytes(bytes);
    witness.last();
    sink?.end();
  };
  const onBroken = () => {
    if (state !== 'open') return;
    state = 'broken';
    sink?.fail();
  };
  stream.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  stream.resume();
  return {
    start(to, first) {
      let takes = true;
      for (const chunk of first) takes = to.write(chunk);
      for (const chunk of ahead) takes = to.write(chunk);
      sink = to;
      letGo();
      if (state === 'ended') to.end();
      else if (state === 'broken') to.fail();
      else if (takes) stream.resume();
      else stream.pause();
    },
    resume() {
      stream.resume();
    },
    release() {
      letGo();
      if (sink === undefined) stream.off('data', onData).off('end', onEnd);
    },
  };
}

/** A body that is sent once, as it comes: what was read already, then the rest with back-pressure. */
function streamBody(rest: Rest, first: readonly Buffer[], bytes: number | undefined): RequestBody {
  return { kind: 'stream', bytes, start: (sink: BodySink) => rest.start(sink, first), drained: () => rest.resume() };
}
