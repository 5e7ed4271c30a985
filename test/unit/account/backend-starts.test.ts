import { describe, expect, it } from 'vitest';
import { createBackendStarts } from '../../../src/account/backend-starts.ts';
import type { BackendHealth, BackendView, FleetSnapshot } from '../../../src/domain/fleet.ts';
import { sampleRecord } from '../../support/sample-record.ts';

function fleetOf(health: BackendHealth, healthSinceMs: number): FleetSnapshot {
  const backend: BackendView = {
    name: 'b',
    url: 'http://b',
    engine: 'vllm',
    engineKnown: true,
    health,
    healthSinceMs,
    models: [],
    ghostSlots: 0,
    advice: [],
  };
  return { atMs: healthSinceMs, backends: [backend] };
}

const answer = (firstToken: number) =>
  sampleRecord({ backend: 'b', warmth: 'cold_start', timeline: { received: 1, firstToken, end: firstToken + 500 } });
const started = { backend: 'b', engine: 'vllm' };

describe('the start of a backend', () => {
  it('is timed from unreachable and from loading, to up and to its first token', () => {
    const starts = createBackendStarts();
    expect(starts.seen(fleetOf('down', 1000))).toEqual([]);
    expect(starts.seen(fleetOf('loading', 3000))).toEqual([]);
    expect(starts.seen(fleetOf('up', 8000))).toEqual([
      { ...started, until: 'up', from: 'down', durationMs: 7000 },
      { ...started, until: 'up', from: 'loading', durationMs: 5000 },
    ]);
    expect(starts.seen(fleetOf('up', 8000))).toEqual([]);
    expect(starts.answered(answer(9000))).toEqual([
      { ...started, until: 'answered', from: 'down', durationMs: 8000 },
      { ...started, until: 'answered', from: 'loading', durationMs: 6000 },
    ]);
    expect(starts.answered(answer(9500))).toEqual([]);
  });

  it('is none where it was up from the first', () => {
    const starts = createBackendStarts();
    starts.seen(fleetOf('unknown', 1));
    expect(starts.seen(fleetOf('up', 5))).toEqual([]);
    expect(starts.answered(answer(10))).toEqual([]);
  });

  it('ends with a good answer of a cold request only', () => {
    const starts = createBackendStarts();
    starts.seen(fleetOf('loading', 1000));
    starts.seen(fleetOf('up', 2000));
    expect(starts.answered({ ...answer(3000), outcome: 'upstream_error' })).toEqual([]);
    expect(starts.answered({ ...answer(3000), warmth: 'resident' })).toEqual([]);
    expect(starts.answered({ ...answer(3000), backend: 'other' })).toEqual([]);
    expect(
      starts.answered(sampleRecord({ backend: 'b', warmth: 'cold_start', timeline: { received: 1, end: 4000 } })),
    ).toEqual([{ ...started, until: 'answered', from: 'loading', durationMs: 3000 }]);
  });

  it('begins anew with the next loss, also when nobody had asked since the last', () => {
    const starts = createBackendStarts();
    starts.seen(fleetOf('down', 1000));
    starts.seen(fleetOf('up', 2000));
    starts.seen(fleetOf('down', 5000));
    expect(starts.seen(fleetOf('up', 6000))).toEqual([{ ...started, until: 'up', from: 'down', durationMs: 1000 }]);
  });
});
