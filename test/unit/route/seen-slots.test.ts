import { describe, expect, it } from 'vitest';
import { SeenSlots } from '../../../src/route/seen-slots.ts';

const begun = { ttftMs: 100, expectedMs: 80, streams: 5, stepMs: 20 };

describe('the streams that an engine runs at once', () => {
  it('are not known while nobody waits, however many run', () => {
    const seen = new SeenSlots();
    for (let streams = 1; streams < 200; streams += 1) seen.learn({ ...begun, streams });
    expect(seen.limit).toBeUndefined();
  });

  it('are those among which a job began that came much later than its prefill explains', () => {
    const seen = new SeenSlots();
    for (let n = 0; n < 20; n += 1) seen.learn({ ...begun, ttftMs: 900, streams: 8 });
    expect(seen.limit).toBeCloseTo(8, 6);
    seen.learn({ ...begun, ttftMs: 900, streams: 1 });
    expect(seen.limit).toBeCloseTo(8, 6);
  });

  it('are at least as many as run beside a job that did not wait', () => {
    const seen = new SeenSlots();
    seen.learn({ ...begun, ttftMs: 900, streams: 8 });
    seen.learn({ ...begun, streams: 30 });
    expect(seen.limit).toBe(30);
    seen.learn({ ...begun, streams: 3 });
    expect(seen.limit).toBe(30);
  });
});
