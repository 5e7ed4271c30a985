/**
 * Several logs as one, in the order of time: rotated files in whatever order they were named, and those of several processes
 * side by side. A file is opened when its turn comes, so that a year of rotated files never is open at once.
 */
import { type LineCounts, type LogItem, type OpenLog, readItems } from './report-input.ts';

export interface LogSource<Tag> {
  readonly path: string;
  readonly tag: Tag;
}

export interface ReadProblem {
  readonly path: string;
  /** for people */
  readonly why: string;
  /** false: nothing of it was read */
  readonly partly: boolean;
}

export interface MergeDeps {
  readonly open: OpenLog;
  readonly counts: LineCounts;
  readonly problem: (problem: ReadProblem) => void;
}

export async function readMerged<Tag>(
  sources: readonly LogSource<Tag>[],
  deps: MergeDeps,
  take: (item: LogItem, tag: Tag) => void,
): Promise<void> {
  const later = await inOrder(sources, deps);
  const active: Reading<Tag>[] = [];
  for (;;) {
    await activate(later, active, deps);
    const first = earliest(active);
    if (first === undefined) return;
    const untilMs = Math.min(
      later[0]?.firstMs ?? Number.POSITIVE_INFINITY,
      ...active.filter((other) => other !== first).map(headMs),
    );
    do {
      const item = first.items[first.at];
      if (item !== undefined) take(item, first.tag);
      first.at += 1;
    } while (first.at < first.items.length && headMs(first) <= untilMs);
    if (first.at >= first.items.length && !(await refill(first, deps))) active.splice(active.indexOf(first), 1);
  }
}

interface Later<Tag> extends LogSource<Tag> {
  readonly firstMs: number;
}

interface Reading<Tag> extends LogSource<Tag> {
  readonly iterator: AsyncIterator<LogItem[]>;
  items: readonly LogItem[];
  at: number;
  begun: boolean;
}

function headMs<Tag>({ items, at }: Reading<Tag>): number {
  return items[at]?.line.timeMs ?? Number.POSITIVE_INFINITY;
}

function earliest<Tag>(active: readonly Reading<Tag>[]): Reading<Tag> | undefined {
  let first = active[0];
  for (const reading of active) if (first === undefined || headMs(reading) < headMs(first)) first = reading;
  return first;
}

/** By their first line's time; one that has none, and stdin, which can't be read twice, come first. */
async function inOrder<Tag>(sources: readonly LogSource<Tag>[], deps: MergeDeps): Promise<Later<Tag>[]> {
  const later: Later<Tag>[] = [];
  for (const { path, tag } of sources) {
    const firstMs = path === '-' || sources.length === 1 ? undefined : await firstTime(path, deps.open);
    later.push({ path, tag, firstMs: firstMs ?? Number.NEGATIVE_INFINITY });
  }
  return later.toSorted((a, b) => a.firstMs - b.firstMs);
}

/** What goes wrong here goes wrong again when it is read, and is told then. */
async function firstTime(path: string, open: OpenLog): Promise<number | undefined> {
  try {
    for await (const [item] of readItems(open(path), noCounts())) return item?.line.timeMs;
  } catch {
    return undefined;
  }
  return undefined;
}

export function noCounts(): LineCounts {
  return { lines: 0, requests: 0, others: 0, malformed: 0, foreign: 0 };
}

/** Opens all whose turn has come: at least one, if there is any and none is open. */
async function activate<Tag>(later: Later<Tag>[], active: Reading<Tag>[], deps: MergeDeps): Promise<void> {
  for (let next = later[0]; next !== undefined; next = later[0]) {
    const first = earliest(active);
    if (first !== undefined && next.firstMs > headMs(first)) return;
    later.shift();
    const { path, tag } = next;
    const iterator = readItems(deps.open(path), deps.counts);
    const reading: Reading<Tag> = { path, tag, iterator, items: [], at: 0, begun: false };
    if (await refill(reading, deps)) active.push(reading);
  }
}

/** @returns whether there is more of it */
async function refill<Tag>(reading: Reading<Tag>, deps: MergeDeps): Promise<boolean> {
  try {
    const next = await reading.iterator.next();
    reading.items = next.done === true ? [] : next.value;
    reading.at = 0;
    reading.begun ||= next.done !== true;
    return next.done !== true;
  } catch (error) {
    deps.problem({ path: reading.path, why: reasonOf(error), partly: reading.begun });
    return false;
  }
}

/** Why a file can't be read, in a sentence for people. */
export function reasonOf(error: unknown): string {
  const { code, message } = error instanceof Error ? (error as NodeJS.ErrnoException) : { message: String(error) };
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES') return 'this user may not read it';
  if (code === 'EISDIR') return 'it is a directory; name the files in it';
  if (code === 'Z_BUF_ERROR') return 'its compressed data ends too soon';
  return message;
}
