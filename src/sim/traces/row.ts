/** One line of a trace as read, whatever its format; `assemble.ts` makes requests of them. Plain data. */

export interface TraceRow {
  /** from 1 */
  readonly line: number;
  /** ms on the trace's own scale; absent: told by `delayMs`, or not at all */
  readonly timestampMs?: number;
  /** ms after the end of the session's turn before it */
  readonly delayMs?: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** absent: nothing is known of the prompt */
  readonly hashIds?: readonly number[];
  readonly session?: string;
  /** absent: nobody said, or users waited for it */
  readonly lane?: 'batch';
}

/** How a format is to be understood. */
export interface TraceFormat {
  readonly name: 'mooncake' | 'bailian' | 'azure';
  /** tokens for each id */
  readonly hashTokens: number;
  /** A session's turns follow one another's ends, and tell only what is new in each. */
  readonly turns: boolean;
  /** @returns a row, what is wrong with the line, or undefined for one that says nothing (a heading) */
  readonly read: (text: string, line: number) => TraceRow | { readonly why: string } | undefined;
}
