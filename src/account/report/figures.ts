/**
 * The figures that a report spreads out: which value of a row each is, and, where a row has none, why. A row without a value
 * is counted under that reason, never passed over. Pure.
 */
import { failedOutcomes } from '../../domain/names.ts';
import { Sketch } from '../../platform/sketch.ts';
import { generates, type Row } from './row.ts';
import { Tally } from './tally.ts';

export const figureNames = ['ttft', 'ttfa', 'tpot', 'itl', 'e2e', 'queue', 'overhead'] as const;
export type FigureName = (typeof figureNames)[number];

/** Shares of the distribution that are told, by their names. */
export const quantiles = { p50: 0.5, p90: 0.9, p95: 0.95, p99: 0.99, p999: 0.999 } as const;
export type QuantileName = keyof typeof quantiles;

export interface Spread extends Readonly<Record<QuantileName, number>> {
  readonly mean: number;
  readonly min: number;
  readonly max: number;
}

export interface FigureResult {
  /** values: one per request; of `itl`, one per gap */
  readonly values: number;
  /** requests that have a value; of these, those that did not end well */
  readonly requests: number;
  readonly notOk: number;
  /** ms; absent without a value */
  readonly spread?: Spread;
  /** requests without a value, by reason; see `whyAbsent` */
  readonly without: Readonly<Record<string, number>>;
  /** of these, requests that failed before they could have one: a percentile above their share of all is "never" */
  readonly failedBefore: number;
  /** Percentiles that are "never" when those are counted in. */
  readonly never: readonly QuantileName[];
}

/** ms; `itl` is no single value */
export function valueOf(row: Row, figure: Exclude<FigureName, 'itl'>): number | undefined {
  switch (figure) {
    case 'ttft':
      return row.ttftMs;
    case 'ttfa':
      return row.ttfaMs;
    case 'tpot':
      return row.tpotMs;
    case 'e2e':
      return row.e2eMs;
    case 'queue':
      return row.queueMs;
    case 'overhead':
      return row.overheadMs;
  }
}

const streamFigures: ReadonlySet<FigureName> = new Set(['ttft', 'ttfa', 'tpot', 'itl']);

export interface Absence {
  readonly reason: string;
  readonly failed: boolean;
}

/**
 * `other_endpoint`, `not_streamed`: can have none; `ended_OUTCOME`: ended before; `single_token`, `hidden_reasoning`,
 * `unknown_count` …: of TPOT, as `tpotWindow` has it; `no_answer`: no token but reasoning; `not_in_log`: the line has none
 */
export function whyAbsent(row: Row, figure: FigureName): Absence {
  if (streamFigures.has(figure)) {
    if (!generates(row)) return { reason: 'other_endpoint', failed: false };
    if (!row.streamed) return { reason: 'not_streamed', failed: false };
  }
  const window = row.tpotWindow;
  if (figure === 'tpot' && row.ttftMs !== undefined && window?.startsWith('none_') === true)
    return { reason: window.slice('none_'.length), failed: false };
  if (figure === 'itl' && row.ttftMs !== undefined)
    return { reason: row.maxItlMs === undefined ? 'single_token' : 'not_in_log', failed: false };
  if (row.outcome !== 'ok') return { reason: `ended_${row.outcome}`, failed: failedOutcomes.has(row.outcome) };
  if (figure === 'ttfa' && row.ttftMs !== undefined) return { reason: 'no_answer', failed: false };
  return { reason: streamFigures.has(figure) ? 'no_token' : 'unknown', failed: false };
}

export class FigureSums {
  readonly sketch = new Sketch();
  #requests = 0;
  #notOk = 0;
  #failedBefore = 0;
  readonly #without = new Tally(40);
  readonly #figure: FigureName;

  constructor(figure: FigureName) {
    this.#figure = figure;
  }

  add(row: Row): void {
    if (this.#observe(row)) {
      this.#requests += 1;
      if (row.outcome !== 'ok') this.#notOk += 1;
      return;
    }
    const { reason, failed } = whyAbsent(row, this.#figure);
    this.#without.add(reason);
    if (failed) this.#failedBefore += 1;
  }

  #observe(row: Row): boolean {
    if (this.#figure === 'itl') {
      if (row.itl !== undefined) this.sketch.join(row.itl);
      return row.itl !== undefined;
    }
    const valueMs = valueOf(row, this.#figure);
    if (valueMs !== undefined) this.sketch.add(valueMs / 1000);
    return valueMs !== undefined;
  }

  result(): FigureResult {
    const spread = spreadOf(this.sketch);
    const all = this.#requests + this.#failedBefore;
    const names = Object.keys(quantiles) as readonly QuantileName[];
    return {
      values: this.sketch.count,
      requests: this.#requests,
      notOk: this.#notOk,
      ...(spread === undefined ? {} : { spread }),
      without: this.#without.toJson(),
      failedBefore: this.#failedBefore,
      never: names.filter((name) => Math.ceil(quantiles[name] * all) > this.#requests),
    };
  }
}

/** @param sketch of seconds @returns ms; undefined without values */
export function spreadOf(sketch: Sketch): Spread | undefined {
  if (sketch.count === 0) return undefined;
  const at = (share: number) => (sketch.quantile(share) ?? 0) * 1000;
  return {
    p50: at(quantiles.p50),
    p90: at(quantiles.p90),
    p95: at(quantiles.p95),
    p99: at(quantiles.p99),
    p999: at(quantiles.p999),
    mean: (sketch.sum / sketch.count) * 1000,
    min: sketch.min * 1000,
    max: sketch.max * 1000,
  };
}
