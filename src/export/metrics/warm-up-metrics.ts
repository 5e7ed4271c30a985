/** Registers the figures of prefill ahead of time with the meter. Holds nothing: all is read at each collection. */
import { type WarmUpFigures, warmUpEnds } from '../../domain/warm-up-figures.ts';
import type { Meter } from './meter.ts';

export interface WarmUpStats {
  readonly backends: readonly WarmUpFigures[];
  readonly rememberedBytes: number;
}

export function registerWarmUpMetrics(meter: Pick<Meter, 'counterFrom' | 'gauge'>, stats: () => WarmUpStats): void {
  const of = (value: (figures: WarmUpFigures) => number) => () =>
    stats().backends.map((figures) => ({ labels: { backend: figures.backend }, value: value(figures) }));
  meter.counterFrom('warmlane.warm_up.prompts', () =>
    stats().backends.flatMap(({ backend, ended }) =>
      warmUpEnds.map((ending) => ({ labels: { backend, ending }, value: ended[ending] })),
    ),
  );
  meter.counterFrom(
    'warmlane.warm_up.tokens',
    of(({ tokens }) => tokens),
  );
  meter.counterFrom(
    'warmlane.warm_up.used',
    of(({ used }) => used),
  );
  meter.counterFrom(
    'warmlane.warm_up.saved',
    of(({ savedSeconds }) => savedSeconds),
  );
  meter.gauge('warmlane.warm_up.remembered', () => [{ labels: {}, value: stats().rememberedBytes }]);
}
