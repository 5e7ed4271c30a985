/**
 * The slowest requests, and which phase took their time: until the first token (what a reader waits for) and until the end.
 * The phases are cut as for objectives (`slo/time-spent.ts`). Keeps only the worst of each.
 */
import type { SloPhase } from '../../domain/assessment.ts';
import { courseSpent } from '../slo/time-spent.ts';
import { courseOf } from './course.ts';
import { generates, type Row } from './row.ts';
import { ownText } from './tally.ts';

/** The words of objectives, and what comes before and after all of them. */
export type SlowPhase =
  | SloPhase
  /** until the request's last byte had come, which is in no figure */
  | 'upload'
  /** from the last token to the end */
  | 'after';

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

/** To its first token, or to its end where none came. */
function phasesToFirstToken(row: Row): Phases {
  return phasesUntil(row, row.ttftMs ?? row.durationMs);
}

function phasesOf(row: Row): Phases {
  const { streamed, ttftMs, e2eMs, durationMs } = row;
  return phasesUntil(row, streamed && ttftMs !== undefined ? (e2eMs ?? durationMs) : durationMs, durationMs);
}

/** Largest first. */
function phasesUntil(row: Row, untilMs: number, endMs = untilMs): Phases {
  const parts: (readonly [SlowPhase, number])[] = [
    ['upload', row.bodyMs ?? 0],
    ...courseSpent(courseOf(row), untilMs),
    ['after', endMs - untilMs],
  ];
  return parts
    .filter(([, ms]) => ms >= 0.001)
    .map(([phase, ms]) => ({ phase, ms: Math.round(ms * 1000) / 1000 }))
    .toSorted((a, b) => b.ms - a.ms);
}
