import { expect, it } from 'vitest';
import { createColdStarts } from '../../../src/measure/cold-starts.ts';
import { sampleBackend } from '../../support/sample.ts';

const fleet = (health: 'up' | 'loading' | 'down' | 'unknown') => ({
  atMs: 1,
  backends: [sampleBackend('a', { health })],
});

it('a backend is cold from when it was seen loading or down until it has generated', () => {
  for (const health of ['loading', 'down'] as const) {
    const starts = createColdStarts();
    starts.seen(fleet('unknown'));
    starts.seen(fleet('up'));
    expect(starts.isCold('a')).toBe(false);
    starts.seen(fleet(health));
    starts.seen(fleet('up'));
    expect(starts.isCold('a')).toBe(true);
    expect(starts.isCold('b')).toBe(false);
    starts.warmed('a');
    expect(starts.isCold('a')).toBe(false);
  }
});
