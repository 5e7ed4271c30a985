/**
 * The text of a config file → its value, and where in the text each key stands. YAML 1.2; JSON is a part of it.
 * Messages are its own: the parser's may repeat what stands in the file, and that may be a key.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, visit, type Document, type Node } from 'yaml';

import type { KeyPath } from './problem.ts';

export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface SourceProblem extends Position {
  readonly message: string;
}

export interface Source {
  /** null for an empty file. Undefined when the text can't be read as one value. */
  readonly value: unknown;
  readonly problems: readonly SourceProblem[];
  /** Where a key or its value stands; of what isn't there, where its parent stands. */
  locate(path: KeyPath, part: 'key' | 'value'): Position | undefined;
}

export function readSource(text: string): Source {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: true,
    logLevel: 'error',
  });
  const position = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const byPlace = [...document.errors, ...document.warnings].toSorted((a, b) => a.pos[0] - b.pos[0]);
  const faults = byPlace.map((fault) => ({
    code: fault.code as string,
    message: sentences[fault.code] ?? 'this is no YAML',
    ...position(fault.pos[0]),
  }));
  const structural = faults.some((fault) => fault.code !== 'DUPLICATE_KEY');
  // After one wrong character or indentation the parser stumbles on and on: what it says then is no help.
  const told = structural ? faults.filter(({ code }) => code !== 'DUPLICATE_KEY').slice(0, 1) : faults;
  const problems: SourceProblem[] = [
    ...told.map(({ message, line, column }) => ({ message, line, column })),
    ...(structural ? [] : referenceFaults(document).map(({ message, offset }) => ({ message, ...position(offset) }))),
  ];
  const readable = !structural && problems.length === told.length;
  return {
    value: readable ? toValue(document, problems) : undefined,
    problems,
    locate(path, part) {
      const offset = offsetOf(document, path, part);
      return offset === undefined ? undefined : position(offset);
    },
  };
}

const quoteHint = 'a text with { } [ ] or : # in it stands in quotes';
const indentHint = 'or is the indentation of this line or the one above it wrong?';

/** What to do, by the parser's own code. */
const sentences: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'this key stands here twice; keep one',
  TAB_AS_INDENT: 'indent with blanks, not with tabs',
  BAD_INDENT:
    'the indentation is wrong: this is not indented like the lines around it, or a bracket above is not closed',
  BAD_SCALAR_START: 'a text that begins with this character stands in quotes',
  UNEXPECTED_TOKEN: `YAML did not expect this here; ${quoteHint}; ${indentHint}`,
  MISSING_CHAR: `a closing quote, bracket or a comma is missing; ${indentHint}`,
  MULTILINE_IMPLICIT_KEY: `a key and its ":" stand on one line, and a blank follows the ":"; ${indentHint}`,
  BLOCK_AS_IMPLICIT_KEY: `a key and its value stand on one line, or the value is indented below; ${quoteHint}; ${indentHint}`,
  BLOCK_IN_FLOW: 'inside { } and [ ] only the short form can stand',
  BAD_DQ_ESCAPE: 'this \\ means nothing between double quotes; use single quotes',
  MULTIPLE_DOCS: 'the file holds more than one document; keep what is above this "---"',
  NON_STRING_KEY: 'a key must be a text',
  RESOURCE_EXHAUSTION: 'this is nested too deeply',
  TAG_RESOLVE_FAILED: `a text that begins with "!" stands in quotes`,
};

/** References to nothing and keys that are no text: `toJS` would throw or guess. */
function referenceFaults(document: Document.Parsed): { readonly message: string; readonly offset: number }[] {
  const faults: { message: string; offset: number }[] = [];
  visit(document, {
    Alias(_, node) {
      if (node.resolve(document) !== undefined) return;
      faults.push({ message: 'a text that begins with "*" stands in quotes', offset: node.range?.[0] ?? 0 });
    },
    Pair(_, pair) {
      if (isScalar(pair.key)) return;
      const key = pair.key as Node | null;
      faults.push({ message: 'a key must be a text', offset: key?.range?.[0] ?? 0 });
    },
  });
  return faults;
}

function toValue(document: Document.Parsed, problems: SourceProblem[]): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    problems.push({ message: 'the anchors (&, *) of this file make it grow without bound', line: 1, column: 1 });
    return undefined;
  }
}

function offsetOf(document: Document.Parsed, path: KeyPath, part: 'key' | 'value'): number | undefined {
  let node: unknown = document.contents;
  let offset = document.contents?.range?.[0];
  for (const [index, key] of path.entries()) {
    const wantsKey = part === 'key' && index === path.length - 1;
    const step = child(document, node, key, wantsKey);
    if (step === undefined) return offset;
    offset = step.offset ?? offset;
    node = step.node;
  }
  return offset;
}

function child(document: Document.Parsed, parent: unknown, key: string | number, wantsKey: boolean) {
  const holder = isAlias(parent) ? parent.resolve(document) : parent;
  if (isSeq(holder) && typeof key === 'number') {
    const node = holder.items[key] as Node | undefined;
    return node === undefined ? undefined : { node, offset: node.range?.[0] };
  }
  if (!isMap(holder)) return undefined;
  const pair = holder.items.find((item) => isScalar(item.key) && String(item.key.value) === key);
  if (pair === undefined || !isScalar(pair.key)) return undefined;
  const node = pair.value as Node | null;
  return { node, offset: wantsKey ? pair.key.range?.[0] : (node?.range?.[0] ?? pair.key.range?.[0]) };
}
