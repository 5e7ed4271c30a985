/** Whether the fleet as a whole could take a request: what a readiness probe is told. Pure. */
import type { FleetSnapshot } from '../domain/fleet.ts';

/** @returns why it could not; undefined: it could */
export function notReady({ backends }: FleetSnapshot): string | undefined {
  if (backends.length === 0) return 'no backend is configured';
  const usable = backends.some(({ health }) => health === 'up' || health === 'unknown');
  return usable ? undefined : 'no backend takes work';
}
