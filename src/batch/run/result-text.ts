/**
 * One line of an output or error file: OpenAI's shape (model servers' reference, D6), the backend's answer inside as it stood.
 * Pure.
 */
import type { BatchUsage, LineResult, PendingLine } from '../batch.ts';
import type { TriedEnd } from './retry.ts';

type NamedLine = Pick<PendingLine, 'line' | 'customId'>;

export interface ResultOf {
  readonly batchId: string;
  readonly line: NamedLine;
  readonly requestId: string;
  readonly ok: boolean;
}

/** An answer, or why there was none. */
export function resultOf(end: TriedEnd, { batchId, line, requestId, ok }: ResultOf): LineResult {
  if (end.kind === 'failed') return failure(batchId, line, { code: end.code, message: end.message });
  const { status, body, usage } = end;
  const response = `{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":${oneLine(body)}}`;
  const text = `${opening(batchId, line)},"response":${response},"error":null}`;
  if (usage === undefined) return { line: line.line, ok, text };
  return { line: line.line, ok, text, usage: usageOf(usage) };
}

export type Unfinished = 'batch_cancelled' | 'batch_expired';

const whyUnfinished: Readonly<Record<Unfinished, string>> = {
  batch_cancelled: 'This request was not executed because the batch was cancelled.',
  batch_expired: 'This request could not be executed before the completion window expired.',
};

export function unfinished(batchId: string, line: NamedLine, code: Unfinished): LineResult {
  return { ...failure(batchId, line, { code, message: whyUnfinished[code] }), unrun: true };
}

/** It can't be mistaken: what an answer holds stands before the text's last member. */
export function isExpired({ text }: Pick<LineResult, 'text'>): boolean {
  return text.endsWith(failureEnd({ code: 'batch_expired', message: whyUnfinished.batch_expired }));
}

interface Failure {
  readonly code: string;
  readonly message: string;
}

function failure(batchId: string, line: NamedLine, why: Failure): LineResult {
  return { line: line.line, ok: false, text: opening(batchId, line) + failureEnd(why) };
}

function failureEnd({ code, message }: Failure): string {
  return `,"response":null,"error":${JSON.stringify({ code, message })}}`;
}

/** The id is the line's for good, however often it is sent. */
function opening(batchId: string, { line, customId }: NamedLine): string {
  const id = `batch_req_${batchId.replace(/^batch_/, '')}_${line}`;
  return `{"id":${JSON.stringify(id)},"custom_id":${JSON.stringify(customId)}`;
}

/** Raw line ends in JSON stand between its tokens only. */
function oneLine(json: string): string {
  return /[\r\n]/.test(json) ? json.replaceAll(/[\r\n]+/g, ' ').trim() : json;
}

function usageOf(usage: { input: number; cached: number; output: number; reasoning: number }): BatchUsage {
  const { input, cached, output, reasoning } = usage;
  return { inputTokens: input, cachedTokens: cached, outputTokens: output, reasoningTokens: reasoning };
}
