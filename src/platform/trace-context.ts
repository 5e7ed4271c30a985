/**
 * W3C Trace Context (https://www.w3.org/TR/trace-context/): reads what a client sent, writes what a backend gets, makes ids.
 * Strict: whatever the standard calls invalid counts as not sent. Knows nothing of spans or sampling.
 */
import { randomFillSync } from 'node:crypto';

export interface TraceContext {
  /** 32 digits, lower case */
  readonly traceId: string;
  /** 16 digits: the sender's span */
  readonly parentSpanId: string;
  readonly sampled: boolean;
  /** `tracestate`, several headers of it joined; absent when there was none or none that is valid */
  readonly state?: string;
}

const traceparentName = 'traceparent';
const tracestateName = 'tracestate';
/** Version, trace id, span id, flags; a later version may say more behind these (3.2.2 and 4.3 of the standard). */
const traceparentForm = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const noTraceId = '0'.repeat(32);
const noSpanId = '0'.repeat(16);
const sampledFlag = 1;

/** @param rawHeaders names and values in turn. @returns undefined when there is no valid `traceparent`, or more than one */
export function readTraceContext(rawHeaders: readonly string[]): TraceContext | undefined {
  let parent: string | undefined;
  let count = 0;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    // The length first: this runs over every header of every request.
    if (name.length !== traceparentName.length || name.toLowerCase() !== traceparentName) continue;
    parent = rawHeaders[i + 1];
    count += 1;
  }
  if (parent === undefined || count !== 1) return undefined;
  const [, version, traceId, parentSpanId, flags, more] = traceparentForm.exec(parent) ?? [];
  if (version === undefined || traceId === undefined || parentSpanId === undefined) return undefined;
  if (version === 'ff' || traceId === noTraceId || parentSpanId === noSpanId) return undefined;
  if (version === '00' && more !== undefined) return undefined;
  const sampled = (Number.parseInt(flags ?? '', 16) & sampledFlag) !== 0;
  const state = readTraceState(rawHeaders);
  return { traceId, parentSpanId, sampled, ...(state === undefined ? {} : { state }) };
}

/** What is kept of a longer `tracestate`; the standard asks for 512 at least (3.3.1.5). */
const longestState = 2048;
const longestMember = 128;
const mostMembers = 32;
const memberForm =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\u0020-\u002b\u002d-\u003c\u003e-\u007e]{0,255}[\u0021-\u002b\u002d-\u003c\u003e-\u007e]$/;

/** One invalid member makes the whole list invalid, as the standard has it; the trace goes on without it. */
function readTraceState(rawHeaders: readonly string[]): string | undefined {
  const lists: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.length !== tracestateName.length || name.toLowerCase() !== tracestateName) continue;
    lists.push(rawHeaders[i + 1] ?? '');
  }
  if (lists.length === 0) return undefined;
  const text = lists.join(',');
  const members = text
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '');
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf('='))));
  const valid = members.every((member) => memberForm.test(member)) && keys.size === members.length;
  if (!valid || members.length === 0 || members.length > mostMembers) return undefined;
  return text.length <= longestState && lists.length === 1 ? text : shortened(members);
}

/** Members over 128 characters go first, then the last ones. */
function shortened(members: readonly string[]): string | undefined {
  let kept = members;
  if (kept.join(',').length > longestState) kept = kept.filter((member) => member.length <= longestMember);
  while (kept.join(',').length > longestState) kept = kept.slice(0, -1);
  return kept.length === 0 ? undefined : kept.join(',');
}

/** A `traceparent` of version 00. */
export function traceparentOf(traceId: string, spanId: string, sampled: boolean): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

/** Lower-case names of the headers that carry a trace's context. */
export function isTraceHeader(name: string): boolean {
  return name === traceparentName || name === tracestateName;
}

/** Random bytes are fetched for many ids at once: each call for them costs a microsecond. */
const pool = Buffer.allocUnsafe(4096);
let used = pool.length;

function randomHex(bytes: number): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString('hex', used - bytes, used);
}

/** 32 digits, never all zero. */
export function randomTraceId(): string {
  for (;;) {
    const id = randomHex(16);
    if (id !== noTraceId) return id;
  }
}

/** 16 digits, never all zero. */
export function randomSpanId(): string {
  for (;;) {
    const id = randomHex(8);
    if (id !== noSpanId) return id;
  }
}
