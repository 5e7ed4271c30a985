/** The types of `warming.mjs`, for its test. */
export function isWarm(costs: readonly number[]): boolean;
export function warmUntilLevel(
  mostRounds: number,
  round: () => Promise<readonly number[]>,
): Promise<(readonly number[])[]>;
