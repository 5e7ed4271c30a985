import { describe, expect, it } from 'vitest';
import { createSessions } from '../../../src/route/sessions.ts';
import { createFakeClock } from '../../support/fake-clock.ts';

describe('the last backend of a session', () => {
  it('is known until it was not heard of for long', () => {
    const clock = createFakeClock();
    const sessions = createSessions({ maxSessions: 10, sessionTtlMs: 1000 }, { nowMs: () => clock.nowMs() });
    sessions.served('s', 'a');
    clock.advance(900);
    expect(sessions.home('s')).toBe('a');
    sessions.served('s', 'b');
    clock.advance(900);
    expect(sessions.home('s')).toBe('b');
    clock.advance(200);
    expect(sessions.home('s')).toBeUndefined();
  });

  it('is forgotten of the one longest unheard of where there are too many', () => {
    const sessions = createSessions({ maxSessions: 2, sessionTtlMs: 1000 }, { nowMs: () => 1 });
    for (const name of ['s', 't', 'u']) sessions.served(name, 'a');
    expect(['s', 't', 'u'].map((name) => sessions.home(name))).toEqual([undefined, 'a', 'a']);
  });
});
