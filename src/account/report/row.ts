/**
 * One request as its log line tells it: the fields of `export/request-log.ts` read back, in either log format. Must not
 * guess: what the line leaves out is absent here.
 */
import { generatingEndpoints } from '../../domain/names.ts';
import type { SketchData } from '../../domain/sketch.ts';
import type { LogLine } from '../../platform/log-line.ts';
import { parseSketchText } from '../../platform/sketch-text.ts';

export interface RowBreach {
  readonly bound: string;
  readonly phase: string;
  readonly valueMs: number;
  readonly limitMs: number;
}

export interface RowMiss {
  readonly cause: string;
  readonly tokens: number;
}

/** Times in ms; those that end in `AtMs` since the epoch, all others durations. */
export interface Row {
  readonly startedAtMs: number;
  /** when the line was written */
  readonly endedAtMs: number;
  readonly requestId: string;
  readonly outcome: string;
  readonly reason?: string;
  readonly phase?: string;
  readonly status?: number;
  readonly endpoint: string;
  readonly model?: string;
  readonly backend?: string;
  readonly engine?: string;
  readonly lane: string;
  readonly streamed: boolean;
  readonly warmth: string;
  readonly attempts?: number;
  readonly routeReason?: string;
  readonly routePolicy?: string;
  /** of the prompt, as believed when it was sent: held by the best backend, and where it went */
  readonly reusableTokens?: number;
  readonly predictedTokens?: number;
  readonly missCause?: string;
  readonly divergedAt?: string;
  /** why prompt tokens were computed; absent unless that is known */
  readonly missed?: readonly RowMiss[];
  readonly traceId?: string;
  /** one word per choice */
  readonly finish: readonly string[];
  readonly marks: readonly string[];
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly outputTokens?: number;
  readonly reasoningTokens?: number;
  /** who counted the output */
  readonly tokensFrom?: string;
  readonly ttftMs?: number;
  /** absent: no answer token came, or it isn't known when */
  readonly ttfaMs?: number;
  readonly tpotMs?: number;
  readonly tpotWindow?: string;
  readonly maxItlMs?: number;
  /** gaps in seconds */
  readonly itl?: SketchData;
  readonly e2eMs?: number;
  readonly durationMs: number;
  readonly bodyMs?: number;
  /** from the last byte: negative where a body came while it waited */
  readonly admittedMs?: number;
  readonly sentMs?: number;
  /** only where no first token is told */
  readonly headMs?: number;
  readonly queueMs?: number;
  readonly connectMs?: number;
  readonly prefillMs?: number;
  readonly engineQueueMs?: number;
  readonly overheadMs?: number;
  readonly overheadPerEventMicros?: number;
  readonly stallMs?: number;
  /** of all its stalls; absent where there was no more than one */
  readonly stalledMs?: number;
  readonly stalledBy?: string;
  readonly stalledByTokens?: number;
  readonly slo?: string;
  readonly sloMet?: boolean;
  readonly sloBroke: readonly RowBreach[];
  readonly benefitTokens?: number;
  /** absent: not checked; empty: usable */
  readonly useless?: readonly string[];
  readonly retry: boolean;
  /** absent in older logs */
  readonly decodeConcurrency?: number;
}

/** @returns undefined when the line lacks what every request's line has, or holds what it can't hold */
export function readRow({ fields, timeMs }: LogLine): Row | undefined {
  const requestId = word(fields['requestId']);
  const outcome = word(fields['outcome']);
  const durationMs = amount(fields['durationMs']);
  if (requestId === undefined || outcome === undefined || durationMs === undefined) return undefined;
  if (!isMoment(timeMs)) return undefined;
  const started = word(fields['startedAt']);
  const startedAtMs = started === undefined ? Number.NaN : Date.parse(started);
  const row: Writable<Row> = {
    // A log older than this field: the line is written when the request ends.
    startedAtMs: isMoment(startedAtMs) ? startedAtMs : timeMs - durationMs,
    endedAtMs: timeMs,
    requestId,
    outcome,
    endpoint: word(fields['endpoint']) ?? 'other',
    lane: word(fields['lane']) ?? 'online',
    streamed: isTrue(fields['stream']),
    warmth: word(fields['warmth']) ?? 'unknown',
    finish: words(fields['finish']),
    marks: words(fields['marks']),
    durationMs,
    sloBroke: words(fields['sloBroke']).flatMap(breachOf),
    retry: isTrue(fields['retry']),
  };
  for (const name of wordNames) {
    const value = word(fields[name]);
    if (value !== undefined) row[name] = value;
  }
  for (const name of amountNames) {
    const value = amount(fields[name]);
    if (value !== undefined) row[name] = value;
  }
  addRest(row, fields);
  return row;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };

const wordNames = [
  'reason',
  'phase',
  'model',
  'backend',
  'engine',
  'routeReason',
  'routePolicy',
  'missCause',
  'divergedAt',
  'traceId',
  'tokensFrom',
  'tpotWindow',
  'stalledBy',
  'slo',
] as const satisfies readonly (keyof Row)[];

const amountNames = [
  'status',
  'attempts',
  'promptTokens',
  'cachedTokens',
  'outputTokens',
  'reasoningTokens',
  'reusableTokens',
  'predictedTokens',
  'ttftMs',
  'tpotMs',
  'maxItlMs',
  'e2eMs',
  'bodyMs',
  'sentMs',
  'headMs',
  'queueMs',
  'connectMs',
  'prefillMs',
  'engineQueueMs',
  'overheadMs',
  'overheadPerEventMicros',
  'stallMs',
  'stalledMs',
  'stalledByTokens',
  'decodeConcurrency',
] as const satisfies readonly (keyof Row)[];

function addRest(row: Writable<Row>, fields: LogLine['fields']): void {
  // The line has it only where it is another than `ttftMs`.
  const ttfaMs = amount(fields['ttfaMs']) ?? (isTrue(fields['noAnswer']) ? undefined : row.ttftMs);
  if (ttfaMs !== undefined) row.ttfaMs = ttfaMs;
  const itl = fields['itl'];
  const gaps = typeof itl === 'string' && itl.length <= longestSketch ? parseSketchText(itl) : undefined;
  if (gaps !== undefined) row.itl = gaps;
  if (fields['sloMet'] !== undefined) row.sloMet = isTrue(fields['sloMet']);
  const admittedMs = signed(fields['admittedMs']);
  if (admittedMs !== undefined) row.admittedMs = admittedMs;
  const benefit = signed(fields['benefitTokens']);
  if (benefit !== undefined) row.benefitTokens = benefit;
  if (fields['missed'] !== undefined) row.missed = words(fields['missed']).flatMap(missOf);
  if (fields['useless'] !== undefined) row.useless = words(fields['useless']);
}

const longestWord = 1024;
const longestSketch = 8192;

function word(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' && value.length <= longestWord ? value : undefined;
}

/** A list: an array in JSON, words with commas in logfmt. */
function words(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.map(String);
  return typeof value === 'string' && value !== '' ? value.split(',') : [];
}

function signed(value: unknown): number | undefined {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined;
}

/** In ms 31 years; more tokens than any request has. Larger ones are no figures: they would be all that a mean shows. */
const largestAmount = 1e12;

function amount(value: unknown): number | undefined {
  const number = signed(value);
  return number === undefined || number < 0 || number > largestAmount ? undefined : number;
}

/** Before the year 10000: later ones can't be written as others are. */
function isMoment(ms: number): boolean {
  return ms >= 0 && ms < 253_402_300_800_000;
}

function isTrue(value: unknown): boolean {
  return value === true || value === 'true';
}

function missOf(text: string): readonly RowMiss[] {
  const at = text.lastIndexOf(':');
  const tokens = at < 1 ? undefined : amount(text.slice(at + 1));
  return tokens === undefined ? [] : [{ cause: text.slice(0, at), tokens }];
}

function breachOf(text: string): readonly RowBreach[] {
  const [bound, phase, figures = ''] = text.split(':');
  const [valueMs, limitMs] = figures.split('/').map(amount);
  if (bound === undefined || phase === undefined || valueMs === undefined || limitMs === undefined) return [];
  return [{ bound, phase, valueMs, limitMs }];
}

/** Whether tokens are generated for it: only such requests have a TTFT and what follows from it. */
export function generates(row: Pick<Row, 'endpoint'>): boolean {
  return generatingEndpoints.has(row.endpoint);
}
