/**
 * Structured log: one line per entry on stderr, logfmt or JSON. Never given prompts, answers or keys.
 * Own code because it is one function in two formats; the libraries write JSON only or need a worker for logfmt.
 */

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFormat = 'logfmt' | 'json';
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined | readonly (string | number)[]>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };

export interface LogSettings {
  readonly level: LogLevel;
  readonly format: LogFormat;
}

/** @param write receives one line with its newline; the default writes to stderr */
export function createLog(
  settings: LogSettings,
  write: (line: string) => void = (line) => void process.stderr.write(line),
): Log {
  const render = settings.format === 'json' ? renderJson : renderLogfmt;
  const at = (level: LogLevel) => (message: string, fields: LogFields = {}) => {
    if (ranks[level] >= ranks[settings.level]) write(render(level, message, fields));
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

function renderJson(level: LogLevel, message: string, fields: LogFields): string {
  return `${JSON.stringify({ time: new Date().toISOString(), level, msg: message, ...fields })}\n`;
}

function renderLogfmt(level: LogLevel, message: string, fields: LogFields): string {
  let line = `time=${new Date().toISOString()} level=${level} msg=${quote(message)}`;
  for (const [key, value] of Object.entries(fields)) {
    if (value !== undefined && value !== null) line += ` ${key}=${quote(String(value))}`;
  }
  return `${line}\n`;
}

/** Quotes when a blank, quote, equals sign or control character would make the pair ambiguous. */
function quote(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what must not get through
  return text === '' || /[\s"=\\\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(text) ? JSON.stringify(text) : text;
}
