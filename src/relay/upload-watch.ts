/** Sees whether a backend takes a streamed request body: since when it has left the source waiting. Passes every byte on. */
import type { BodySink, RequestBody } from '../platform/upstream/port.ts';

export interface UploadWatch {
  readonly body: RequestBody;
  /** Monotonic ms; undefined while the backend takes what comes. */
  readonly fullMs: number | undefined;
}

/** @param nowMs the monotonic clock */
export function watchUpload(body: RequestBody, nowMs: () => number): UploadWatch {
  if (body.kind !== 'stream') return { body, fullMs: undefined };
  let fullMs: number | undefined;
  return {
    body: {
      kind: 'stream',
      bytes: body.bytes,
      start: (sink: BodySink) =>
        body.start({
          write(chunk) {
            const takes = sink.write(chunk);
            fullMs = takes ? undefined : (fullMs ?? nowMs());
            return takes;
          },
          end: () => sink.end(),
          fail: () => sink.fail(),
        }),
      drained() {
        fullMs = undefined;
        body.drained();
      },
    },
    get fullMs() {
      return fullMs;
    },
  };
}
