/**
 * Where the progress of one command is shown: one line that is written over on a terminal; else plain lines on stderr, few
 * enough for a log. Owns the cursor's line, and nothing else.
 */
import type { Process } from '../process.ts';

export interface Screen {
  readonly terminal: boolean;
  readonly columns: number;
  /**
   * In place of the last one.
   * @param plain for a log; where it is absent a log gets nothing
   * @param isNews a log gets it at once, not when its next line is due
   */
  show(text: string, plain?: string, isNews?: boolean): void;
  /** Stays. */
  line(text: string): void;
  /** What is shown in place goes. */
  clear(): void;
}

const usualColumns = 80;
/** Without a terminal: a line that only moved on is said so seldom. */
const plainEveryMs = 30_000;

/** @param quiet stdout is for something else */
export function createScreen(process: Process, nowMs: () => number, quiet: boolean): Screen {
  const terminal = process.terminal === true && !quiet;
  let shown = false;
  let saidMs = Number.NEGATIVE_INFINITY;
  let said = '';
  const clear = () => {
    if (shown) process.out('\r\u001b[K');
    shown = false;
  };
  return {
    terminal,
    // A full last column makes some terminals wrap.
    get columns() {
      return (process.columns?.() ?? usualColumns) - 1;
    },
    show(text, plain, isNews = false) {
      if (terminal) {
        process.out(`\r${text}\u001b[K`);
        shown = true;
      } else if (plain !== undefined && plain !== said && (isNews || nowMs() - saidMs >= plainEveryMs)) {
        said = plain;
        saidMs = nowMs();
        process.err(`${plain}\n`);
      }
    },
    line(text) {
      clear();
      // What comes next is news again.
      saidMs = Number.NEGATIVE_INFINITY;
      if (terminal) process.out(`${text}\n`);
      else process.err(`${text}\n`);
    },
    clear,
  };
}
