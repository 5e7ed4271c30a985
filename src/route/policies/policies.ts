/** From a policy's name to the policy. */
import type { PolicyName } from '../../domain/routing.ts';
import type { Policy } from '../policy.ts';
import type { CostSettings } from '../settings.ts';
import { cacheAware } from './cache-aware.ts';
import { createChwbl } from './chwbl.ts';
import { leastLoad } from './least-load.ts';
import { roundRobin } from './round-robin.ts';
import { session } from './session.ts';
import { stickyUntilSaturated } from './sticky-until-saturated.ts';
import { createWarm } from './warm.ts';

export function createPolicy(name: PolicyName, cost: CostSettings): Policy {
  switch (name) {
    case 'warm':
      return createWarm(cost);
    case 'round-robin':
      return roundRobin;
    case 'least-load':
      return leastLoad;
    case 'session':
      return session;
    case 'chwbl':
      return createChwbl();
    case 'sticky-until-saturated':
      return stickyUntilSaturated;
    case 'cache-aware':
      return cacheAware;
  }
}
