import { describe, expect, it } from 'vitest';
import type { FleetSignal } from '../../../src/fleet/health.ts';
import { createWitness } from '../../../src/fleet/traffic-witness.ts';

function witness() {
  const told: FleetSignal[] = [];
  const fleet = {
    report: (_: string, signal: FleetSignal) => void told.push(signal),
    watchQuiet: () => () => void told.pop(),
  };
  return { told, seen: createWitness(fleet, 'b') };
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
