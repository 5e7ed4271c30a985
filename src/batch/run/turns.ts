/**
 * Whose line goes next: tenants in turn, and of a tenant's batches the one whose deadline comes first. Pure but for whose turn it
 * was. A tenant with many batches, or many lines, gets no more than one with few.
 */
export interface Contender {
  readonly tenant: string;
  /** Seconds since the epoch; on a tie the earlier in the list. */
  readonly expiresAt: number;
}

export interface Turns {
  /** @param contenders those that have a line to send now @returns undefined when there are none */
  next<T extends Contender>(contenders: readonly T[]): T | undefined;
}

export function createTurns(): Turns {
  /** Tenants in the order of their latest turn, the longest ago first; of those that had one while others were there. */
  const served: string[] = [];

  return {
    next(contenders) {
      const tenants = new Set(contenders.map(({ tenant }) => tenant));
      const fresh = [...tenants].find((tenant) => !served.includes(tenant));
      const tenant = fresh ?? served.find((known) => tenants.has(known));
      if (tenant === undefined) return undefined;
      const at = served.indexOf(tenant);
      if (at >= 0) served.splice(at, 1);
      served.push(tenant);
      if (served.length > mostTenants) served.shift();
      return contenders
        .filter((one) => one.tenant === tenant)
        .reduce((best, one) => (one.expiresAt < best.expiresAt ? one : best));
    },
  };
}

const mostTenants = 1000;
