/** How far an answer has come, as the lanes ask for it now and then. */
import { describe, expect, it } from 'vitest';
import type { RequestProgress } from '../../../src/measure/observer.ts';
import { done, role, text, usage } from '../../support/events.ts';
import { playReads, startObserver } from '../../support/observe.ts';

function blank(): RequestProgress {
  return { askedMs: 0, sentMs: undefined, firstTokenMs: 7, lastTokenMs: 7, tokens: 7, events: 7 };
}

describe('the progress of an answer', () => {
  it('is none before its first token, but for when it was asked for and sent', () => {
    const { observer } = startObserver({ startMs: 1000, sentMs: 5 });
    const progress = blank();
    observer.progress(progress);
    expect(progress).toEqual({
      askedMs: 1000,
      sentMs: 1005,
      firstTokenMs: undefined,
      lastTokenMs: undefined,
      tokens: 0,
      events: 0,
    });
  });

  it('is its first and its latest token and how many events came, of each choice', () => {
    const { observer, startMs } = startObserver({ choices: 2 });
    playReads(observer, { choices: 2 }, startMs, [
      [10, role()],
      [50, text('a') + text('b')],
      [90, text('c') + text('d')],
    ]);
    const progress = blank();
    observer.progress(progress);
    expect(progress).toMatchObject({ firstTokenMs: startMs + 50, lastTokenMs: startMs + 90, tokens: 2, events: 2 });
  });

  it('R16 has the engine’s own count once the request is over, beside its events', () => {
    const { observer, startMs } = startObserver({});
    playReads(observer, {}, startMs, [
      [10, role() + text('several words')],
      [20, text('and more')],
      [30, usage(4, 10) + done],
    ]);
    observer.finish({ outcome: 'ok', spokenBy: 'backend', status: 200, atMs: startMs + 30 });
    const progress = blank();
    observer.progress(progress);
    expect(progress).toMatchObject({ tokens: 10, events: 2, lastTokenMs: startMs + 20 });
  });

  it('forgets what an earlier attempt brought', () => {
    const { observer, startMs } = startObserver({});
    playReads(observer, {}, startMs, [[10, role() + text('a')]]);
    observer.attempt({ backend: 'b2', engine: 'vllm', atMs: startMs + 20 });
    const progress = blank();
    observer.progress(progress);
    expect(progress).toMatchObject({ sentMs: undefined, firstTokenMs: undefined, tokens: 0 });
  });
});
