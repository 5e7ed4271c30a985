/**
 * The waiting room of one lane. Within it jobs stand in lines, one for each tenant and model, so that a model whose backends
 * are full costs the others nothing; the next one is the first of the tenant that was served least. For one tenant that is
 * first come, first served, but that lines of batches stand apart from requests that a client waits for, and take turns with
 * them. Those that lost a place stand in a line before all others. Knows nothing of backends.
 */
import type { LaneDepth } from '../domain/lanes.ts';
import type { Lane } from '../domain/names.ts';
import type { Fairness } from './fairness.ts';
import { isBatchLine, isOrdinary, modelOf, type Waiter } from './waiter.ts';

export interface Line {
  readonly key: string;
  /** All in it wait for the same model, wherever that is served. */
  readonly isOrdinary: boolean;
  /** Of those that held a place before. */
  readonly isFirst: boolean;
  jobs: number;
  first: Waiter | undefined;
  last: Waiter | undefined;
  /** The next one that a walk comes to. */
  cursor: Waiter | undefined;
  /** Jobs that a walk has passed in it, since they must wait. */
  passed: number;
  /** In `LaneQueue.lines`. */
  index: number;
}

export interface LaneQueue {
  readonly fairness: Fairness;
  readonly jobs: number;
  readonly tokens: number;
  /** Of the jobs those that don't generate. */
  readonly light: number;
  /** Lines in which somebody waits; that of those who held a place before is not among them. */
  readonly lines: readonly Line[];
  readonly again: Line;
  add(waiter: Waiter): void;
  /** @returns false when it doesn't wait here */
  remove(waiter: Waiter): boolean;
  /** A walk begins at the front. */
  begin(): void;
  /** Who is next in this walk. */
  next(): Waiter | undefined;
  /** Who came first of those that this walk has not come to yet. */
  oldest(): Waiter | undefined;
  /** The walk goes on behind this one. */
  step(waiter: Waiter): void;
  /** The walk leaves the rest of its line out. */
  skipLine(waiter: Waiter): void;
  /** It must wait: as far as this walk goes its tenant has had its turn. */
  pass(waiter: Waiter): void;
  depth(nowMs: number): LaneDepth;
  toArray(): Waiter[];
}

export function createLaneQueue(lane: Lane, fairness: Fairness): LaneQueue {
  const lines: Line[] = [];
  const byKey = new Map<string, Line>();
  const again = createLine('', { isOrdinary: false, isFirst: true });
  let jobs = 0;
  let tokens = 0;
  let light = 0;
  let arrivals = 0;

  function lineFor(waiter: Waiter): Line {
    const { ask } = waiter;
    if (ask.again) return again;
    const ordinary = isOrdinary(ask);
    const key = `${isBatchLine(ask) ? 'line' : ''}\n${ordinary ? modelOf(ask.job) : '\n'}\n${ask.job.tenant ?? ''}`;
    const known = byKey.get(key);
    if (known !== undefined) return known;
    const line = createLine(key, { isOrdinary: ordinary, isFirst: false });
    line.index = lines.push(line) - 1;
    byKey.set(key, line);
    return line;
  }

  function drop(line: Line): void {
    if (line.isFirst) return;
    byKey.delete(line.key);
    const last = lines.pop();
    if (last === undefined || last === line) return;
    lines[line.index] = last;
    last.index = line.index;
  }

  /** It, the first one of its tenant, or the first of its tenant's other kind if that has its turn. */
  function inTurn(waiter: Waiter): Waiter {
    const { tenant } = waiter;
    // Lines of batches are never online.
    if (lane === 'online' || isBatchLine(waiter.ask) !== tenant.lineWasLast) return waiter;
    let other: Waiter | undefined;
    for (const { cursor } of lines) {
      if (cursor?.tenant !== tenant || isBatchLine(cursor.ask) === tenant.lineWasLast) continue;
      if (other === undefined || cursor.order < other.order) other = cursor;
    }
    return other ?? waiter;
  }

  return {
    fairness,
    lines,
    again,
    get jobs() {
      return jobs;
    },
    get tokens() {
      return tokens;
    },
    get light() {
      return light;
    },
    add(waiter) {
      const line = lineFor(waiter);
      waiter.order = arrivals += 1;
      // Online the one that lost its place last goes first; batch jobs are taken back in crowds and keep their order.
      if (line.isFirst && lane === 'online') linkFirst(line, waiter);
      else linkLast(line, waiter);
      jobs += 1;
      tokens += waiter.tokens;
      if (!waiter.ask.job.generates) light += 1;
      waiter.tenant.waiting += 1;
    },
    remove(waiter) {
      const { line } = waiter;
      if (line === undefined) return false;
      unlink(line, waiter);
      if (line.jobs === 0) drop(line);
      jobs -= 1;
      tokens -= waiter.tokens;
      if (!waiter.ask.job.generates) light -= 1;
      waiter.tenant.waiting -= 1;
      return true;
    },
    begin() {
      again.cursor = again.first;
      again.passed = 0;
      for (const line of lines) {
        line.cursor = line.first;
        line.passed = 0;
        const tenant = line.first?.tenant;
        if (tenant !== undefined) tenant.walked = tenant.counter;
      }
    },
    next() {
      if (again.cursor !== undefined) return again.cursor;
      let best: Waiter | undefined;
      for (const { cursor } of lines) {
        if (cursor === undefined) continue;
        if (best === undefined || isBefore(cursor, best)) best = cursor;
      }
      return best === undefined ? undefined : inTurn(best);
    },
    oldest() {
      let best = again.cursor;
      for (const { cursor } of lines)
        if (cursor !== undefined && (best === undefined || cursor.order < best.order)) best = cursor;
      return best;
    },
    step({ line, next }) {
      if (line !== undefined) line.cursor = next;
    },
    skipLine({ line }) {
      if (line !== undefined) line.cursor = undefined;
    },
    pass({ line, tenant, ask, tokens: promptTokens }) {
      if (line === undefined) return;
      line.passed += 1;
      fairness.passed(tenant, ask.job, promptTokens);
    },
    depth(nowMs) {
      let oldest = again.first?.sinceMs ?? Infinity;
      const tenants = new Set<object>();
      for (let waiter = again.first; waiter !== undefined; waiter = waiter.next) {
        oldest = Math.min(oldest, waiter.sinceMs);
        tenants.add(waiter.tenant);
      }
      for (const { first } of lines) {
        if (first === undefined) continue;
        oldest = Math.min(oldest, first.sinceMs);
        tenants.add(first.tenant);
      }
      const depth = { lane, jobs, tokens, tenants: tenants.size };
      return oldest === Infinity ? depth : { ...depth, oldestMs: nowMs - oldest };
    },
    toArray() {
      const all: Waiter[] = [];
      for (const line of [again, ...lines])
        for (let waiter = line.first; waiter !== undefined; waiter = waiter.next) all.push(waiter);
      return all;
    },
  };
}

function isBefore(one: Waiter, other: Waiter): boolean {
  if (one.tenant === other.tenant) return one.order < other.order;
  return (
    one.tenant.walked < other.tenant.walked || (one.tenant.walked === other.tenant.walked && one.order < other.order)
  );
}

function createLine(key: string, is: { readonly isOrdinary: boolean; readonly isFirst: boolean }): Line {
  return {
    key,
    isOrdinary: is.isOrdinary,
    isFirst: is.isFirst,
    jobs: 0,
    first: undefined,
    last: undefined,
    cursor: undefined,
    passed: 0,
    index: -1,
  };
}

function linkLast(line: Line, waiter: Waiter): void {
  waiter.line = line;
  waiter.previous = line.last;
  if (line.last === undefined) line.first = waiter;
  else line.last.next = waiter;
  line.last = waiter;
  line.jobs += 1;
}

function linkFirst(line: Line, waiter: Waiter): void {
  waiter.line = line;
  waiter.next = line.first;
  if (line.first === undefined) line.last = waiter;
  else line.first.previous = waiter;
  line.first = waiter;
  line.jobs += 1;
}

/** Leaves no link behind: a job that runs for long must not keep all those that waited behind it. */
function unlink(line: Line, waiter: Waiter): void {
  const { previous, next } = waiter;
  if (line.cursor === waiter) line.cursor = next;
  if (previous === undefined) line.first = next;
  else previous.next = next;
  if (next === undefined) line.last = previous;
  else next.previous = previous;
  waiter.line = undefined;
  waiter.previous = undefined;
  waiter.next = undefined;
  line.jobs -= 1;
}
