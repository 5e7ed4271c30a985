/** Registers the ceiling's figures of the last minute with the meter. Holds nothing: all is read at each collection. */
import type { GaugeName } from '../../domain/catalogue.ts';
import type { CeilingFigures } from '../../domain/ceiling-figures.ts';
import type { Meter } from './meter.ts';

const gauges = [
  ['warmlane.backend.mfu', 'mfu'],
  ['warmlane.backend.mfu_without_cache', 'mfuWithoutCache'],
  ['warmlane.backend.mbu', 'mbu'],
  ['warmlane.backend.ceiling_share', 'shareOfCeiling'],
  ['warmlane.backend.flops', 'flopsPerSecond'],
  ['warmlane.backend.flops_saved', 'savedFlopsPerSecond'],
  ['warmlane.backend.decode.concurrency', 'meanConcurrency'],
  ['warmlane.backend.decode.busy', 'decodingShare'],
  ['warmlane.backend.prefill.rate', 'prefillTokensPerSecond'],
  ['warmlane.backend.prefill.fixed', 'prefillFixedSeconds'],
  ['warmlane.backend.prefill.r_squared', 'prefillRSquared'],
  ['warmlane.backend.prefill.output_token_weight', 'outputTokenWeight'],
  ['warmlane.backend.engine_mfu', 'engineMfu'],
  ['warmlane.backend.engine_mbu', 'engineMbu'],
  ['warmlane.backend.ceiling_problems', 'problems'],
] as const satisfies readonly (readonly [GaugeName, keyof CeilingFigures])[];

export function registerCeilingMetrics(meter: Meter, figures: () => readonly CeilingFigures[]): void {
  for (const [name, key] of gauges) {
    meter.gauge(name, () =>
      figures().flatMap((one) => {
        const value = one[key];
        return value === undefined ? [] : [{ labels: { backend: one.backend }, value }];
      }),
    );
  }
}
