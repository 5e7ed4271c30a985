/**
 * The same sentence once in a log: traces and metrics read the same variables, and each finds what is wrong with them.
 * For what is said at the start; bounded.
 */
import type { Log } from './log.ts';

const maxSentences = 256;
const told = new WeakMap<Log, Set<string>>();

export function warnOnce(log: Log, sentence: string): void {
  const before = told.get(log) ?? new Set<string>();
  told.set(log, before);
  if (before.has(sentence)) return;
  if (before.size < maxSentences) before.add(sentence);
  log.warn(sentence);
}
