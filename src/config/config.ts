/**
 * The whole configuration as the rest of the program sees it: one part per folder, defaults filled in, frozen.
 * Types only. `load.ts` makes it, the composition root hands each part to its folder.
 */
import type { SloSettings } from '../account/slo/slo-settings.ts';
import type { AccessSettings } from '../access/settings.ts';
import type { AdmitSettings } from '../admit/settings.ts';
import type { BatchSettings } from '../batch/settings.ts';
import type { AnswerCacheSettings } from '../cache/settings.ts';
import type { CeilingSettings } from '../account/ceiling/settings.ts';
import type { ClassifySettings } from '../classify/settings.ts';
import type { MetricsSettings } from '../export/metrics/metrics-settings.ts';
import type { PromptTraceSettings } from '../export/prompt-trace/settings.ts';
import type { ExportSettings } from '../export/settings.ts';
import type { TraceSettings } from '../export/trace/trace-settings.ts';
import type { DiscoverySettings, FleetSettings } from '../fleet/settings.ts';
import type { HttpSettings } from '../http/settings.ts';
import type { MeasureSettings } from '../measure/settings.ts';
import type { LogSettings } from '../platform/log.ts';
import type { RelaySettings } from '../relay/settings.ts';
import type { RouteSettings } from '../route/settings.ts';
import type { WarmUpSettings } from '../route/warm-up-settings.ts';

export interface Config {
  readonly http: HttpSettings;
  readonly access: AccessSettings;
  readonly classify: ClassifySettings;
  readonly admit: AdmitSettings;
  readonly fleet: FleetSettings;
  readonly discovery: DiscoverySettings;
  readonly route: RouteSettings;
  readonly relay: RelaySettings;
  readonly measure: MeasureSettings;
  readonly slo: SloSettings;
  readonly ceiling: CeilingSettings;
  readonly warmUp: WarmUpSettings;
  readonly answerCache: AnswerCacheSettings;
  readonly batch: BatchSettings;
  readonly export: ExportSettings;
  readonly traces: TraceSettings;
  readonly metrics: MetricsSettings;
  readonly promptTrace: PromptTraceSettings;
  readonly log: LogSettings;
  /** Which HTTP/1.1 client carries streamed requests: warmlane's own reader or undici. */
  readonly upstreamClient: 'h1' | 'undici';
}
