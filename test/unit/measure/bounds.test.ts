/** What a backend makes up must not make a record large. */
import { describe, expect, it } from 'vitest';
import { sse, text } from '../../support/events.ts';
import { observe, observeAnswer } from '../../support/observe.ts';

describe('a record', () => {
  it('keeps of an endless model name and finish reason no more than their beginning', () => {
    const long = 'x'.repeat(200_000);
    const event = sse({ model: long, choices: [{ index: 0, delta: {}, finish_reason: long }] });
    const streamed = observe({}, [
      [1, text('a').replace('"model":"m1",', '')],
      [2, event],
    ]);
    const whole = observeAnswer(
      {},
      5,
      JSON.stringify({ model: 'y'.repeat(900), choices: [{ index: 0, finish_reason: 'z'.repeat(900) }] }),
    );
    for (const record of [streamed, whole]) {
      expect(record.responseModel).toHaveLength(512);
      expect(record.finishReasons[0]).toHaveLength(64);
      expect(JSON.stringify(record).length).toBeLessThan(4000);
    }
  });

  it('keeps ordinary ones as they are', () => {
    const name = 'org/'.padEnd(512, 'm');
    const { responseModel, finishReasons } = observe({}, [
      [1, sse({ model: name, choices: [{ index: 0, delta: { content: 'a' }, finish_reason: 'content_filter' }] })],
    ]);
    expect([responseModel, finishReasons]).toEqual([name, ['content_filter']]);
  });
});
