/**
 * Whose line goes next: tenants in turn. Of a tenant's batches the one whose deadline comes first has every other turn, and the
 * others the turns between in a round: a few lines needn't wait for a large batch that came before them, and that one still
 * gets half. Pure but for whose turn it was. A tenant with many batches, or many lines, gets no more than one with few.
 */
export interface Contender {
  /** the batch's */
  readonly id: string;
  readonly tenant: string;
  /** Seconds since the epoch; on a tie the earlier in the list. */
  readonly expiresAt: number;
}

export interface Turns {
  /** @param contenders those that have a line to send now @returns undefined when there are none */
  next<T extends Contender>(contenders: readonly T[]): T | undefined;
}

export function createTurns(): Turns {
  const tenants = createRound('first');
  const batches = createRound('last');
  /** Tenants whose latest turn went to the batch that must end first. */
  const urgentLast = new Set<string>();

  return {
    next(contenders) {
      const tenant = tenants.next(new Set(contenders.map((one) => one.tenant)));
      if (tenant === undefined) return undefined;
      const own = contenders.filter((one) => one.tenant === tenant);
      const urgent = own.reduce((best, one) => (one.expiresAt < best.expiresAt ? one : best));
      const others = own.filter((one) => one !== urgent);
      if (others.length === 0) return urgent;
      if (urgentLast.delete(tenant)) {
        const id = batches.next(new Set(others.map((one) => one.id)));
        return others.find((one) => one.id === id) ?? urgent;
      }
      if (urgentLast.size >= mostRemembered) urgentLast.clear();
      urgentLast.add(tenant);
      return urgent;
    },
  };
}

interface Round {
  /** The name whose turn was longest ago. */
  next(names: ReadonlySet<string>): string | undefined;
}

/** @param newcomers before all others, or, where new ones may keep coming, behind them */
function createRound(newcomers: 'first' | 'last'): Round {
  /** In the order of their latest turn, the longest ago first. */
  const served: string[] = [];
  return {
    next(names) {
      const fresh = [...names].filter((name) => !served.includes(name));
      if (newcomers === 'first') served.unshift(...fresh);
      else served.push(...fresh);
      const at = served.findIndex((name) => names.has(name));
      const [name] = at < 0 ? [] : served.splice(at, 1);
      if (name !== undefined) served.push(name);
      if (served.length > mostRemembered) served.splice(0, served.length - mostRemembered);
      return name;
    },
  };
}

const mostRemembered = 1000;
