/**
 * A workload as a list of requests: when each comes, how long its prompt and answer are, and which prompts begin alike.
 * Holds no text: a prompt is a row of ids, one for each `hashTokens` tokens. Plain data.
 */

export interface TraceRequest {
  /** ms after the trace's beginning; not looked at where `after` is given */
  readonly atMs: number;
  /** A later turn: it comes so long after the answer to request number `request` of the same list, an earlier one, has ended. */
  readonly after?: { readonly request: number; readonly delayMs: number };
  readonly promptTokens: number;
  /** at least 1 */
  readonly outputTokens: number;
  /** Equal ids in equal order from the start mean equal beginnings. They cover the prompt; the last one may be partial. */
  readonly hashIds: readonly number[];
  /** what a client would say of its session; absent where the trace has none */
  readonly session?: string;
}

export interface Trace {
  /** for people: a file's name or a generator's */
  readonly name: string;
  readonly hashTokens: number;
  /** First turns in order of `atMs`; each follow-up stands behind the request that it waits for. */
  readonly requests: readonly TraceRequest[];
}

/** What makes a line useless, for people. */
export interface TraceProblem {
  /** from 1 */
  readonly line: number;
  readonly why: string;
}

/** Ids that no other prompt has, as many as cover the tokens. */
export type FreshIds = (tokens: number, hashTokens: number) => number[];

/** @param first the smallest of them; what the trace itself names must be below */
export function createFreshIds(first: number): FreshIds {
  let next = first;
  return (tokens, hashTokens) => Array.from({ length: Math.ceil(tokens / hashTokens) }, () => next++);
}

/**
 * The first part of a trace: no more requests than `most`, none that comes after `untilMs`. A follow-up whose earlier turn is cut
 * off is cut off too.
 */
export function beginningOf(
  trace: Trace,
  { most, untilMs }: { readonly most?: number; readonly untilMs?: number },
): Trace {
  const kept = new Map<number, number>();
  const requests: TraceRequest[] = [];
  trace.requests.forEach((request, index) => {
    if (requests.length >= (most ?? Infinity)) return;
    const { after } = request;
    if (after === undefined ? request.atMs >= (untilMs ?? Infinity) : !kept.has(after.request)) return;
    kept.set(index, requests.length);
    requests.push(
      after === undefined ? request : { ...request, after: { ...after, request: kept.get(after.request) ?? 0 } },
    );
  });
  return { ...trace, requests };
}
