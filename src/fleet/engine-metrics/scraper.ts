/**
 * When one backend's `/metrics` is asked, as a part of its round of probes, and what came of it (decision 10).
 * At most once per usual pause; never while an abort is pending (R13). llama-server only while warmlane's own requests are
 * there and once after them: each `/metrics` restarts the clock after which an idle one goes to sleep, and would wake a
 * sleeping one. A backend without the route is asked once.
 */
import type { EngineScrape, NoReading } from '../../domain/engine-reading.ts';
import type { Engine } from '../../domain/names.ts';
import type { Ask } from '../facts.ts';
import { jsonOf } from '../facts.ts';
import { flagOf } from '../json-fields.ts';
import { isFailure } from '../probe-port.ts';
import { metricNames } from './metric-names.ts';
import { readEngineMetrics } from './read-engine-metrics.ts';

export interface ScraperSettings {
  readonly engineMetrics: boolean;
  /** Least time between two scrapes. */
  readonly probeIntervalMs: number;
}

export interface ScrapeMoment {
  readonly engine: Engine;
  readonly nowMs: number;
  /** Asked again right before the question: an abort may have become pending meanwhile. */
  readonly held: () => boolean;
  /** Engine slots held by warmlane's own requests. */
  readonly ownSlots: () => number;
}

export interface EngineScraper {
  /** @returns undefined when it isn't time, or when nothing new is known */
  scrape(ask: Ask, moment: ScrapeMoment): Promise<EngineScrape | undefined>;
  /** A request of warmlane's was answered there. */
  used(): void;
  /** The process is gone: its successor may have other metrics. */
  forget(): void;
}

export function createEngineScraper(settings: ScraperSettings): EngineScraper {
  let askedMs = -Infinity;
  /** Nothing more will be asked; told already. */
  let given: NoReading | undefined;
  let used = false;

  function none(why: NoReading): EngineScrape | undefined {
    if (given === why) return undefined;
    given = why;
    return { kind: 'none', why };
  }

  return {
    async scrape(ask, { engine, nowMs, held, ownSlots }) {
      if (!settings.engineMetrics) return none('off');
      if (!metricNames.has(engine)) return none('engine_has_none');
      if (given === 'closed' || given === 'unreadable') return undefined;
      if (nowMs - askedMs < settings.probeIntervalMs) return undefined;
      if (engine === 'llama-server') {
        if (ownSlots() === 0 && (!used || (await sleeps(ask)))) return undefined;
      }
      if (held()) return undefined;
      used = ownSlots() > 0;
      askedMs = nowMs;
      const answer = await ask('/metrics');
      // One that failed or came late is asked again next time.
      if (isFailure(answer))
        return { kind: 'failed', why: answer.detail === '' ? answer.failure : answer.detail, atMs: nowMs };
      const { status } = answer;
      if (status >= 500 && status !== 501) return { kind: 'failed', why: `status ${status}`, atMs: nowMs };
      if (status !== 200) return none('closed');
      const reading = readEngineMetrics(engine, answer.body, nowMs);
      if (reading === undefined) return none('unreadable');
      given = undefined;
      return { kind: 'read', reading };
    },
    used() {
      used = true;
    },
    forget() {
      given = undefined;
    },
  };
}

/** `/props` wakes nothing. One that doesn't say counts as asleep. */
async function sleeps(ask: Ask): Promise<boolean> {
  const props = jsonOf(await ask('/props'));
  return props === undefined || flagOf(props, 'is_sleeping') === true;
}

/** Asks each path once: several readers of one round share the answer. */
export function askOnce(ask: Ask): Ask {
  const answers = new Map<string, ReturnType<Ask>>();
  return (path) => {
    const given = answers.get(path) ?? ask(path);
    answers.set(path, given);
    return given;
  };
}
