/**
 * The whole configuration as the rest of the program sees it: one part per folder, defaults filled in, frozen.
 * Types only. `load.ts` makes it, the composition root hands each part to its folder.
 */
import type { SloSettings } from '../account/slo/slo-settings.ts';
import type { AdmitSettings } from '../admit/settings.ts';
import type { CeilingSettings } from '../account/ceiling/settings.ts';
import type { ClassifySettings } from '../classify/settings.ts';
import type { MetricsSettings } from '../export/metrics/metrics-settings.ts';
import type { ExportSettings } from '../export/settings.ts';
import type { TraceSettings } from '../export/trace/trace-settings.ts';
import type { FleetSettings } from '../fleet/settings.ts';
import type { HttpSettings } from '../http/settings.ts';
import type { MeasureSettings } from '../measure/settings.ts';
import type { LogSettings } from '../platform/log.ts';
import type { RelaySettings } from '../relay/settings.ts';

export interface Config {
  readonly http: HttpSettings;
  readonly classify: ClassifySettings;
  readonly admit: AdmitSettings;
  readonly fleet: FleetSettings;
  readonly relay: RelaySettings;
  readonly measure: MeasureSettings;
  readonly slo: SloSettings;
  readonly ceiling: CeilingSettings;
  readonly export: ExportSettings;
  readonly traces: TraceSettings;
  readonly metrics: MetricsSettings;
  readonly log: LogSettings;
  /** Which HTTP/1.1 client carries streamed requests: warmlane's own reader or undici. */
  readonly upstreamClient: 'h1' | 'undici';
}
