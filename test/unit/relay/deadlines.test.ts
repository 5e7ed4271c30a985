import { describe, expect, it } from 'vitest';
import { silenceExpired, totalExpired, type Waiting } from '../../../src/relay/deadlines.ts';

const deadlines = {
  connectMs: 0,
  headMs: 100,
  firstTokenMs: 200,
  perBodyKibMs: 10,
  contentStallMs: 300,
  refusedStallMs: 50,
  totalMs: 1000,
  clientStallMs: 0,
};

function waiting(change: Partial<Waiting>): Waiting {
  return {
    backend: 'b',
    phase: 'waiting_head',
    sentMs: 1000,
    uploadFullMs: undefined,
    lastByteMs: 1000,
    lastContentMs: 1000,
    lostMs: undefined,
    bodyBytes: 0,
    stream: true,
    measured: true,
    ...change,
  };
}

const code = (change: Partial<Waiting>, atMs: number) => silenceExpired(waiting(change), deadlines, atMs)?.code;

describe('the silences of a backend', () => {
  it('C121 each phase has a limit of its own, over only after its last millisecond', () => {
    expect(code({}, 1100)).toBeUndefined();
    expect(code({}, 1101)).toBe('head_timeout');
    expect(code({ phase: 'waiting_first_token' }, 1200)).toBeUndefined();
    expect(code({ phase: 'waiting_first_token' }, 1201)).toBe('first_token_timeout');
    expect(code({ phase: 'streaming', lastContentMs: 1500 }, 1800)).toBeUndefined();
    expect(code({ phase: 'streaming', lastContentMs: 1500 }, 1801)).toBe('content_stall');
  });

  it('C121 head and first token get the share of the prompt, and the message names limit and length', () => {
    const long = waiting({ bodyBytes: 2048 });
    expect(silenceExpired(long, deadlines, 1120)).toBeUndefined();
    expect(silenceExpired(long, deadlines, 1121)?.message).toContain('deadlines.headMs (120 ms for this request)');
    expect(code({ phase: 'waiting_first_token', bodyBytes: 1024 }, 1210)).toBeUndefined();
  });

  it('C124 bytes without content move the limit of a stream no more, those of a whole answer do', () => {
    expect(code({ phase: 'streaming', lastByteMs: 1390, lastContentMs: 1000 }, 1400)).toBe('content_stall');
    expect(code({ phase: 'reading_answer', lastByteMs: 1390, lastContentMs: 1000 }, 1400)).toBeUndefined();
    expect(code({ phase: 'reading_answer' }, 1301)).toBe('content_stall');
    expect(code({ phase: 'reading_answer', measured: false }, 9000)).toBeUndefined();
  });

  it('an answer that is not streamed comes when it is done: no head limit', () => {
    expect(code({ stream: false }, 1999)).toBeUndefined();
  });

  it('an upload that the backend does not take has the head limit, streamed answer or not; a slow client has none', () => {
    expect(code({ phase: 'sending', stream: false, uploadFullMs: 1000 }, 1101)).toBe('head_timeout');
    expect(code({ phase: 'sending', stream: false, uploadFullMs: undefined }, 9000)).toBeUndefined();
  });

  it('R04 a port that refuses shortens the patience, counted from the later of refusal and content', () => {
    expect(code({ phase: 'streaming', lastContentMs: 1100, lostMs: 1010 }, 1150)).toBeUndefined();
    expect(code({ phase: 'streaming', lastContentMs: 1100, lostMs: 1010 }, 1151)).toBe('backend_lost');
    expect(code({ phase: 'reading_answer', measured: false, lostMs: 1200 }, 1251)).toBe('backend_lost');
  });

  it('a limit of 0 is none', () => {
    const none = { ...deadlines, headMs: 0, firstTokenMs: 0, contentStallMs: 0, refusedStallMs: 0, totalMs: 0 };
    for (const phase of ['sending', 'waiting_head', 'waiting_first_token', 'streaming', 'reading_answer'] as const) {
      expect(
        silenceExpired(waiting({ phase, uploadFullMs: 1000, lostMs: 1000, bodyBytes: 4096 }), none, 1e9),
      ).toBeUndefined();
    }
    expect(totalExpired(waiting({}), none, 1e9)).toBeUndefined();
  });
});

describe('the limit for everything', () => {
  it('counts from sending, in every phase', () => {
    expect(totalExpired(waiting({ phase: 'streaming', lastContentMs: 1999 }), deadlines, 2000)).toBeUndefined();
    expect(totalExpired(waiting({ phase: 'streaming', lastContentMs: 1999 }), deadlines, 2001)?.code).toBe(
      'total_timeout',
    );
  });
});
