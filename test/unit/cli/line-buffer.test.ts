import { describe, expect, it } from 'vitest';
import { createLineBuffer } from '../../../src/cli/line-buffer.ts';

describe('gathered log lines', () => {
  it('are written together, in order, once', () => {
    const written: string[] = [];
    const buffer = createLineBuffer({ write: (text) => void written.push(text), waiting: () => 0 });
    buffer.write('a\n');
    buffer.write('b\n');
    expect(written).toEqual([]);
    buffer.flush();
    buffer.flush();
    expect(written).toEqual(['a\nb\n']);
  });

  it('are written by themselves soon, and at once when they are many', async () => {
    const written: string[] = [];
    const buffer = createLineBuffer({ write: (text) => void written.push(text), waiting: () => 0 });
    buffer.write('x'.repeat(70_000));
    expect(written.length).toBe(1);
    buffer.write('y\n');
    await expect.poll(() => written.length).toBe(2);
  });

  it('are refused while too much waits for a reader that stalls, and taken again once it has read half', () => {
    let waiting = 0;
    const buffer = createLineBuffer({ write: (text) => void (waiting += text.length), waiting: () => waiting });
    const line = `${'x'.repeat(999)}\n`;
    let taken = 0;
    while (taken < 10_000 && buffer.write(line)) taken += 1;
    expect(taken).toBe(Math.floor((4 * 1024 * 1024) / line.length));
    waiting -= 1024 * 1024;
    expect(buffer.write(line)).toBe(false);
    waiting -= 2 * 1024 * 1024;
    expect(buffer.write(line)).toBe(true);
    buffer.flush();
  });
});
