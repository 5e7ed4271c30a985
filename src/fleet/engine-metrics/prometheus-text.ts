/**
 * Reads the wanted series out of Prometheus text: strict, bounded, and quick on the many lines that nobody wants.
 * Own code: the packages for it build an object for each of the hundreds of bucket lines that are thrown away, throw at
 * what is malformed, and know no bounds. A line that is wrong costs itself only.
 * Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text 0.0.4, and 1.0.0 as vLLM labels it)
 */

export type SampleLabels = ReadonlyMap<string, string>;

export interface Sample {
  readonly name: string;
  readonly labels: SampleLabels;
  /** may be NaN or infinite */
  readonly value: number;
}

export interface Samples {
  readonly samples: readonly Sample[];
  /** Wanted lines that could not be read. */
  readonly malformed: number;
  /** There were more wanted lines than are read, or more text. */
  readonly cut: boolean;
}

/** Characters of text that are read; the longest known answer, vLLM's, has 60,000. */
export const maxTextLength = 1024 * 1024;
/** Wanted series that are read: 64 engines behind one port with 60 series each. */
export const maxSamples = 4096;
const maxLineLength = 16_384;
const maxLabels = 64;

const noLabels: SampleLabels = new Map();

/** Never throws. */
export function readSamples(text: string, wanted: ReadonlySet<string>): Samples {
  const samples: Sample[] = [];
  const length = Math.min(text.length, maxTextLength);
  let malformed = 0;
  for (let at = 0; at < length;) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 || newline > length ? length : newline;
    const nameEnd = endOfName(text, at, end);
    const name = text.slice(at, nameEnd);
    // A last line without its end may have lost digits: of an answer that just stopped nobody knows.
    if (nameEnd > at && wanted.has(name)) {
      if (samples.length >= maxSamples) return { samples, malformed, cut: true };
      const lost = newline < 0 || newline > length;
      const sample = lost || end - at > maxLineLength ? undefined : readRest(name, text.slice(nameEnd, end));
      if (sample === undefined) malformed += 1;
      else samples.push(sample);
    }
    at = end + 1;
  }
  return { samples, malformed, cut: text.length > length };
}

function endOfName(text: string, start: number, end: number): number {
  let at = start;
  while (at < end && isNameCode(text.charCodeAt(at))) at += 1;
  return at;
}

/** Letters, digits, `_` and `:`; that a name begins with no digit is settled by the wanted ones. */
function isNameCode(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 58) || code === 95; /* _ */
}

const pair = /[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*/y;
/** Value, then perhaps a timestamp in ms. */
const valuePart = /^[ \t]+([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?Inf|NaN)(?:[ \t]+-?\d+)?[ \t]*\r?$/;

/** @param rest of the line, behind the name */
function readRest(name: string, rest: string): Sample | undefined {
  if (!rest.startsWith('{')) {
    const value = readValue(rest);
    return value === undefined ? undefined : { name, labels: noLabels, value };
  }
  const labels = new Map<string, string>();
  let at = 1;
  while (rest[at] !== '}') {
    pair.lastIndex = at;
    const found = pair.exec(rest);
    if (found === null || labels.size >= maxLabels) return undefined;
    labels.set(found[1] ?? '', unescaped(found[2] ?? ''));
    at = pair.lastIndex;
    if (rest[at] === ',') at += 1;
    else if (rest[at] !== '}') return undefined;
    while (rest[at] === ' ' || rest[at] === '\t') at += 1;
  }
  const tail = rest.slice(at + 1);
  const value = readValue(/^[ \t]/.test(tail) ? tail : ` ${tail}`);
  return value === undefined ? undefined : { name, labels, value };
}

function readValue(text: string): number | undefined {
  const found = valuePart.exec(text)?.[1];
  if (found === undefined) return undefined;
  if (found.endsWith('Inf')) return found.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(found);
}

function unescaped(value: string): string {
  return value.includes('\\') ? value.replace(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one)) : value;
}
