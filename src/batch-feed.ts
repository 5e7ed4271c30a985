/**
 * Gives the lines of batches what they work with: the pipeline as the way to a backend, in lane batch, and an ear that puts the
 * answer together again. Decides nothing: which line goes when is the runner's, what an answer means `assemble/line-end.ts`'s.
 */
import { type AnswerAssembly, createAnswerAssembly } from './batch/assemble/answer-assembly.ts';
import { lineEnd } from './batch/assemble/line-end.ts';
import { type BatchEndpoint, batchEndpoints } from './batch/batch.ts';
import type { PromptKeys } from './batch/input/prompt-keys.ts';
import type { LineAsk, LineEnd, LineSender } from './batch/line-port.ts';
import { findEndpoint } from './classify/endpoint-table.ts';
import { prefixKeys } from './classify/prefix-keys.ts';
import type { PromptReader } from './classify/prefix-scan.ts';
import { planStream } from './classify/stream-plan.ts';
import type { RequestRecord } from './domain/record.ts';
import type { LineTerms, TakenIn } from './passage.ts';
import type { Pipeline } from './pipeline.ts';
import type { Clock } from './platform/clock.ts';
import { lowerName } from './platform/header-name.ts';
import { createListeningClient } from './platform/listening-client.ts';
import { ownHead, ownUpload } from './platform/own-client.ts';

export interface BatchFeedSettings {
  /** Answer of one line, put together; a longer one fails. */
  readonly maxAnswerBytes: number;
  /** How often a line may be taken back for online work once its answer has begun. 0: never at all. */
  readonly maxReclaims: number;
}

export interface BatchFeedDeps {
  readonly clock: Clock;
  /** Asked when something is to be sent. */
  readonly pipeline: () => Pick<Pipeline, 'serve'>;
}

export function createBatchFeed(settings: BatchFeedSettings, { clock, pipeline }: BatchFeedDeps): LineSender {
  return {
    send(ask, ended, placed) {
      const { requestId, path, body, tenant, reclaimed, promptsTaken } = ask;
      const answer = collect(ask, settings.maxAnswerBytes, () => client.leave());
      const client = createListeningClient(answer);
      let left: Extract<LineEnd, { kind: 'aborted' | 'reclaimed' }> | undefined;
      let record: RequestRecord | undefined;
      const leave = (why: NonNullable<typeof left>) => {
        left ??= why;
        client.leave();
      };
      const head = ownHead({ requestId, target: path, receivedMs: clock.nowMs(), agent: 'warmlane-batch' });
      const plan = planStream(path, body);
      const terms: LineTerms = {
        kind: 'line',
        tenant,
        again: reclaimed > 0,
        ...(settings.maxReclaims > 0
          ? { taken: (stage: TakenIn) => leave({ kind: 'reclaimed', inPrompt: stage === 'prompt' }) }
          : {}),
        staysOnceBegun: reclaimed - promptsTaken >= settings.maxReclaims,
        promptsTaken,
        ...(plan === undefined ? {} : { mayStream: plan }),
        placed,
        booked: (booked) => {
          record = booked;
        },
        over() {
          const assembled = answer.assembled(record);
          // It may have been whole in the very moment that it was left.
          const isWhole = client.how === 'ended' || assembled?.kind === 'whole';
          if (answer.tooLong) ended(tooLarge(settings.maxAnswerBytes));
          else if (left !== undefined && !isWhole) ended(left);
          else {
            const { status, retryAfter } = answer;
            const how = isWhole && client.how === 'open' ? 'ended' : client.how;
            const told = assembled?.kind === 'whole' ? finished(record) : record;
            const text = answer.text();
            ended(lineEnd({ status, retryAfter, how, text, assembled }, told, clock.wallMs()));
          }
        },
      };
      pipeline().serve(head, ownUpload(body), client, terms);
      return { abort: () => leave({ kind: 'aborted' }) };
    },
  };
}

/** Lines are put in order by what routing knows prompts by. */
export function promptKeys(reader: PromptReader): PromptKeys {
  return { members: new Set(prefixKeys), begin: (path) => reader(findEndpoint('POST', path).reads) };
}

/** What was complete when a shutdown came is complete. */
function finished(record: RequestRecord | undefined): RequestRecord | undefined {
  return record === undefined || record.outcome === 'ok' ? record : { ...record, outcome: 'ok' };
}

function tooLarge(bytes: number): LineEnd {
  const message = `The answer is longer than ${bytes} bytes (batch.maxAnswerBytes).`;
  return { kind: 'failed', code: 'answer_too_large', message, retryable: false };
}

/** Keeps an answer as it comes, within its bound. @param overflow it is longer: nobody needs the rest */
function collect({ path }: LineAsk, maxBytes: number, overflow: () => void) {
  const endpoint = batchEndpoints.find((known: BatchEndpoint) => known === path);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let status: number | undefined;
  let retryAfter: string | undefined;
  let assembly: AnswerAssembly | undefined;
  let tooLong = false;
  return {
    get status() {
      return status;
    },
    get retryAfter() {
      return retryAfter;
    },
    get tooLong() {
      return tooLong;
    },
    head(told: number, rawHeaders: readonly string[]) {
      status = told;
      retryAfter = headerOf(rawHeaders, 'retry-after');
      const type = headerOf(rawHeaders, 'content-type') ?? '';
      const streams = told < 300 && /^\s*text\/event-stream\b/i.test(type);
      if (streams && endpoint !== undefined) assembly = createAnswerAssembly(endpoint, maxBytes);
    },
    data(chunk: Buffer) {
      if (tooLong) return;
      if (assembly !== undefined) {
        assembly.push(chunk);
        tooLong = assembly.tooLong;
      } else {
        bytes += chunk.length;
        tooLong = bytes > maxBytes;
        // The socket's buffer is used again.
        if (!tooLong) chunks.push(Buffer.from(chunk));
      }
      if (!tooLong) return;
      chunks.length = 0;
      overflow();
    },
    text: () => Buffer.concat(chunks).toString('utf8'),
    assembled: (record: RequestRecord | undefined) => assembly?.end(record?.engine),
  };
}

function headerOf(rawHeaders: readonly string[], name: string): string | undefined {
  for (let at = 0; at + 1 < rawHeaders.length; at += 2)
    if (lowerName(rawHeaders[at] ?? '') === name) return rawHeaders[at + 1];
  return undefined;
}
