import { describe, expect, it } from 'vitest';
import type { EngineReading } from '../../../src/domain/engine-reading.ts';
import type { BackendFacts } from '../../../src/fleet/facts.ts';
import { createRestartSense } from '../../../src/fleet/restart-sense.ts';

function reading(prefixHits: number, prefixQueries: number, startedSeconds?: number): EngineReading {
  const base = { atMs: 1, gauges: {}, counters: { prefixHits, prefixQueries } };
  return startedSeconds === undefined ? base : { ...base, startedSeconds };
}

function facts(change: Partial<BackendFacts> = {}): BackendFacts {
  return {
    engine: 'llama-server',
    engineKnown: true,
    version: 'b1',
    models: ['m'],
    slots: 2,
    router: false,
    slotsReadable: true,
    advice: [],
    ...change,
  };
}

describe('a restart', () => {
  it('is told by a port that refused and answers again, once it had served', () => {
    const sense = createRestartSense();
    sense.gone();
    expect(sense.up(10)).toBe(false);
    sense.gone();
    sense.gone();
    expect(sense.up(5000)).toBe(true);
    expect(sense.up(6000)).toBe(false);
    expect(sense.restarts).toBe(1);
  });

  it('C156 is told by counters that fell', () => {
    const sense = createRestartSense();
    sense.up(1);
    expect(sense.read(reading(100, 200), 10_000)).toBe(false);
    expect(sense.read(reading(180, 300), 20_000)).toBe(false);
    expect(sense.read(reading(5, 20), 30_000)).toBe(true);
    expect(sense.read(reading(15, 40), 40_000)).toBe(false);
    expect(sense.restarts).toBe(1);
  });

  it('is told by another start time, though the counters rose', () => {
    const sense = createRestartSense();
    sense.read(reading(1, 2, 1_700_000_000), 10);
    expect(sense.read(reading(2, 4, 1_700_000_000.4), 5000)).toBe(false);
    expect(sense.read(reading(9, 9, 1_700_000_100), 10_000)).toBe(true);
  });

  it('is told by another build or other sizes, not by models that came or went', () => {
    const sense = createRestartSense();
    sense.facts(facts(), 10);
    expect(sense.facts(facts({ models: ['m', 'n'] }), 20_000)).toBe(false);
    expect(sense.facts(facts({ slots: 4 }), 30_000)).toBe(true);
    expect(sense.facts(facts({ slots: 4, version: 'b2' }), 40_000)).toBe(true);
    expect(sense.facts(facts({ slots: 4, version: 'b2', engineKnown: false }), 50_000)).toBe(false);
  });

  it('is told by a model that loads again, and counts once with what follows', () => {
    const sense = createRestartSense();
    expect(sense.loading(1)).toBe(false);
    sense.up(10);
    sense.facts(facts(), 10);
    sense.read(reading(100, 100), 10_000);
    expect(sense.loading(20_000)).toBe(true);
    expect(sense.up(90_000)).toBe(false);
    expect(sense.facts(facts({ version: 'b2' }), 90_000)).toBe(false);
    expect(sense.read(reading(0, 0), 91_000)).toBe(false);
    expect(sense.restarts).toBe(1);
  });

  it('counts once though its signs come one after another', () => {
    const sense = createRestartSense();
    sense.up(1);
    sense.facts(facts(), 1);
    sense.read(reading(100, 100, 1000), 1);
    sense.gone();
    expect(sense.up(10_000)).toBe(true);
    // A connection that was refused before, told late.
    sense.gone();
    expect(sense.up(11_000)).toBe(false);
    expect(sense.read(reading(0, 0, 2000), 12_000)).toBe(false);
    expect(sense.facts(facts({ version: 'b2' }), 70_000)).toBe(false);
    expect(sense.restarts).toBe(1);
  });
});
