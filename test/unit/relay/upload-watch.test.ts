import { describe, expect, it } from 'vitest';
import type { BodySink, RequestBody } from '../../../src/platform/upstream/port.ts';
import { watchUpload } from '../../../src/relay/upload-watch.ts';

describe('the watch over an upload', () => {
  it('tells since when the backend takes nothing, counted from the first refusal, until it takes again', () => {
    let nowMs = 1;
    let sink: BodySink | undefined;
    const drained: string[] = [];
    const source: RequestBody = {
      kind: 'stream',
      bytes: 10,
      start: (given) => (sink = given),
      drained: () => drained.push('on'),
    };
    const watch = watchUpload(source, () => nowMs);
    const taken: string[] = [];
    let takes = true;
    const body = watch.body;
    if (body.kind !== 'stream') throw new Error('a stream stays one');
    expect(body.bytes).toBe(10);
    body.start({
      write(bytes) {
        taken.push(bytes.toString());
        return takes;
      },
      end: () => taken.push('end'),
      fail: () => taken.push('fail'),
    });
    expect(sink?.write(Buffer.from('a'))).toBe(true);
    expect(watch.fullMs).toBeUndefined();
    takes = false;
    nowMs = 5;
    expect(sink?.write(Buffer.from('b'))).toBe(false);
    nowMs = 9;
    sink?.write(Buffer.from('c'));
    expect(watch.fullMs).toBe(5);
    body.drained();
    expect(watch.fullMs).toBeUndefined();
    expect(drained).toEqual(['on']);
    sink?.end();
    sink?.fail();
    expect(taken).toEqual(['a', 'b', 'c', 'end', 'fail']);
  });

  it('leaves a held body as it is', () => {
    const held: RequestBody = { kind: 'held', chunks: [], bytes: 0 };
    const watch = watchUpload(held, () => 1);
    expect(watch.body).toBe(held);
    expect(watch.fullMs).toBeUndefined();
  });
});
