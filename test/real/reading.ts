/** One request through warmlane with all that is known of it: what the client got, what the tap saw, what the record says. */
import { createHash } from 'node:crypto';
import type { Bench } from './bench.ts';
import { newRequestId, withId } from './dialects.ts';
import { send, type Answer, type Ask, type Call } from './raw-client.ts';
import { carriesToken, isUsageOnly, parseEvents } from './stream-events.ts';
import type { TapExchange } from './tap.ts';
import type { WireRecord } from './warmlane.ts';

export interface Reading {
  readonly answer: Answer;
  readonly exchange: TapExchange;
  readonly record: WireRecord;
}

/** Sends, waits for the end of the answer and for the record. @throws when it took more than one attempt */
export async function relay(bench: Bench, ask: Ask): Promise<Reading> {
  const { call, requestId } = start(bench, ask);
  const answer = await call.done;
  const record = await bench.warmlane.record(requestId);
  return { answer, record, exchange: only(bench.tap.find(requestId)) };
}

export function start({ warmlane }: Pick<Bench, 'warmlane'>, ask: Ask): { call: Call; requestId: string } {
  const requestId = newRequestId();
  return { call: send(warmlane.url, withId(ask, requestId)), requestId };
}

/** The engine's payload less the usage event, where warmlane and not the client had asked for it. */
export function expectedPayload({ request, response }: TapExchange, asked: boolean): Buffer {
  if (response === undefined) throw new Error('the tap saw no response');
  if (asked || !request.payload.includes('include_usage')) return response.payload;
  const events = parseEvents(response.payload);
  const kept = events.filter((event) => !isUsageOnly(event));
  if (kept.length !== events.length - 1) throw new Error(`${events.length - kept.length} usage events instead of one`);
  return Buffer.concat(kept.map((event) => response.payload.subarray(event.start, event.end)));
}

/** When each token event had arrived whole at the tap, monotonic ms. */
export function tokenArrivals({ response }: TapExchange, isVllm: boolean): number[] {
  if (response === undefined) return [];
  return parseEvents(response.payload)
    .filter((event) => carriesToken(event, isVllm))
    .map((event) => response.arrivedAt(event.end));
}

export function only<T>(list: readonly T[]): T {
  const [first] = list;
  if (first === undefined || list.length > 1) throw new Error(`one was expected, ${list.length} are there`);
  return first;
}

export const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

export const gaps = (moments: readonly number[]) =>
  moments.slice(1).map((moment, index) => moment - (moments[index] ?? Number.NaN));

export const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The value, or a failure of the test that names what is missing; a missing figure must not pass as NaN. */
export function known<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`${name} is missing`);
  return value;
}
