/**
 * What many requests do at about the same time is done step by step instead of request by request: all that came to a step
 * in one turn of the event loop take it one behind the other, right after what the turn had to read. A request's way through
 * warmlane is about a megabyte of compiled code, more than a core's own cache, so that fetching it costs more than running
 * it; taken together, a step's code is fetched once. Nobody waits for another turn, save where more come than a step lets
 * pass in one. Knows nothing of requests.
 */

/** Where requests gather. */
export interface Step {
  /** Resolves when it is this step's time. */
  readonly reached: () => Promise<void>;
  /** Calls `take` when it is this step's time. What it throws is nobody's: the others still take the step. */
  readonly take: (take: () => void) => void;
}

interface Gathering {
  waiting: (() => void)[];
  readonly most: number;
}

/**
 * @param most for each step, in the order in which a turn has them: how many take it in one turn at most; the rest keep
 * their order and take it in the next, so that what came meanwhile is read in between
 */
export function createSteps<const Name extends string>(
  most: Readonly<Record<Name, number>>,
): Readonly<Record<Name, Step>> {
  const gatherings: Gathering[] = [];
  let isArmed = false;

  function arm(): void {
    isArmed = true;
    for (const gathering of gatherings) setImmediate(pass, gathering);
    setImmediate(turned);
  }

  function turned(): void {
    isArmed = false;
    if (gatherings.some(({ waiting }) => waiting.length > 0)) arm();
  }

  function pass(gathering: Gathering): void {
    const { waiting } = gathering;
    if (waiting.length === 0) return;
    const now = waiting.length > gathering.most ? waiting.splice(0, gathering.most) : waiting;
    if (now === waiting) gathering.waiting = [];
    for (const take of now) {
      try {
        take();
      } catch (error) {
        process.nextTick(raise, error);
      }
    }
  }

  function stepOf(atMost: number): Step {
    const gathering: Gathering = { waiting: [], most: atMost };
    gatherings.push(gathering);
    const take = (each: () => void) => {
      gathering.waiting.push(each);
      if (!isArmed) arm();
    };
    return { take, reached: () => new Promise(take) };
  }

  const steps: Partial<Record<Name, Step>> = {};
  for (const name in most) steps[name] = stepOf(most[name]);
  return steps as Record<Name, Step>;
}

function raise(error: unknown): never {
  throw error;
}
