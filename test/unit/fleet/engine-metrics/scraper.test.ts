import { describe, expect, it } from 'vitest';
import type { EngineScrape } from '../../../../src/domain/engine-reading.ts';
import type { Engine } from '../../../../src/domain/names.ts';
import { askOnce, createEngineScraper, type ScrapeMoment } from '../../../../src/fleet/engine-metrics/scraper.ts';
import type { ProbeResult } from '../../../../src/fleet/probe-port.ts';
import { createFleet } from '../../../../src/fleet/fleet.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { createFakeClock, settle } from '../../../support/fake-clock.ts';
import { createScriptedBackend, llamaAnswers, vllmAnswers } from '../scripted-backend.ts';

const text = (body: string, status = 200): ProbeResult => ({ status, headers: {}, body });
const llamaMetrics = text('llamacpp:requests_processing 1\nllamacpp:tokens_predicted_total 5\n');
const vllmMetrics = text('vllm:num_requests_running{engine="0"} 2.0\n');

function world(engine: Engine, answers: Record<string, ProbeResult>, settings = {}) {
  const asked: string[] = [];
  const scraper = createEngineScraper({ engineMetrics: true, probeIntervalMs: 2000, ...settings });
  const state = { slots: 0, held: false };
  let nowMs = 1;
  const ask = (path: string) => {
    asked.push(path);
    return Promise.resolve(answers[path] ?? text('', 404));
  };
  return {
    asked,
    state,
    scraper,
    scrape(afterMs = 2000, more: Partial<ScrapeMoment> = {}) {
      nowMs += afterMs;
      return scraper.scrape(ask, { engine, nowMs, held: () => state.held, ownSlots: () => state.slots, ...more });
    },
  };
}

describe('an engine’s metrics are asked for', () => {
  it('once per usual pause at most, however often it is probed', async () => {
    const { scrape, asked } = world('vllm', { '/metrics': vllmMetrics });
    expect(await scrape()).toMatchObject({ kind: 'read', reading: { atMs: 2001, gauges: { running: 2 } } });
    expect([await scrape(250), await scrape(1000), await scrape(700)]).toEqual([undefined, undefined, undefined]);
    expect(await scrape(50)).toMatchObject({ kind: 'read' });
    expect(asked).toHaveLength(2);
  });

  it('R13 not while an abort is pending', async () => {
    const { scrape, asked, state } = world('vllm', { '/metrics': vllmMetrics });
    state.held = true;
    expect(await scrape()).toBeUndefined();
    expect(asked).toEqual([]);
    state.held = false;
    expect(await scrape(1)).toMatchObject({ kind: 'read' });
  });

  it('of a llama-server only while own requests are there, and once after: it must be able to fall asleep', async () => {
    const { scrape, asked, state, scraper } = world('llama-server', {
      '/metrics': llamaMetrics,
      '/props': text('{"is_sleeping":false}'),
    });
    expect([await scrape(), asked]).toEqual([undefined, []]);
    state.slots = 1;
    await scrape();
    await scrape();
    state.slots = 0;
    await scrape();
    await scrape();
    await scrape(60_000);
    expect(asked).toEqual(['/metrics', '/metrics', '/props', '/metrics']);
    scraper.used();
    await scrape();
    expect(asked.slice(4)).toEqual(['/props', '/metrics']);
  });

  it('of a llama-server that sleeps not at all', async () => {
    for (const props of [text('{"is_sleeping":true}'), text('', 401)]) {
      const { scrape, asked, scraper } = world('llama-server', { '/metrics': llamaMetrics, '/props': props });
      scraper.used();
      expect([await scrape(), asked]).toEqual([undefined, ['/props']]);
    }
  });

  it.each([404, 501, 401, 403])('no more once the route answers %i, until the process is another', async (status) => {
    const { scrape, asked, scraper } = world('vllm', { '/metrics': text('no', status) });
    expect(await scrape()).toEqual({ kind: 'none', why: 'closed' });
    expect([await scrape(), await scrape(), asked.length]).toEqual([undefined, undefined, 1]);
    scraper.forget();
    expect([await scrape(), asked.length]).toEqual([{ kind: 'none', why: 'closed' }, 2]);
  });

  it('again after an answer that failed or came late, which is told each time', async () => {
    const detail = 'no answer within 800 ms';
    const answers: Record<string, ProbeResult> = { '/metrics': { failure: 'timeout', detail } };
    const { scrape, asked } = world('vllm', answers);
    expect(await scrape()).toEqual({ kind: 'failed', why: detail, atMs: 2001 });
    answers['/metrics'] = text('busy', 503);
    expect(await scrape()).toEqual({ kind: 'failed', why: 'status 503', atMs: 4001 });
    answers['/metrics'] = vllmMetrics;
    expect(await scrape()).toMatchObject({ kind: 'read' });
    expect(asked).toHaveLength(3);
  });

  it('never where they are switched off, unknown or unreadable; it is said once', async () => {
    const off = world('vllm', {}, { engineMetrics: false });
    expect([await off.scrape(), await off.scrape(), off.asked]).toEqual([{ kind: 'none', why: 'off' }, undefined, []]);
    const ollama = world('ollama', {});
    expect([await ollama.scrape(), ollama.asked]).toEqual([{ kind: 'none', why: 'engine_has_none' }, []]);
    const html = world('vllm', { '/metrics': text('<html>') });
    expect(await html.scrape()).toEqual({ kind: 'none', why: 'unreadable' });
    expect([await html.scrape(), html.asked.length]).toEqual([undefined, 1]);
  });

  it('with the round’s other questions: one that was asked already is not asked again', async () => {
    let count = 0;
    const ask = askOnce(() => Promise.resolve(text(String((count += 1)))));
    expect([await ask('/metrics'), await ask('/metrics'), await ask('/props')]).toEqual([
      text('1'),
      text('1'),
      text('2'),
    ]);
  });
});

describe('a fleet', () => {
  const pauses = { probeIntervalMs: 2000, probeDownIntervalMs: 1000, probeTimeoutMs: 800, engineMetrics: true };

  async function started(engine: 'llama' | 'vllm', slots = 0) {
    const clock = createFakeClock();
    const backend = createScriptedBackend(clock, engine === 'llama' ? llamaAnswers() : vllmAnswers());
    const scrapes: EngineScrape[] = [];
    const fleet = createFleet(
      { backends: [{ name: 'b', url: 'http://b' }], ...pauses },
      { clock, log: silentLog, probeFetch: () => backend.fetch, ownLoad: () => ({ jobs: slots, slots }) },
    );
    fleet.onEngineScrape((name, scrape) => scrapes.push(name === 'b' ? scrape : { kind: 'none', why: 'off' }));
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= 50) {
        clock.advance(50);
        await settle();
      }
    };
    const starting = fleet.start();
    await pass(800);
    await starting;
    return { fleet, backend, scrapes, pass };
  }

  it('tells each reading, with one question of `/metrics` a round, also when it reads the facts there', async () => {
    const { fleet, backend, scrapes, pass } = await started('vllm');
    expect(scrapes.map(({ kind }) => kind)).toEqual(['read']);
    expect(backend.take().filter((path) => path === '/metrics')).toHaveLength(1);
    await pass(10_000);
    const asked = backend.take();
    expect(asked.filter((path) => path === '/metrics')).toHaveLength(scrapes.length - 1);
    expect(asked.filter((path) => path === '/health')).toHaveLength(scrapes.length - 1);
    expect(scrapes.length).toBeGreaterThan(3);
    fleet.stop();
  });

  it('leaves an idle llama-server alone', async () => {
    const { fleet, backend, scrapes, pass } = await started('llama');
    await pass(10_000);
    expect(backend.take().filter((path) => path === '/metrics' || path === '/slots')).toEqual([]);
    expect(scrapes).toEqual([]);
    fleet.stop();
  });

  it('calls a backend up whose metrics hang', async () => {
    const { fleet, backend, scrapes, pass } = await started('vllm');
    backend.answers['/metrics'] = 'hang';
    await pass(10_000);
    expect(fleet.snapshot().backends[0]?.health).toBe('up');
    expect(new Set(scrapes.slice(1).map(({ kind }) => kind))).toEqual(new Set(['failed']));
    fleet.stop();
  });
});
