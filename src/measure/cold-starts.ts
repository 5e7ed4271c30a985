/**
 * Which backends have not generated anything since they were seen loading or down: the next answer pays for the start.
 * One that was ejected for failing is no colder for it. Holds names of backends of the fleet, so it is bounded by their number.
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
      for (const { name, health, healthReason } of backends)
        if (health === 'loading' || (health === 'down' && healthReason !== 'ejected')) cold.add(name);
      if (cold.size > backends.length) {
        const here = new Set(backends.map(({ name }) => name));
        for (const name of cold) if (!here.has(name)) cold.delete(name);
      }
    },
    isCold: (backend) => cold.has(backend),
    warmed: (backend) => void cold.delete(backend),
  };
}
