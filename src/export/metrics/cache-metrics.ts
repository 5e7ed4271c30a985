/** Hit accounting, the warm index and routing decisions for the meter. Holds nothing. */
import type { RequestRecord } from '../../domain/record.ts';
import type { WarmBackendState, WarmState } from '../../domain/warm-state.ts';
import type { Meter } from './meter.ts';

/** Sums since the start, or of the last minutes, as hit accounting keeps them. */
export interface HitTotals {
  readonly toldAnswers: number;
  readonly untoldAnswers: number;
  readonly unpredictedAnswers: number;
  readonly promptTokens: number;
  readonly reusableTokens: number;
  readonly capturedTokens: number;
  readonly deliveredTokens: number;
  missedByCause(): Iterable<readonly [string, number]>;
  readonly coverage: number | undefined;
  readonly bias: number | undefined;
  readonly error: number | undefined;
}

export interface CacheSources {
  readonly totals: () => readonly { readonly backend: string; readonly model: string; readonly sums: HitTotals }[];
  readonly recent: () => readonly { readonly backend: string; readonly sums: HitTotals }[];
  readonly warm: (() => WarmState) | undefined;
}

const kinds = [
  ['told', 'promptTokens'],
  ['reusable', 'reusableTokens'],
  ['captured', 'capturedTokens'],
  ['delivered', 'deliveredTokens'],
] as const;

const answers = [
  ['told', 'toldAnswers'],
  ['untold', 'untoldAnswers'],
  ['unpredicted', 'unpredictedAnswers'],
] as const;

const gauges = [
  ['warmlane.cache.coverage', 'coverage'],
  ['warmlane.cache.prediction.bias', 'bias'],
  ['warmlane.cache.prediction.error', 'error'],
] as const;

export function registerCacheMetrics(meter: Meter, { totals, recent, warm }: CacheSources): void {
  meter.counterFrom('warmlane.cache.tokens', () =>
    totals().flatMap(({ backend, model, sums }) =>
      // Where nobody told, nothing is known: that is not 0.
      sums.toldAnswers === 0
        ? []
        : kinds.map(([kind, key]) => ({ labels: { backend, model, kind }, value: sums[key] })),
    ),
  );
  meter.counterFrom('warmlane.cache.missed_tokens', () =>
    totals().flatMap(({ backend, model, sums }) =>
      sums.toldAnswers === 0
        ? []
        : Array.from(sums.missedByCause(), ([cause, value]) => ({ labels: { backend, model, cause }, value })),
    ),
  );
  meter.counterFrom('warmlane.cache.answers', () =>
    totals().flatMap(({ backend, model, sums }) =>
      answers.map(([told, key]) => ({ labels: { backend, model, told }, value: sums[key] })),
    ),
  );
  for (const [name, key] of gauges)
    meter.gauge(name, () =>
      recent().flatMap(({ backend, sums }) => {
        const value = sums[key];
        return value === undefined ? [] : [{ labels: { backend }, value }];
      }),
    );
  if (warm !== undefined) registerWarm(meter, warm);
}

/** A finished request that was sent somewhere, under why. */
export function countDecision(meter: Meter, { backend, routeReason, routing }: RequestRecord): void {
  if (backend === undefined || routeReason === undefined) return;
  meter.count('warmlane.route.decisions', { policy: routing?.policy ?? 'none', route: routeReason });
}

function registerWarm(meter: Meter, warm: () => WarmState): void {
  const each = (pick: (state: WarmBackendState) => number) => () =>
    warm().backends.map((state) => ({ labels: { backend: state.backend }, value: pick(state) }));
  meter.gauge(
    'warmlane.warm.entries',
    each(({ entries }) => entries),
  );
  meter.gauge(
    'warmlane.warm.held',
    each(({ heldTokens }) => heldTokens),
  );
  meter.gauge('warmlane.warm.horizon', () =>
    warm().backends.flatMap(({ backend, horizonTokens }) =>
      // A guess is no measurement.
      horizonTokens === undefined ? [] : [{ labels: { backend }, value: horizonTokens }],
    ),
  );
  meter.counterFrom(
    'warmlane.warm.flushes',
    each(({ flushes }) => flushes),
  );
  meter.gauge('warmlane.warm.entries.limit', () => [{ labels: {}, value: warm().maxEntries }]);
  meter.counterFrom('warmlane.warm.trimmed', () => [{ labels: {}, value: warm().trimmed }]);
  meter.gauge('warmlane.warm.memory', () => [{ labels: {}, value: warm().bytes }]);
}
