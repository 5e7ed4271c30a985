import { describe, expect, it } from 'vitest';
import type { FleetSignal } from '../../../src/fleet/health.ts';
import { createWitness, ofOwnRequest } from '../../../src/fleet/traffic-witness.ts';

function witness() {
  const told: FleetSignal[] = [];
  const member = {
    report: (signal: FleetSignal) => void told.push(signal),
    watchQuiet: () => () => void told.pop(),
  };
  return { told, seen: createWitness(member) };
}

const fault = { detail: '', nothingSent: true, reused: false, responseStarted: false } as const;

describe('a witness of the traffic', () => {
  it('tells apart what could not be reached, what broke before its answer, and what broke in it', () => {
    const { told, seen } = witness();
    for (const kind of ['refused', 'connect_timeout', 'dns', 'tls'] as const) seen.faulted({ ...fault, kind });
    expect(told).toEqual(
      ['refused', 'connect_timeout', 'dns', 'tls'].map((kind) => ({ kind: 'connectFailed', fault: kind })),
    );
    told.length = 0;
    seen.faulted({ ...fault, kind: 'reset' });
    seen.faulted({ ...fault, kind: 'reset', responseStarted: true });
    expect(told).toEqual([{ kind: 'resetBeforeHead' }]);
  });

  it('of a request that no user sent tells that nobody listens, not that it broke off', () => {
    const { told, seen } = witness();
    const own = ofOwnRequest(seen);
    own.faulted({ ...fault, kind: 'reset' });
    own.faulted({ ...fault, kind: 'refused' });
    expect(own.answered({ status: 503, body: 'Loading model', sentMs: 1, generates: true })).toBe(true);
    expect(told.map(({ kind }) => kind)).toEqual(['connectFailed', 'loadingAnswer']);
  });

  it('says whether an answer means that no work is taken now', () => {
    const { told, seen } = witness();
    const answer = { status: 200, body: '', sentMs: 1, generates: true };
    expect(seen.answered(answer)).toBe(false);
    expect(seen.answered({ ...answer, status: 400 })).toBe(false);
    expect(seen.answered({ ...answer, status: 503, body: 'Loading model' })).toBe(true);
    expect(seen.streamError('EngineCore encountered an issue.')).toBe(true);
    expect(seen.streamError('Context size has been exceeded.')).toBe(false);
    expect(told.map(({ kind }) => kind)).toEqual(['answered', 'loadingAnswer', 'engineDied']);
  });
});
