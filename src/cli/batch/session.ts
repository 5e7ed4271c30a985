/** One command under way: whom it asks, where it shows what, when it is to end. Types only. */
import type { Process } from '../process.ts';
import type { BatchApi } from './batch-api.ts';
import type { Failure } from './failure.ts';
import type { Screen } from './screen.ts';
import type { WaitDeps } from './wait.ts';

/** 0 done, 1 not done, 2 wrong use, 3 completed with failed lines, 130 left by the user. */
export type ExitCode = 0 | 1 | 2 | 3 | 130;

/** What every verb works with. */
export interface Session extends WaitDeps {
  readonly api: BatchApi;
  readonly screen: Screen;
  readonly process: Process;
  /** Says why not. @returns 1 */
  fail(failure: Failure): 1;
}
