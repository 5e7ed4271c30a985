/** What each finished request adds to its tenant's metrics; of requests without one nothing. Once per request. */
import { tenantLimits } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import type { RecordSink } from '../sinks.ts';
import { createLabelTree } from './label-tree.ts';
import type { Counter, Meter } from './meter.ts';

/** Label sets whose series are kept at hand. */
const maxKept = 1024;
/** What a tenant is told that asks for more than it may. */
const refusals: ReadonlySet<string | undefined> = new Set([...tenantLimits, 'model_not_allowed', 'id_not_found']);

class TenantSeries {
  readonly #requests: Counter;
  readonly #input: Counter;
  readonly #output: Counter;

  constructor(meter: Pick<Meter, 'counter'>, [tenant, lane, outcome]: readonly string[]) {
    this.#requests = meter.counter('warmlane.tenant.requests', { tenant, lane, outcome });
    this.#input = meter.counter('warmlane.tenant.input_tokens', { tenant, lane });
    this.#output = meter.counter('warmlane.tenant.output_tokens', { tenant, lane });
  }

  add({ tokens }: RequestRecord): void {
    this.#requests.value += 1;
    this.#input.value += tokens.prompt?.value ?? 0;
    this.#output.value += tokens.output?.value ?? 0;
  }
}

export function createTenantMetrics(meter: Pick<Meter, 'counter' | 'count'>): RecordSink {
  const series = createLabelTree(maxKept, (words) => new TenantSeries(meter, words));
  return {
    add(record) {
      const { tenant, lane, outcome, reason } = record;
      if (tenant === undefined) return;
      series.at([tenant, lane, outcome]).add(record);
      if (refusals.has(reason)) meter.count('warmlane.tenant.refused', { tenant, reason });
    },
  };
}
