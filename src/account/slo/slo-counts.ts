/** What one assessed record adds to the counters of objectives and of use. Pure: tells numbers, keeps none. */
import type { CounterName, LabelsOf } from '../../domain/catalogue.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { missedBy } from '../goodput.ts';
import { usefulTokens } from './useful.ts';

/** Adds to a counter of the catalogue; 0 makes its series known, so that a ratio of two counters has both from the first on. */
export type Count = <Name extends CounterName>(name: Name, labels: LabelsOf<Name>, n?: number) => void;

/** @param model its label */
export function countSlo(
  record: RequestRecord,
  { model, count }: { readonly model: string; readonly count: Count },
): void {
  const { assessment, lane, warmth, backend = 'none' } = record;
  const labels = { model, backend, lane };
  count('warmlane.useful_tokens', labels, usefulTokens(record));
  if (assessment === undefined) return;
  const { slo, useless, retry } = assessment;
  if (retry === true) count('warmlane.client_retries', labels);
  if (useless !== undefined) {
    count('warmlane.answers.checked', labels);
    for (const reason of useless) count('warmlane.answers.useless', { ...labels, useless: reason });
  }
  if (slo === undefined) return;
  const judged = { ...labels, warmth, profile: slo.profile };
  const { benefitTokens = 0 } = slo;
  count('warmlane.slo.judged', judged);
  if (benefitTokens < 0) count('warmlane.slo.harm_tokens', judged, -benefitTokens);
  else count('warmlane.slo.benefit_tokens', judged, benefitTokens);
  count('warmlane.slo.met', judged, slo.met ? 1 : 0);
  count('warmlane.slo.good_tokens', judged, slo.met ? (record.tokens.output?.value ?? 0) : 0);
  if (slo.met) return;
  const { bound, phase } = missedBy(record, slo);
  count('warmlane.slo.missed', { ...judged, bound, phase });
}
