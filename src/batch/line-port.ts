/**
 * How a line of a batch gets its answer: the second front door's side of the pipeline. The runner says what and for whom; who
 * implements it (`batch-feed.ts`) sends it through the pipeline in the batch lane and puts a streamed answer together again.
 */

export interface LineAsk {
  readonly tenant: string;
  readonly requestId: string;
  /** path, for example `/v1/chat/completions` */
  readonly path: string;
  /** the `body` of the line as JSON text, as it stood there */
  readonly body: Buffer;
  /** how often it was taken back for online work, and how often of these while its prompt was computed */
  readonly reclaimed: number;
  readonly promptsTaken: number;
}

export type LineEnd =
  /** any status; `body` is JSON text, or undefined where the backend's answer was no JSON */
  | {
      readonly kind: 'answered';
      readonly status: number;
      readonly body: string;
      readonly retryAfterMs?: number;
      readonly usage?: {
        readonly input: number;
        readonly cached: number;
        readonly output: number;
        readonly reasoning: number;
      };
    }
  /** no answer, or a broken one: connection lost, time-out, no backend */
  | { readonly kind: 'failed'; readonly code: string; readonly message: string; readonly retryable: boolean }
  /** online work took its place, while its prompt was computed or later: to be sent again, before others */
  | { readonly kind: 'reclaimed'; readonly inPrompt: boolean }
  /** by `abort`, or because the process ends */
  | { readonly kind: 'aborted' };

export interface LineSender {
  /** `ended` is called exactly once. @param placed it has a place on a backend: it waits no more; called at each, before `ended` */
  send(ask: LineAsk, ended: (end: LineEnd) => void, placed: () => void): { abort(): void };
}
