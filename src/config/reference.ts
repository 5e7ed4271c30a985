/**
 * `${env:NAME}` and `${env:NAME:-default}` inside the texts of a config file. What is put in is not read again,
 * and is never repeated in a problem. Any other `${…}` is a problem: it would else be sent on as it stands. For what can't
 * be read stands a text that is there once: two texts that nobody knows must not look like the same one to later checks.
 */
import type { KeyPath } from './problem.ts';
import { pathText } from './problem.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Resolved {
  /** What `problems` tell of stands in it as a text that is nowhere else. */
  readonly value: unknown;
  readonly problems: readonly { readonly path: KeyPath; readonly message: string }[];
  /** Path texts of values into which something was put. */
  readonly touched: ReadonlySet<string>;
  /** Path texts of values that are one reference and nothing else: they may stand for a number or a flag. */
  readonly whole: ReadonlySet<string>;
}

/** @param skip paths whose texts stay as they are */
export function resolveReferences(value: unknown, env: Environment, skip: (path: KeyPath) => boolean): Resolved {
  const problems: { path: KeyPath; message: string }[] = [];
  const touched = new Set<string>();
  const whole = new Set<string>();
  const unread = (path: KeyPath, message: string): string => {
    problems.push({ path, message });
    return `unread-${problems.length}`;
  };
  const walk = (held: unknown, path: KeyPath): unknown => {
    if (typeof held === 'string') return skip(path) ? held : inText(held, path);
    if (Array.isArray(held)) return held.map((item, index) => walk(item, [...path, index]));
    if (typeof held !== 'object' || held === null) return held;
    return Object.fromEntries(Object.entries(held).map(([key, item]) => [key, walk(item, [...path, key])]));
  };
  const inText = (text: string, path: KeyPath): string => {
    if (!text.includes('${')) return text;
    touched.add(pathText(path));
    if (/^\$\{[^}]*\}$/.test(text)) whole.add(pathText(path));
    return text.replace(/\$\{([^}]*)(\}?)/g, (_, inside: string, closed: string) => {
      const reference = closed === '' ? null : /^env:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s.exec(inside);
      if (reference === null)
        return unread(path, 'write ${env:NAME} or ${env:NAME:-default} for a variable of the environment');
      const [, name = '', otherwise] = reference;
      // As in a shell, ":-" also stands in for a variable that is set and empty.
      const found = otherwise !== undefined && env[name] === '' ? undefined : env[name];
      return (
        found ?? otherwise ?? unread(path, `the environment has no ${name}; set it, or write \${env:${name}:-default}`)
      );
    });
  };
  return { value: walk(value, []), problems, touched, whole };
}

/** Every variable that the text of a file names, be it in a comment or in a file that can't be read as YAML. */
export function namesIn(text: string): ReadonlySet<string> {
  return new Set([...text.matchAll(/\$\{env:([A-Za-z_][A-Za-z0-9_]*)/g)].map((match) => match[1] ?? ''));
}
