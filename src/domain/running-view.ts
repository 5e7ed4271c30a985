/** One request or tunnel under way, as the admin listener shows it and as gauges count it. Values only. */
import type { Phase } from './names.ts';

export interface RunningView {
  readonly requestId: string;
  readonly method: string;
  readonly endpoint: string;
  /** without its query */
  readonly path: string;
  readonly model?: string;
  readonly backend?: string;
  readonly phase: Phase;
  readonly ageMs: number;
  readonly attempts: number;
}
