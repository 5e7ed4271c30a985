import { describe, expect, it } from 'vitest';
import { EventFlag } from '../../../src/domain/tap.ts';
import type { BodyRead } from '../../../src/platform/upstream/port.ts';
import { createAnswerReader, type AnswerReaderSettings, type AnswerTap } from '../../../src/relay/answer-reader.ts';
import { bodyRead } from '../../support/body-read.ts';

interface FakeTap extends AnswerTap {
  readonly said: string[];
}

/** Notes all that it is told; an event's text says which flag it has. */
function fakeTap(over: Partial<AnswerTap> = {}): FakeTap {
  const said: string[] = [];
  return {
    said,
    error: undefined,
    beginRead: (atMs) => void said.push(`read ${atMs}`),
    endRead: () => void said.push('end of read'),
    gaveUp: (reason) => void said.push(reason),
    answer: (chunk) => void said.push(`answer ${chunk.toString()}`),
    answerEnd: () => void said.push('end of answer'),
    failed: (error) => void said.push(`failed ${String(error)}`),
    event(data, start, end, name) {
      const text = data.toString('utf8', start, end);
      said.push(`event ${name}|${text}`);
      if (text === 'finish') return EventFlag.finish;
      if (text === 'done') return EventFlag.done;
      return text === 'usage' ? EventFlag.usageOnly : EventFlag.token;
    },
    ...over,
  };
}

function reader(tap: AnswerTap, over: Partial<AnswerReaderSettings> = {}) {
  return createAnswerReader(
    { medium: 'sse', format: 'chat', maxEventBytes: 100, strip: false, measured: true, ...over },
    tap,
  );
}

const read = (text: string): BodyRead => bodyRead(Buffer.from(text));

/** One read whose payload lies in several places, as chunk framing leaves it. */
function pieces(...texts: readonly string[]): BodyRead {
  const wire = Buffer.from(texts.map((text) => `5\r\n${text}\r\n`).join(''));
  let at = 0;
  const spans = texts.map((text) => {
    at += 3;
    const span = [at, at + Buffer.byteLength(text)] as const;
    at = span[1] + 2;
    return span;
  });
  return {
    ...bodyRead(wire),
    count: texts.length,
    starts: spans.map(([start]) => start),
    ends: spans.map(([, end]) => end),
    payloadBytes: texts.join('').length,
  };
}

describe('a stream that is read', () => {
  it('passes as it came, and its events are told with the read’s moment', () => {
    const tap = fakeTap();
    const answer = reader(tap);
    expect(answer.read(read('event: x\ndata: a\n\ndata: b\n\n'), 7)).toBeUndefined();
    expect(tap.said).toEqual(['read 7', 'event x|a', 'event |b', 'end of read']);
    expect(answer.events).toBe(2);
  });

  it('is one, wherever its pieces lie in the read', () => {
    const tap = fakeTap();
    const answer = reader(tap);
    expect(answer.read(pieces('da', 'ta: ', 'a', '\n\ndata: b\n', '\n'), 1)).toBeUndefined();
    expect(tap.said.filter((line) => line.startsWith('event'))).toEqual(['event |a', 'event |b']);
  });

  it('knows the flags of this read and of all before', () => {
    const answer = reader(fakeTap());
    answer.read(read('data: a\n\ndata: finish\n\n'), 1);
    expect([answer.readFlags, answer.flags]).toEqual([
      EventFlag.token | EventFlag.finish,
      EventFlag.token | EventFlag.finish,
    ]);
    answer.read(read('data: done\n\n'), 2);
    expect(answer.readFlags).toBe(EventFlag.done);
    expect(answer.flags).toBe(EventFlag.token | EventFlag.finish | EventFlag.done);
    answer.read(read(': hi\n'), 3);
    expect(answer.readFlags).toBe(0);
  });

  it('stands at a border between events only', () => {
    const answer = reader(fakeTap());
    expect(answer.atBoundary).toBe(true);
    const seen = ['data: a', '\n', '\n', ': c', '\n'].map((text) => {
      answer.read(read(text), 1);
      return answer.atBoundary;
    });
    expect(seen).toEqual([false, false, true, false, true]);
  });

  it('C015 tells its last event at the end, blank line or not', () => {
    const tap = fakeTap();
    const answer = reader(tap);
    answer.read(read('data: finish'), 1);
    expect(answer.end(9)).toBeUndefined();
    expect(tap.said.slice(-3)).toEqual(['read 9', 'event |finish', 'end of read']);
    expect(answer.readFlags).toBe(EventFlag.finish);
  });

  it('C015 C032 takes the usage event out though its blank line never came', () => {
    const answer = reader(fakeTap(), { strip: true });
    expect(answer.read(read('data: finish\n\n'), 1)).toBeUndefined();
    expect(answer.read(read('data: us'), 2)).toEqual([]);
    expect(answer.read(read('age\n'), 3)).toEqual([]);
    expect(answer.end(4)).toBeUndefined();
    expect(answer.readFlags).toBe(EventFlag.usageOnly);
  });

  it('C019 says once that an event was too large, and reads on behind it', () => {
    const tap = fakeTap();
    const answer = reader(tap);
    answer.read(read(`data: ${'x'.repeat(200)}\n\ndata: ${'y'.repeat(200)}\n\ndata: a\n\n`), 1);
    expect(tap.said).toEqual(['read 1', 'event_too_large', 'event |a', 'end of read']);
  });

  it('of lines is read as lines', () => {
    const tap = fakeTap();
    const answer = reader(tap, { medium: 'ndjson', format: 'ollama_chat' });
    answer.read(read('{"a":1}\n{"b"'), 1);
    expect(answer.atBoundary).toBe(false);
    answer.read(read(':2}\n'), 2);
    expect(tap.said.filter((line) => line.startsWith('event'))).toEqual(['event |{"a":1}', 'event |{"b":2}']);
    expect(answer.atBoundary).toBe(true);
  });
});

describe('an answer whose medium is decided by its first byte', () => {
  it('C060 is JSON though it is called an event stream', () => {
    const tap = fakeTap();
    const answer = reader(tap);
    expect(answer.read(read('{"a"'), 1)).toBeUndefined();
    answer.read(read(':1}'), 2);
    expect(answer.end(3)).toBeUndefined();
    expect(tap.said).toEqual(['answer {"a"', 'answer :1}', 'end of answer']);
    expect([answer.medium, answer.atBoundary]).toEqual(['json', false]);
  });

  it('C060 stays an event stream whatever else it begins with', () => {
    const tap = fakeTap();
    const answer = reader(tap);
    answer.read(read('\n\nfoo: bar\n\ndata: a\n\n'), 1);
    expect(answer.medium).toBe('sse');
    expect(tap.said).toContain('event |a');
  });

  it.each([
    ['data: a\n\n', 'sse'],
    ['{"a":1}', 'json'],
    ['PNG', 'opaque'],
  ] as const)('C060 becomes what it looks like where nothing was said: %j', (text, medium) => {
    const answer = reader(fakeTap(), { medium: 'untold' });
    answer.read(read(text), 1);
    expect(answer.medium).toBe(medium);
  });

  it('is decided by the first byte that comes, be it in a later piece', () => {
    const answer = reader(fakeTap(), { medium: 'untold' });
    answer.read(read(''), 1);
    expect(answer.medium).toBe('untold');
    answer.read(pieces('', '{"a"', ':1}'), 2);
    expect(answer.medium).toBe('json');
  });
});

describe('an answer that nobody measures', () => {
  it.each(['sse', 'json', 'untold'] as const)('passes unread (%s)', (medium) => {
    const tap = fakeTap();
    const answer = reader(tap, { medium, measured: false });
    expect(answer.read(read('data: a\n\n{}'), 1)).toBeUndefined();
    expect(answer.end(2)).toBeUndefined();
    expect(tap.said).toEqual([]);
    expect([answer.medium, answer.flags, answer.atBoundary]).toEqual(['opaque', 0, false]);
  });
});

describe('a bug in the measuring', () => {
  const broken = (): never => {
    throw new Error('bug');
  };

  it('never breaks the serving: the rest passes unread, and it is told once', () => {
    const tap = fakeTap({ event: broken });
    const answer = reader(tap);
    expect(answer.read(read('data: a\n\n'), 1)).toBeUndefined();
    expect(answer.read(read('data: b\n\n'), 2)).toBeUndefined();
    expect(answer.end(3)).toBeUndefined();
    expect(tap.said).toEqual(['read 1', 'failed Error: bug']);
    expect([answer.medium, answer.atBoundary]).toEqual(['opaque', false]);
  });

  it('in a JSON answer neither', () => {
    const tap = fakeTap({ answer: broken, answerEnd: broken });
    const answer = reader(tap, { medium: 'json' });
    expect(answer.read(read('{'), 1)).toBeUndefined();
    expect(answer.end(2)).toBeUndefined();
    expect(tap.said).toEqual(['failed Error: bug']);
  });

  it('while bytes are held back loses none of them', () => {
    let fails = false;
    const tap = fakeTap({
      event(data, start, end) {
        if (fails) throw new Error('bug');
        return data.toString('utf8', start, end) === 'finish' ? EventFlag.finish : EventFlag.token;
      },
    });
    const answer = reader(tap, { strip: true });
    const out: string[] = [];
    const take = (text: string, passed: readonly Buffer[] | undefined) =>
      out.push(passed === undefined ? text : Buffer.concat(passed).toString());
    for (const text of ['data: finish\n\nda', 'ta: us', 'age\n\ndata: b\n\n', 'data: c\n\n']) {
      fails = text.startsWith('age');
      take(text, answer.read(read(text), 1));
    }
    out.push(answer.end(2)?.toString() ?? '');
    expect(out.join('')).toBe('data: finish\n\ndata: usage\n\ndata: b\n\ndata: c\n\n');
  });
});
