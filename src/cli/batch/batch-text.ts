/** Batches in words, for people: the bar of one that is waited for, its end, its whole account, the list. Pure. */
import { printable } from '../doctor/finding.ts';
import { isOver, type BatchObject } from './batch-object.ts';

export interface Progress {
  readonly batch: BatchObject;
  readonly nowMs: number;
  readonly linesPerSecond: number | undefined;
}

const mostProblems = 50;
const mostPlaces = 5;
const widestBar = 30;

/** One line that fits, bar first; what has no room is left out, the least wanted first. */
export function progressBar(progress: Progress, columns: number): string {
  const { batch } = progress;
  if (batch.status !== 'in_progress' && batch.total === 0) return cut([batch.status, ...dueOf(progress)], columns);
  const done = batch.completed + batch.failed;
  const share = batch.total === 0 ? 0 : Math.min(1, done / batch.total);
  const parts = partsOf(progress);
  let shown = parts;
  while (shown.length > 1 && joined(shown).length + 14 > columns) shown = shown.slice(0, -1);
  const room = Math.min(widestBar, columns - joined(shown).length - 4);
  if (room < 4) return cut(shown, columns);
  const full = Math.floor(share * room);
  return `[${'#'.repeat(full)}${'-'.repeat(room - full)}]  ${joined(shown)}`;
}

/** The same without a bar. */
export function progressLine(progress: Progress): string {
  const { batch } = progress;
  return joined([`${batch.id} ${batch.status}`, ...(batch.total === 0 ? dueOf(progress) : partsOf(progress, false))]);
}

interface LineCounts {
  readonly answered: string;
  /** Failed, or at the end without an answer for another reason. Empty: none. */
  readonly unanswered: string;
  /** Empty: none. */
  readonly toCome: string;
}

/** At a cancel or an expiry servers count what was not run among the failed lines, or among none: they can't be told apart. */
function lineCounts(batch: BatchObject): LineCounts {
  const { status, total, completed, failed } = batch;
  const answered = `${count(completed)} of ${count(total)} answered`;
  const some = (lines: number, what: string) => (lines > 0 ? `${count(lines)} ${what}` : '');
  if (status === 'cancelling') return { answered, unanswered: '', toCome: '' };
  if (status === 'cancelled' || status === 'expired')
    return { answered, unanswered: some(total - completed, 'without an answer'), toCome: '' };
  const left = isOver(batch) ? 0 : total - completed - failed;
  return { answered, unanswered: some(failed, 'failed'), toCome: some(left, 'to come') };
}

/** The same as one text. */
export function lineCountsText(batch: BatchObject): string {
  const { answered, unanswered, toCome } = lineCounts(batch);
  return [answered, unanswered, toCome].filter((text) => text !== '').join(', ');
}

/** @param bar there is one, which shows what is to come */
function partsOf(progress: Progress, bar = true): readonly string[] {
  const { batch, linesPerSecond } = progress;
  const done = batch.completed + batch.failed;
  const left = batch.total - done;
  const leftSeconds = linesPerSecond === undefined || linesPerSecond <= 0 ? undefined : left / linesPerSecond;
  const working = batch.status === 'in_progress';
  const { answered, unanswered, toCome } = lineCounts(batch);
  return [
    ...(working || bar ? [percent(done, batch.total)] : []),
    ...[answered, unanswered, bar ? '' : toCome].filter((text) => text !== ''),
    ...(bar && !working ? [batch.status] : []),
    ...(working && linesPerSecond !== undefined ? [`${rate(linesPerSecond)}/s`] : []),
    ...(working && leftSeconds !== undefined && left > 0 ? [`${time(leftSeconds)} left`] : []),
    ...(isOver(batch) ? [] : dueOf(progress, working ? leftSeconds : undefined)),
  ];
}

/** How long until its deadline, and by how much it will miss it at this pace. */
function dueOf({ batch, nowMs }: Progress, leftSeconds?: number): readonly string[] {
  if (batch.expiresAt === undefined) return [];
  const dueSeconds = batch.expiresAt - nowMs / 1000;
  if (dueSeconds <= 0) return ['past its deadline'];
  const late =
    leftSeconds !== undefined && leftSeconds > dueSeconds ? `, ${time(leftSeconds - dueSeconds)} too late` : '';
  return [`due in ${timeLeft(dueSeconds)}${late}`];
}

/** What became of it, one line; then each problem of its file. */
export function endText(batch: BatchObject): string {
  const took =
    batch.endedAt === undefined || batch.createdAt === undefined ? '' : ` in ${time(batch.endedAt - batch.createdAt)}`;
  const lines = batch.total === 0 ? '' : `: ${lineCountsText(batch).replace(' answered', ' lines answered')}`;
  return [
    `${batch.id} ${batch.status}${lines}${took}`,
    ...(batch.usage === undefined || batch.total === 0 ? [] : [`Tokens: ${usageText(batch.usage)}`]),
    ...problemLines(batch),
  ].join('\n');
}

/** Which line, what about it. */
export function problemLines({ problems }: BatchObject): readonly string[] {
  const same = new Map<string, { readonly text: string; readonly lines: number[]; times: number }>();
  for (const { line, code, message } of problems) {
    const text = `${message}${code === undefined ? '' : ` (${code})`}`;
    const known = same.get(text) ?? { text, lines: [], times: 0 };
    same.set(text, known);
    known.times += 1;
    if (line !== undefined) known.lines.push(line);
  }
  const shown = [...same.values()].slice(0, mostProblems);
  const more = problems.length - shown.reduce((sum, { times }) => sum + times, 0);
  const lines = shown.map((each) => printable(`  ${placesText(each)}${each.text}`));
  return more > 0 ? [...lines, `  and ${count(more)} more; --json prints them all`] : lines;
}

/** `lines 1, 2, 3 and 97 more: ` */
function placesText({ lines, times }: { readonly lines: readonly number[]; readonly times: number }): string {
  if (lines.length === 0) return times > 1 ? `${count(times)} times: ` : '';
  if (lines.length === 1) return `line ${lines[0]}: `;
  const more = lines.length - mostPlaces;
  return `lines ${lines.slice(0, mostPlaces).join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}: `;
}

/** One batch, a line for each fact. */
export function statusText(progress: Progress): string {
  const { batch } = progress;
  const rows: (readonly [string, string | undefined])[] = [
    ['batch', batch.id],
    ['status', batch.status],
    ['endpoint', batch.endpoint],
    ['model', batch.model],
    ['lines', batch.total === 0 ? undefined : joined(partsOf(progress, false))],
    ['tokens', batch.usage === undefined || batch.total === 0 ? undefined : usageText(batch.usage)],
    ['created', moment(batch.createdAt)],
    [isOver(batch) ? 'ended' : 'due', moment(isOver(batch) ? batch.endedAt : batch.expiresAt)],
    ['answers', batch.outputFileId],
    ['errors', batch.errorFileId],
    ['metadata', batch.metadata.map(([key, value]) => `${key}=${value}`).join(', ') || undefined],
  ];
  const lines = rows.flatMap(([name, value]) => (value === undefined ? [] : [`${name.padEnd(10)}${printable(value)}`]));
  return [...lines, ...problemLines(batch)].join('\n');
}

export function listText(batches: readonly BatchObject[], nowMs: number): string {
  const rows = batches.map((batch) => [
    batch.id,
    batch.status,
    ...countCells(batch),
    batch.createdAt === undefined ? '' : `${time(nowMs / 1000 - batch.createdAt)} ago`,
    isOver(batch) || batch.expiresAt === undefined ? '' : `due in ${timeLeft(batch.expiresAt - nowMs / 1000)}`,
    batch.model ?? '',
  ]);
  const widths = rows.reduce<number[]>(
    (widest, row) => row.map((cell, at) => Math.max(cell.length, widest[at] ?? 0)),
    [],
  );
  return rows
    .map((row) =>
      printable(
        row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .filter((cell) => cell !== '')
          .join('  ')
          .trimEnd(),
      ),
    )
    .join('\n');
}

function countCells(batch: BatchObject): readonly string[] {
  if (batch.total === 0) return ['', '', ''];
  const { answered, unanswered, toCome } = lineCounts(batch);
  return [answered, unanswered, toCome];
}

function usageText({ input, cached, output }: NonNullable<BatchObject['usage']>): string {
  return `${count(input)} in (${count(cached)} from caches), ${count(output)} out`;
}

function moment(seconds: number | undefined): string | undefined {
  return seconds === undefined
    ? undefined
    : `${new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function percent(done: number, total: number): string {
  // 100 % is said when all of it is done, not before.
  const tenths = total === 0 ? 0 : Math.floor((1000 * done) / total);
  return `${(tenths / 10).toFixed(1)} %`;
}

function rate(perSecond: number): string {
  if (perSecond >= 100) return count(Math.round(perSecond));
  return perSecond >= 10 ? perSecond.toFixed(1) : perSecond.toFixed(2);
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** `42s`, `3m52s`, `1h05m`, `2d03h` */
export function time(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h${two((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86_400)}d${two((whole % 86_400) / 3600)}h`;
}

/**
 * Until a deadline: in hours up to four days, so that the usual window of a day is 24h00m and then 23h59m, and never more than
 * there is.
 */
function timeLeft(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 3600 || whole >= 4 * 86_400) return time(whole);
  return `${Math.floor(whole / 3600)}h${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')}m`;
}

function joined(parts: readonly string[]): string {
  return parts.join('  ');
}

function cut(parts: readonly string[], columns: number): string {
  return joined(parts).slice(0, columns);
}
