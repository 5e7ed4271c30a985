/**
 * Requests that wait for a place in the engine, in the order in which they will get one: by priority where that counts, then
 * by rank. Each entry is one request's sequences together. Holds an order, decides nothing.
 */
import type { Sequence } from './sequence.ts';

export interface WaitingQueue {
  /** Sequences that wait. */
  readonly size: number;
  readonly first: readonly Sequence[] | undefined;
  /** Takes its place behind all of the same priority and smaller or equal rank. */
  add(group: readonly Sequence[]): void;
  shift(): void;
  /** @returns false when it wasn't there */
  remove(group: readonly Sequence[]): boolean;
  /** All entries, in order. */
  readonly groups: readonly (readonly Sequence[])[];
}

export function createWaitingQueue(byPriority: boolean): WaitingQueue {
  const groups: (readonly Sequence[])[] = [];
  let size = 0;

  function isBehind(left: readonly Sequence[], right: readonly Sequence[]): boolean {
    const [a] = left;
    const [b] = right;
    if (a === undefined || b === undefined) return false;
    if (byPriority && a.priority !== b.priority) return a.priority > b.priority;
    return a.queueRank >= b.queueRank;
  }

  return {
    get size() {
      return size;
    },
    get first() {
      return groups[0];
    },
    groups,
    add(group) {
      size += group.length;
      let low = 0;
      let high = groups.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (isBehind(group, groups[middle] ?? [])) low = middle + 1;
        else high = middle;
      }
      groups.splice(low, 0, group);
    },
    shift() {
      size -= groups.shift()?.length ?? 0;
    },
    remove(group) {
      const index = groups.indexOf(group);
      if (index < 0) return false;
      groups.splice(index, 1);
      size -= group.length;
      return true;
    },
  };
}
