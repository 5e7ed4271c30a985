import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { receive, type BodyPlan, type Received } from '../../../src/classify/receive.ts';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { createByteBudget } from '../../../src/platform/byte-budget.ts';
import type { BodySink } from '../../../src/platform/upstream/port.ts';

const mebibyte = 1024 * 1024;
const turn = () => new Promise((resolve) => setImmediate(resolve));

function upload(kind: BodyPlan, options: { readonly bytes?: number; readonly heldBytes?: number } = {}) {
  const stream = new PassThrough({ highWaterMark: 64 * 1024 });
  const budget = createByteBudget(options.heldBytes ?? 100 * mebibyte);
  const told: (number | 'last')[] = [];
  const received = receive(
    { stream, bytes: options.bytes, proceed() {} },
    { kind, contentType: kind === 'multipart' ? 'multipart/form-data; boundary=b' : undefined },
    {
      maxBodyBytes: 1000,
      keys: new Map(),
      budget,
      witness: { bytes: (total) => void told.push(total), last: () => void told.push('last') },
    },
  );
  return { stream, budget, told, received };
}

async function streamed(received: ReturnType<typeof upload>['received']): Promise<Received> {
  const result = await received;
  if (result === 'gone' || isRefusal(result)) throw new Error('not taken in');
  return result;
}

/** Takes whatever comes, unless told to be full. */
function sinkOf({ body }: Received) {
  const seen = { bytes: 0, ended: 'no' as 'no' | 'end' | 'fail', takes: true };
  const sink: BodySink = {
    write(chunk) {
      seen.bytes += chunk.length;
      return seen.takes;
    },
    end: () => void (seen.ended = 'end'),
    fail: () => void (seen.ended = 'fail'),
  };
  if (body.kind !== 'stream') throw new Error('no stream');
  return { seen, start: () => body.start(sink), drained: () => body.drained() };
}

describe('what is known of a body', () => {
  it('is told of a streamed one when its last byte has come, with the bytes counted', async () => {
    const { stream, told, received } = upload('stream');
    const { seen, start } = sinkOf(await streamed(received));
    start();
    stream.write(Buffer.alloc(30_000));
    await turn();
    expect([seen.bytes, told]).toEqual([30_000, []]);
    stream.end(Buffer.alloc(20_000));
    await turn();
    await turn();
    expect(told).toEqual([50_000, 'last']);
    expect(seen).toMatchObject({ bytes: 50_000, ended: 'end' });
  });

  it('counts what a form held before it streamed on', async () => {
    const { stream, told, received } = upload('multipart');
    const model = '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\n';
    stream.write(model);
    const { start } = sinkOf(await streamed(received));
    start();
    stream.end('rest');
    await turn();
    await turn();
    expect(told).toEqual([model.length + 4, 'last']);
  });

  it('is its announced length, and nothing where none is announced and it is too large', async () => {
    const announced = upload('json', { bytes: 2000 });
    expect(await announced.received).toMatchObject({ code: 'body_too_large' });
    expect(announced.told).toEqual([2000]);
    const chunked = upload('json');
    chunked.stream.write(Buffer.alloc(1500));
    expect(await chunked.received).toMatchObject({ code: 'body_too_large' });
    expect(chunked.told).toEqual([]);
    const none = upload('none', { bytes: 0 });
    await none.received;
    expect(none.told).toEqual([0, 'last']);
  });
});

describe('R09 C080 a streamed body that waits for its backend', () => {
  it('is read on, so that its client is seen to leave, up to a bound and within the budget', async () => {
    const { stream, budget, received } = upload('stream');
    const taken = await streamed(received);
    for (let i = 0; i < 40; i += 1) {
      stream.write(Buffer.alloc(64 * 1024));
      await turn();
    }
    expect(budget.taken).toBe(mebibyte);
    expect(stream.isPaused()).toBe(true);
    const { seen, start } = sinkOf(taken);
    start();
    expect(budget.taken).toBe(0);
    stream.end();
    while (seen.ended === 'no') await turn();
    expect(seen).toMatchObject({ bytes: 40 * 64 * 1024, ended: 'end' });
  });

  it('that was all here, or broke, says so when it is started', async () => {
    const whole = upload('stream');
    const taken = await streamed(whole.received);
    whole.stream.end('all');
    await turn();
    await turn();
    expect(whole.told).toEqual([3, 'last']);
    const { seen, start } = sinkOf(taken);
    start();
    expect(seen).toMatchObject({ bytes: 3, ended: 'end' });

    const broken = upload('stream');
    const other = sinkOf(await streamed(broken.received));
    broken.stream.destroy(new Error('reset'));
    await turn();
    other.start();
    expect(other.seen.ended).toBe('fail');
  });

  it('rests when the backend takes no more of what was read ahead, until it does', async () => {
    const { stream, received } = upload('stream');
    const { seen, start, drained } = sinkOf(await streamed(received));
    stream.write('ab');
    await turn();
    seen.takes = false;
    start();
    stream.write('cd');
    await turn();
    expect(seen.bytes).toBe(2);
    seen.takes = true;
    drained();
    await turn();
    expect(seen.bytes).toBe(4);
  });

  it('is let go with its request, and gives back what it took', async () => {
    const { stream, budget, received } = upload('stream');
    const taken = await streamed(received);
    stream.write(Buffer.alloc(1000));
    await turn();
    expect(budget.taken).toBe(1000);
    taken.release();
    taken.release();
    stream.write(Buffer.alloc(1000));
    stream.resume();
    await turn();
    expect(budget.taken).toBe(0);
  });

  it('takes no more than one read past a full budget', async () => {
    const { stream, budget, received } = upload('stream', { heldBytes: 10 });
    const { seen, start } = sinkOf(await streamed(received));
    stream.write('twelve bytes');
    await turn();
    expect([budget.taken, stream.isPaused()]).toEqual([0, true]);
    start();
    expect(seen.bytes).toBe(12);
  });
});
