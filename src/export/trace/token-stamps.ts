/**
 * Every token's moment as a span can carry it: compact arrays, or one event per token. Neither loses a stamp.
 * The arrays hold whole microseconds whose running sums are each token's rounded distance from the span's start, so
 * nothing drifts, however many there are.
 */
import type { Attributes } from '@opentelemetry/api';
import type { TimedEvent } from '@opentelemetry/sdk-trace-base';
import type { TokenStamps } from '../../domain/record.ts';
import type { SpanMaker, Writable } from './span.ts';

/** @param startMs the span's start, on the stamps' clock */
export function putTokenArrays(attributes: Writable, stamps: TokenStamps, startMs: number): void {
  const { atMs, tokens, coalesced, choice } = stamps;
  attributes['warmlane.token.deltas_us'] = deltas(atMs, startMs);
  if (tokens?.some((count) => count !== 1) === true) attributes['warmlane.token.counts'] = Array.from(tokens);
  if (coalesced?.some((mark) => mark !== 0) === true) attributes['warmlane.token.coalesced'] = marked(coalesced);
  if (choice?.some((index) => index !== 0) === true) attributes['warmlane.token.choices'] = Array.from(choice);
}

function deltas(atMs: Float64Array, startMs: number): number[] {
  // Its size is known: growing it would copy a long answer's many times over.
  const differences = Array.from<number>({ length: atMs.length });
  let before = 0;
  for (let index = 0; index < atMs.length; index += 1) {
    const micros = Math.round(((atMs[index] ?? 0) - startMs) * 1000);
    differences[index] = micros - before;
    before = micros;
  }
  return differences;
}

/** Positions, from 0, of those that shared a socket read with the token before them. */
function marked(coalesced: Uint8Array): number[] {
  const positions: number[] = [];
  for (let index = 0; index < coalesced.length; index += 1) if (coalesced[index] !== 0) positions.push(index);
  return positions;
}

const plain: Attributes = {};

/** One event per stamp from `from` up to `to`; attributes only where there is something to say. */
export function tokenEvents(stamps: TokenStamps, from: number, to: number, maker: SpanMaker): TimedEvent[] {
  const events: TimedEvent[] = [];
  for (let index = from; index < to; index += 1) {
    events.push({
      name: 'token',
      time: maker.time(stamps.atMs[index] ?? 0),
      attributes: attributesOf(stamps, index),
      droppedAttributesCount: 0,
    });
  }
  return events;
}

function attributesOf({ tokens, coalesced, choice }: TokenStamps, index: number): Attributes {
  const count = tokens?.[index] ?? 1;
  const choiceOf = choice?.[index] ?? 0;
  const isCoalesced = coalesced?.[index] === 1;
  if (count === 1 && choiceOf === 0 && !isCoalesced) return plain;
  return {
    ...(count === 1 ? {} : { 'warmlane.token.count': count }),
    ...(isCoalesced ? { 'warmlane.token.coalesced': true } : {}),
    ...(choiceOf === 0 ? {} : { 'warmlane.token.choice': choiceOf }),
  };
}
