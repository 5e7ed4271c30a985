/**
 * The names of kept things (responses, stored chats, conversations) that a path could hold, by every reading of it: the plain
 * one isn't the only one where a gateway tidies paths or cuts a prefix off before an engine sees them. Whoever checks whose a
 * thing is must ask for each of them. Changes nothing of what is forwarded.
 */
import { unreadId } from '../domain/job.ts';
import { lenientPaths, matchedPath, rawNames } from './request-path.ts';

/** Whose references a body has. */
export type Referring = 'responses' | 'generation';

export interface KeptPath {
  /** In no order, none twice; `unreadId` among them where nobody can say what a server would make of the path. */
  readonly ids: readonly string[];
  /** By some reading its body refers to kept things as this route's does. */
  readonly refersBy: Referring | undefined;
}

/** No path that means anything names more. */
const maxIds = 4;

/** What follows `responses` or `chat/completions` where it is a route of its own, not an id. */
export const ownNames: ReadonlySet<string> = new Set([
  'batch',
  'compact',
  'control',
  'derender',
  'input_tokens',
  'render',
]);

/** @param writes the method brings a body @param path undecoded */
export function readKeptPath(writes: boolean, path: string): KeptPath {
  const ids = new Set<string>();
  let refersBy: Referring | undefined;
  for (const segments of lenientPaths(path)) {
    for (let index = 0; index < segments.length; index += 1) {
      const id = keptIdAt(segments, index, writes);
      if (id !== undefined) ids.add(id);
    }
    if (writes) refersBy ??= referring(segments);
  }
  if (ids.size > maxIds) return { ids: [unreadId], refersBy };
  if (isUnsure(path)) ids.add(unreadId);
  return { ids: [...ids], refersBy };
}

/** Every server that knows the path reads the same of it. @param path undecoded */
export function isPlainPath(path: string): boolean {
  const plain = matchedPath(path).replace(/^\//, '').replace(/\/$/, '');
  return lenientPaths(path).every((segments) => segments.join('/') === plain);
}

/** The id behind the name of a collection. */
function keptIdAt(segments: readonly string[], index: number, writes: boolean): string | undefined {
  const name = segments[index];
  const isChat = name === 'completions' && segments[index - 1] === 'chat';
  if (name !== 'responses' && name !== 'conversations' && !isChat) return undefined;
  const id = segments[index + 1];
  return id !== undefined && writes && name !== 'conversations' && ownNames.has(id) ? undefined : id;
}

/** Routes are matched to their end. */
function referring(segments: readonly string[]): Referring | undefined {
  const [before, name, last = ''] = ['', '', ...segments].slice(-3);
  if (last === 'responses' || (name === 'responses' && responsesRoutes.has(last))) return 'responses';
  return before === 'chat' && name === 'completions' && last === 'control' ? 'generation' : undefined;
}

const responsesRoutes: ReadonlySet<string> = new Set(['compact', 'input_tokens', 'render']);

/**
 * Decoding and tidying in turns, some of it here and some of it there, gives more readings than can be listed. So where steps
 * up, path parameters or marks of a query stand beside the name of what is kept, nobody is taken at his word.
 */
function isUnsure(path: string): boolean {
  const { names, decoded } = rawNames(path);
  const isTangled = /[;\\?#%]/.test(decoded) || names.includes('..') || names.includes('.');
  return isTangled && names.some((name, index) => isKeeping(name, index + 1 === names.length));
}

/** Chats are made at `completions`, and kept below it. */
function isKeeping(name: string, isLast: boolean): boolean {
  return name === 'responses' || name === 'conversations' || (name === 'completions' && !isLast);
}
