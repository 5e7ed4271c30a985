/**
 * Which backends have not generated anything since they were seen loading or down: the next answer pays for the start.
 * Holds names of configured backends only, so it is bounded by their number.
 */
import type { FleetSnapshot } from '../domain/fleet.ts';

export interface ColdStarts {
  /** To be told of each change of the fleet. */
  seen(fleet: FleetSnapshot): void;
  isCold(backend: string): boolean;
  /** A generating request that found it cold has ended well. */
  warmed(backend: string): void;
}

export function createColdStarts(): ColdStarts {
  const cold = new Set<string>();
  return {
    seen({ backends }) {
      for (const { name, health } of backends) if (health === 'loading' || health === 'down') cold.add(name);
    },
    isCold: (backend) => cold.has(backend),
    warmed: (backend) => void cold.delete(backend),
  };
}
