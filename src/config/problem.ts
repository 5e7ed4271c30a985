/**
 * One thing wrong with the configuration, and how it is shown. Messages say what to do about it.
 * A problem never holds a key, nor any value that came from the environment.
 */

export type KeyPath = readonly (string | number)[];

export interface ConfigProblem {
  /** Key path in the file (`backends[1].maxInFlight`), flag (`--listen`) or variable (`WARMLANE_LISTEN`). Empty: the whole file. */
  readonly path: string;
  /** What is wrong and what to do. */
  readonly message: string;
  /** The file as it was named, when the problem stands in it. */
  readonly file?: string;
  /** From 1; absent when the problem stands in no line. */
  readonly line?: number;
  readonly column?: number;
}

/** Keys whose values are never shown. */
const secretKeys: ReadonlySet<string> = new Set(['apiKey', 'key', 'sha256']);

export function isSecret(path: KeyPath): boolean {
  return path.some((part) => typeof part === 'string' && secretKeys.has(part));
}

/** `['backends', 1, 'url']` → `backends[1].url`; a key with other characters is quoted. */
export function pathText(path: KeyPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[\w-]+$/.test(part)) text += text === '' ? part : `.${part}`;
    else text += `[${JSON.stringify(shownKey(part))}]`;
  }
  return text;
}

/** A key as it may be shown: cut, and without what follows a secret's name (`apiKey:sk-…`, where a blank was forgotten). */
export function shownKey(key: string): string {
  for (const secret of secretKeys) {
    if (key.toLowerCase().startsWith(secret.toLowerCase()) && key.length > secret.length) return `${secret}…`;
  }
  return key.length > 60 ? `${key.slice(0, 60)}…` : key;
}

/** `warmlane.yaml:12:5 backends[1].maxInFlight: must be …` */
export function problemText(problem: ConfigProblem): string {
  const position = problem.line === undefined ? '' : `:${problem.line}:${problem.column ?? 1}`;
  const where = problem.file === undefined ? '' : `${problem.file}${position}`;
  const subject = problem.path === '' ? '' : problem.path;
  const head = [where, subject].filter((part) => part !== '').join(' ');
  return head === '' ? problem.message : `${head}: ${problem.message}`;
}

/** In the file from top to bottom, then what stands in no line, in the order found; the same words about the same path once. */
export function inOrder(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const seen = new Set<string>();
  const once = problems.filter((problem) => {
    const identity = JSON.stringify([problem.path, problem.message, problem.line, problem.column]);
    if (seen.has(identity)) return false;
    seen.add(identity);
    return true;
  });
  const rank = (problem: ConfigProblem) => problem.line ?? Number.POSITIVE_INFINITY;
  return once.toSorted((a, b) => (rank(a) === rank(b) ? (a.column ?? 0) - (b.column ?? 0) : rank(a) - rank(b)));
}
