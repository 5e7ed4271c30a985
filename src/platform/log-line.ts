/**
 * The reverse of `log.ts`: one line of the log, in either format, as its fields. Understands what stands around a line
 * that a container engine or journal has kept: words before it, or a JSON object with the line in it.
 */

export interface LogLine {
  /** ms since the epoch */
  readonly timeMs: number;
  readonly message: string;
  /** All fields, the first three included. Numbers and booleans of logfmt are still text. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** `foreign`: no line of this program; `malformed`: it begins as one and can't be read, such as a line cut off. */
export type ParsedLine = LogLine | 'foreign' | 'malformed';

export function parseLogLine(text: string): ParsedLine {
  const jsonAt = text.indexOf('{"time":"');
  if (jsonAt >= 0) return parseJson(text.slice(jsonAt));
  const wrapped = text.startsWith('{') ? unwrapped(text) : undefined;
  if (wrapped !== undefined) return parseLogLine(wrapped);
  const logfmtAt = logfmtStart(text);
  return logfmtAt < 0 ? 'foreign' : parseLogfmt(text, logfmtAt);
}

/** Docker's `json-file` keeps a line in `log`, journald's JSON in `MESSAGE`. */
function unwrapped(text: string): string | undefined {
  const object = parseObject(text);
  const inner = object?.['log'] ?? object?.['MESSAGE'];
  // Shorter by its wrapping, so that this ends.
  return typeof inner === 'string' && inner.length < text.length ? inner.trimEnd() : undefined;
}

function parseJson(text: string): ParsedLine {
  const fields = parseObject(text);
  return fields === undefined ? 'malformed' : lineOf(fields);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function logfmtStart(text: string): number {
  for (let at = text.indexOf('time='); at >= 0; at = text.indexOf('time=', at + 5)) {
    if ((at === 0 || text[at - 1] === ' ' || text[at - 1] === '\t') && /^\d{4}-/.test(text.slice(at + 5, at + 10)))
      return at;
  }
  return -1;
}

function parseLogfmt(text: string, start: number): ParsedLine {
  const fields: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  let at = start;
  while (at < text.length) {
    const equals = text.indexOf('=', at);
    if (equals <= at) return 'malformed';
    const key = text.slice(at, equals);
    if (key.includes(' ')) return 'malformed';
    const end = text[equals + 1] === '"' ? quotedEnd(text, equals + 1) : plainEnd(text, equals + 1);
    if (end < 0) return 'malformed';
    const value = text.slice(equals + 1, end);
    const read = value.startsWith('"') ? parseString(value) : value;
    if (read === undefined) return 'malformed';
    fields[key] = read;
    at = end + 1;
  }
  return lineOf(fields);
}

function plainEnd(text: string, from: number): number {
  const blank = text.indexOf(' ', from);
  return blank < 0 ? text.length : blank;
}

/** Behind the closing quote, which a blank or the line's end must follow; -1: there is none. */
function quotedEnd(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '"') return at + 1 === text.length || text[at + 1] === ' ' ? at + 1 : -1;
  }
  return -1;
}

function parseString(quoted: string): string | undefined {
  try {
    const value: unknown = JSON.parse(quoted);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

function lineOf(fields: Readonly<Record<string, unknown>>): ParsedLine {
  const { time, level, msg } = fields;
  const timeMs = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  if (Number.isNaN(timeMs) || typeof level !== 'string' || typeof msg !== 'string') return 'malformed';
  return { timeMs, message: msg, fields };
}
