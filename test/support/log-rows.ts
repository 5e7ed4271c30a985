/** Request lines as warmlane writes them, and rows as the report reads them, with what a test doesn't care about filled in. */
import { readRow, type Row } from '../../src/account/report/row.ts';
import type { LogFields, LogFormat } from '../../src/platform/log.ts';
import { createLog } from '../../src/platform/log.ts';
import { type LogLine, parseLogLine } from '../../src/platform/log-line.ts';

export const logStartMs = Date.parse('2026-03-01T12:00:00.000Z');

/** The fields of one request: 101 tokens, the first at 0.8 s, the last at 2.8 s (TPOT 20 ms). */
export function requestFields(over: LogFields = {}): LogFields {
  return {
    requestId: 'r1',
    outcome: 'ok',
    status: 200,
    method: 'POST',
    path: '/v1/chat/completions',
    endpoint: 'chat',
    model: 'm',
    backend: 'b',
    engine: 'vllm',
    lane: 'online',
    attempts: 1,
    stream: true,
    warmth: 'resident',
    promptTokens: 1000,
    cachedTokens: 100,
    outputTokens: 101,
    tokensFrom: 'usage',
    finish: ['stop'],
    ttftMs: 800,
    tpotMs: 20,
    tpotWindow: 'visible',
    maxItlMs: 25,
    e2eMs: 2800,
    durationMs: 2810,
    queueMs: 5,
    connectMs: 1,
    overheadMs: 0.5,
    sentMs: 6.5,
    bodyMs: 0,
    startedAt: new Date(logStartMs).toISOString(),
    ...over,
  };
}

export function lineText(message: string, fields: LogFields, format: LogFormat = 'json'): string {
  const lines: string[] = [];
  createLog({ level: 'debug', format }, (line) => void lines.push(line)).info(message, fields);
  return lines.join('');
}

/** A line whose own time is the request's end, as it would be in a log. */
export function requestLine(over: LogFields = {}, format: LogFormat = 'json'): string {
  const fields = requestFields(over);
  const endMs = Date.parse(String(fields['startedAt'])) + Number(fields['durationMs']);
  return lineText('request', fields, format).replace(/\d{4}-[\d-]+T[\d:.]+Z/, new Date(endMs).toISOString());
}

export function parsed(text: string): LogLine {
  const line = parseLogLine(text.trimEnd());
  if (typeof line === 'string') throw new Error(`${line}: ${text}`);
  return line;
}

export function row(over: LogFields = {}): Row {
  const read = readRow(parsed(requestLine(over)));
  if (read === undefined) throw new Error('no row');
  return read;
}

/** When it came, in ms after the log's start. */
export function at(ms: number): { readonly startedAt: string } {
  return { startedAt: new Date(logStartMs + ms).toISOString() };
}
