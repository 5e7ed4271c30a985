/**
 * The configuration that holds now: what new requests begin with, what became of reloads, and the page that tells it.
 * Keeps values only; `app.ts` hands its parts to whom they concern.
 */
import { resolve } from 'node:path';

import type { Config } from './config/config.ts';
import { changesBetween, type ConfigChanges } from './config/reload.ts';
import type { AdminPage } from './http/admin-page.ts';
import type { PipelineSettings } from './pipeline-deps.ts';
import type { Clock } from './platform/clock.ts';

export interface LiveConfig {
  /** The same object until a reload. */
  settings(): PipelineSettings;
  /** A new, whole and valid one is here. */
  take(next: Config): ConfigChanges;
  /** It was wrong, the old one holds. */
  failed(problems: readonly string[]): void;
  counts(): { readonly ok: number; readonly failed: number };
  /** @param members where backends come from */
  page(members: () => object): AdminPage;
}

/** Shown at most; the log has all of them. */
const maxProblems = 50;

export function createLiveConfig(
  first: Config,
  { clock, file }: { readonly clock: Clock; readonly file: string | undefined },
): LiveConfig {
  const from = file === undefined ? 'flags, environment and defaults' : resolve(file);
  let inForce = first;
  let settings = settingsOf(first);
  let loadedMs = clock.wallMs();
  let ok = 0;
  let failures = 0;
  let needsRestart: readonly string[] = [];
  let problem: { readonly atMs: number; readonly problems: readonly string[] } | undefined;

  return {
    settings: () => settings,
    take(next) {
      const changes = changesBetween(inForce, next);
      inForce = changes.inForce;
      settings = settingsOf(inForce);
      loadedMs = clock.wallMs();
      ok += 1;
      ({ needsRestart } = changes);
      problem = undefined;
      return changes;
    },
    failed(problems) {
      failures += 1;
      problem = { atMs: clock.wallMs(), problems: problems.slice(0, maxProblems) };
    },
    counts: () => ({ ok, failed: failures }),
    page: (members) => ({
      path: '/config',
      about:
        'which configuration holds, since when and from where; what is wrong with a newer one; where backends come from',
      params: [],
      answer: () => ({
        kind: 'json',
        value: {
          from,
          loadedAt: new Date(loadedMs).toISOString(),
          reloads: { ok, failed: failures },
          needsRestart,
          ...(problem === undefined
            ? {}
            : { lastProblem: { at: new Date(problem.atMs).toISOString(), problems: problem.problems } }),
          ...members(),
        },
      }),
    }),
  };
}

function settingsOf({ classify, relay, measure }: Config): PipelineSettings {
  return { classify, relay, measure };
}
