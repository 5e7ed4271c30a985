/**
 * Structured log: one line per entry on stderr, logfmt or JSON. Never given prompts, answers or keys.
 * Own code because it is one function in two formats; the libraries write JSON only or need a worker for logfmt.
 */
import { numberText } from './number-text.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFormat = 'logfmt' | 'json';
export type LogFields = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>
>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  /** @param more fields that follow; of what both name, JSON keeps the latter */
  info(message: string, fields?: LogFields, more?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Lines that nobody took, so far; absent where none can be lost. */
  readonly dropped?: () => number;
}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };

export interface LogSettings {
  readonly level: LogLevel;
  readonly format: LogFormat;
}

/** @returns false: the line was dropped; anything else: it was taken */
export type LineWriter = (line: string) => unknown;

/**
 * Lines that were dropped are counted, and the count is logged as soon as a line is taken again, whatever the level.
 * @param write receives one line with its newline; the default writes to stderr
 */
export function createLog(settings: LogSettings, write: LineWriter = (line) => void process.stderr.write(line)): Log {
  const render = settings.format === 'json' ? renderJson : renderLogfmt;
  let dropped = 0;
  let droppedEver = 0;
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = none, more: LogFields = none) => {
      if (ranks[level] < ranks[settings.level]) return;
      if (
        dropped > 0 &&
        write(render('warn', 'log lines were dropped: nobody read them', { lines: dropped }, none)) !== false
      )
        dropped = 0;
      if (write(render(level, message, fields, more)) !== false) return;
      dropped += 1;
      droppedEver += 1;
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), dropped: () => droppedEver };
}

const none: LogFields = {};

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

function renderJson(level: LogLevel, message: string, fields: LogFields, more: LogFields): string {
  return `${JSON.stringify({ time: new Date().toISOString(), level, msg: message, ...fields, ...more })}\n`;
}

function renderLogfmt(level: LogLevel, message: string, fields: LogFields, more: LogFields): string {
  return `time=${timeText()} level=${level} msg=${quote(message)}${pairs(fields)}${pairs(more)}\n`;
}

function pairs(fields: LogFields): string {
  let text = '';
  for (const key in fields) {
    const value = fields[key];
    if (value === undefined || value === null) continue;
    text += prefixOf(key) + (typeof value === 'number' ? numberText(value) : quote(String(value)));
  }
  return text;
}

/** ` key=` for each key, put together once: a request's line has some forty of them. */
const prefixes = new Map<string, string>();

function prefixOf(key: string): string {
  const known = prefixes.get(key);
  if (known !== undefined) return known;
  const made = ` ${key}=`;
  prefixes.set(key, made);
  return made;
}

/** The lines of one millisecond share their time's text, which is dear to make. */
let latestMs = NaN;
let latestText = '';

function timeText(): string {
  const nowMs = Date.now();
  if (nowMs !== latestMs) {
    latestMs = nowMs;
    latestText = new Date(nowMs).toISOString();
  }
  return latestText;
}

/** Quotes when a blank, quote, equals sign or control character would make the pair ambiguous. */
function quote(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what must not get through
  return text === '' || /[\s"=\\\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(text)
    ? escaped(JSON.stringify(text))
    : text;
}

/** JSON leaves some characters as they are at which a reader of lines, or a terminal, may begin a new one. */
function escaped(json: string): string {
  return json.replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
