/**
 * The slowest requests, and which phase took their time: until the first token (what a reader waits for) and until the end.
 * Keeps only the worst of each.
 */
import { generates, type Row } from './row.ts';
import { ownText } from './tally.ts';

/**
 * `upload`: its body came slowly; `failed_attempts`: backends that failed before this one; `engine`: in the engine before the
 * first token, where its queue and the prefill can't be told apart; `after`: from the last token to the end
 */
export type SlowPhase =
  | 'upload'
  | 'queue'
  | 'failed_attempts'
  | 'connect'
  | 'overhead'
  | 'engine_queue'
  | 'prefill'
  | 'engine'
  | 'decode'
  | 'stalled'
  | 'after'
  | 'answer';

export interface SlowRequest {
  readonly requestId: string;
  readonly startedAt: string;
  readonly outcome: string;
  readonly reason?: string;
  readonly model?: string;
  readonly backend?: string;
  readonly warmth: string;
  readonly traceId?: string;
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly outputTokens?: number;
  readonly ttftMs?: number;
  readonly tpotMs?: number;
  readonly durationMs: number;
  /** where the time went, ms, largest first */
  readonly phases: readonly { readonly phase: SlowPhase; readonly ms: number }[];
}

export interface SlowestResult {
  /** until the first token, or until they ended without one */
  readonly toFirstToken: readonly SlowRequest[];
  /** until the end */
  readonly whole: readonly SlowRequest[];
}

export interface Slowest {
  add(row: Row): void;
  result(): SlowestResult;
}

export function createSlowest(most: number): Slowest {
  const toFirstToken = new Worst(most);
  const whole = new Worst(most);
  return {
    add(row) {
      if (!generates(row)) return;
      whole.add(row, row.durationMs, phasesOf);
      if (row.streamed) toFirstToken.add(row, row.ttftMs ?? row.durationMs, phasesToFirstToken);
    },
    result: () => ({ toFirstToken: toFirstToken.requests(), whole: whole.requests() }),
  };
}

type Phases = SlowRequest['phases'];

class Worst {
  readonly #kept: { readonly ms: number; readonly request: SlowRequest }[] = [];
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  add(row: Row, ms: number, phases: (row: Row) => Phases): void {
    const least = this.#kept.at(-1);
    if (this.#kept.length >= this.#most && (least === undefined || ms <= least.ms)) return;
    const at = this.#kept.findIndex((other) => ms > other.ms);
    this.#kept.splice(at < 0 ? this.#kept.length : at, 0, { ms, request: requestOf(row, phases(row)) });
    if (this.#kept.length > this.#most) this.#kept.pop();
  }

  requests(): readonly SlowRequest[] {
    return this.#kept.map(({ request }) => request);
  }
}

function requestOf(row: Row, phases: Phases): SlowRequest {
  const kept = (name: 'reason' | 'model' | 'backend' | 'traceId') =>
    row[name] === undefined ? {} : { [name]: ownText(row[name]) };
  const same = (name: keyof SlowRequest & keyof Row) => (row[name] === undefined ? {} : { [name]: row[name] });
  return {
    requestId: ownText(row.requestId),
    startedAt: new Date(row.startedAtMs).toISOString(),
    outcome: ownText(row.outcome),
    ...kept('reason'),
    ...kept('model'),
    ...kept('backend'),
    warmth: ownText(row.warmth),
    ...kept('traceId'),
    ...same('promptTokens'),
    ...same('cachedTokens'),
    ...same('outputTokens'),
    ...same('ttftMs'),
    ...same('tpotMs'),
    durationMs: row.durationMs,
    phases,
  };
}

/** Before it was sent to the backend that answered. */
function beforeSent(row: Row): [SlowPhase, number][] {
  const { queueMs = 0, connectMs = 0, overheadMs = 0, sentMs } = row;
  const parts: [SlowPhase, number][] = [
    ['queue', queueMs],
    ['connect', connectMs],
    ['overhead', overheadMs],
  ];
  const lostMs = sentMs === undefined ? 0 : sentMs - queueMs - connectMs - overheadMs;
  if ((row.attempts ?? 1) > 1) parts.push(['failed_attempts', lostMs]);
  return parts;
}

/** From its last byte (what it took to arrive comes first, and is in no figure) to its first token. */
function partsToFirstToken(row: Row): [SlowPhase, number][] {
  const { ttftMs, engineQueueMs, prefillMs } = row;
  const before = beforeSent(row);
  const spentMs = before.reduce((sum, [, ms]) => sum + ms, 0);
  const engineMs = Math.max(0, (ttftMs ?? row.durationMs) - spentMs);
  if (ttftMs === undefined || engineQueueMs === undefined || prefillMs === undefined)
    return [['upload', row.bodyMs ?? 0], ...before, ['engine', engineMs]];
  const prefill = Math.min(prefillMs, engineMs);
  return [['upload', row.bodyMs ?? 0], ...before, ['engine_queue', engineMs - prefill], ['prefill', prefill]];
}

function phasesToFirstToken(row: Row): Phases {
  return largestFirst(partsToFirstToken(row));
}

function phasesOf(row: Row): Phases {
  const { ttftMs, e2eMs, durationMs, stallMs = 0 } = row;
  if (!row.streamed) {
    const before = beforeSent(row);
    const spentMs = before.reduce((sum, [, ms]) => sum + ms, 0);
    const prefillMs = Math.min(row.prefillMs ?? 0, Math.max(0, durationMs - spentMs));
    return largestFirst([
      ['upload', row.bodyMs ?? 0],
      ...before,
      ['prefill', prefillMs],
      ['answer', durationMs - spentMs - prefillMs],
    ]);
  }
  if (ttftMs === undefined) return phasesToFirstToken(row);
  const lastMs = e2eMs ?? durationMs;
  return largestFirst([
    ...partsToFirstToken(row),
    ['decode', Math.max(0, lastMs - ttftMs - stallMs)],
    ['stalled', stallMs],
    ['after', durationMs - lastMs],
  ]);
}

function largestFirst(parts: readonly [SlowPhase, number][]): Phases {
  return parts
    .filter(([, ms]) => ms >= 0.001)
    .map(([phase, ms]) => ({ phase, ms: Math.round(ms * 1000) / 1000 }))
    .toSorted((a, b) => b.ms - a.ms);
}
