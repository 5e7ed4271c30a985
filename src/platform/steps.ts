/**
 * What many requests do at about the same time is done step by step instead of request by request: all that came to a step
 * in one turn of the event loop take it one behind the other, right after what the turn had to read. A request's way through
 * warmlane is about a megabyte of compiled code, more than a core's own cache, so that fetching it costs more than running
 * it; taken together, a step's code is fetched once. All that wait at a step pass it in that turn: no more can wait than one
 * turn brought. Knows nothing of requests.
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
}

/** @param names in the order in which a turn has the steps */
export function createSteps<const Name extends string>(names: readonly Name[]): Readonly<Record<Name, Step>> {
  const gatherings: Gathering[] = [];
  let isArmed = false;

  function arm(): void {
    isArmed = true;
    // What one step is asked for meanwhile, the next ones still find.
    for (const gathering of gatherings) setImmediate(pass, gathering);
    setImmediate(turned);
  }

  function turned(): void {
    isArmed = false;
    if (gatherings.some(({ waiting }) => waiting.length > 0)) arm();
  }

  function stepNamed(): Step {
    const gathering: Gathering = { waiting: [] };
    gatherings.push(gathering);
    const take = (each: () => void) => {
      gathering.waiting.push(each);
      if (!isArmed) arm();
    };
    return { take, reached: () => new Promise(take) };
  }

  const steps: Partial<Record<Name, Step>> = {};
  for (const name of names) steps[name] = stepNamed();
  return steps as Record<Name, Step>;
}

function pass(gathering: Gathering): void {
  const { waiting } = gathering;
  if (waiting.length === 0) return;
  gathering.waiting = [];
  for (const take of waiting) {
    try {
      take();
    } catch (error) {
      process.nextTick(raise, error);
    }
  }
}

function raise(error: unknown): never {
  throw error;
}
