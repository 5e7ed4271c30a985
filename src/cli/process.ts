/** What a command may do to the process that runs it; tests give their own. */
export interface Process {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** To a person or a pipe: results, the start-up text. */
  readonly out: (text: string) => void;
  /** Problems and the log. @returns false: it was dropped, too much waits for its reader */
  readonly err: (text: string) => unknown;
  /** @returns how to stop listening */
  readonly onSignal: (signal: 'SIGTERM' | 'SIGINT' | 'SIGHUP', listener: () => void) => () => void;
  /** An error that nothing caught: always a bug of ours. */
  readonly onUncaught: (listener: (error: unknown) => void) => void;
  /** What comes on stdin; absent: nothing. */
  readonly input?: () => AsyncIterable<Uint8Array>;
  /** Results go to a terminal, not to a pipe or a file. */
  readonly terminal?: boolean;
  /** Width of that terminal; undefined: not known. */
  readonly columns?: () => number | undefined;
  /** Like `out`, for results of any length: settles when the reader has taken them, or is gone. */
  readonly outBytes?: (bytes: Uint8Array) => Promise<void>;
  /** Ends the process at once. */
  readonly exit: (code: number) => void;
}
