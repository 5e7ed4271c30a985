/**
 * Everything that is kept of decoding and of ceilings, behind one door: it is told of streams and records, and gives the
 * pages' values, the metrics' figures and newly found problems. Sets no timer and writes no line.
 */
import type { CeilingFigures } from '../../domain/ceiling-figures.ts';
import type { DecodeStarts } from '../../domain/decoding.ts';
import type { BackendView } from '../../domain/fleet.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { createDecodeWatch } from '../concurrency.ts';
import { type ConcurrencyView, createConcurrencyTable } from '../concurrency-table.ts';
import { type WindowName, windowLengths } from '../window-lengths.ts';
import { createCeilings } from './ceilings.ts';
import type { EngineHour } from './engine-estimate.ts';
import { type CeilingPage, ceilingPageOf } from './page.ts';
import type { CeilingProblem } from './problems.ts';
import type { CeilingSettings } from './settings.ts';
import type { ServedModels } from './shape-book.ts';
import type { BackendCeiling } from './view.ts';

export interface CeilingAccountDeps {
  readonly beganMs: number;
  readonly aliases: Readonly<Record<string, string>>;
  readonly backends: () => readonly BackendView[];
  /** What an engine tells of itself; undefined: nothing was ever read there. */
  readonly engine: (backend: string) => EngineHour | undefined;
  /** The cards now; absent: those of the settings, for good. */
  readonly hardware?: (() => CeilingSettings['hardware']) | undefined;
}

export interface BackendConcurrency extends ConcurrencyView {
  readonly backend: string;
  /** Sequences that decode now. */
  readonly decodingNow: number;
}

export interface CeilingAccount {
  readonly decodes: DecodeStarts;
  add(record: RequestRecord, nowMs: number): void;
  /** Each backend is read when it is asked for. */
  ceilingPage(nowMs: () => number): { readonly about: string; readonly backends: Iterable<CeilingPage> };
  concurrencyPage(
    nowMs: number,
    window: WindowName,
  ): { readonly about: string; readonly window: WindowName; readonly backends: readonly BackendConcurrency[] };
  /** Reads the backends anew, one a step; behind the last, `minute` and `newProblems` tell what was found. */
  refresh(nowMs: () => number): Iterable<unknown>;
  /** The same list to all who ask within a second. */
  minute(nowMs: number): readonly CeilingFigures[];
  /** Problems that were not there when it was last asked. */
  newProblems(nowMs: number): readonly (CeilingProblem & { readonly backend: string })[];
}

const aboutCeiling =
  'Proxy-attributed: only traffic that came through here is counted, so real utilisation may be higher, never lower. ' +
  'A figure above 100 % means that the config names another card or model; it is not clamped. See deploy/ceiling.md.';
const aboutConcurrency =
  'What batching does: each stream at the mean number of sequences that decoded on its backend while it did. Answers that ' +
  'did not stream are not in it; cold starts are counted apart (coldStarts) and in no row. tokensPerSecond is of all ' +
  'sequences together.';

const minuteMaxAgeMs = 1000;

export function createCeilingAccount(settings: CeilingSettings, deps: CeilingAccountDeps): CeilingAccount {
  const { beganMs } = deps;
  const decodes = createDecodeWatch(beganMs);
  const served = servedBy(deps.backends);
  const hardware = deps.hardware ?? (() => settings.hardware);
  const { aliases, engine } = deps;
  const ceilings = createCeilings(settings, { beganMs, decodes, aliases, served, engine, hardware });
  function* viewsOf(nowMs: () => number): Generator<BackendCeiling, void> {
    const names = new Set([...ceilings.backends, ...deps.backends().map(({ name }) => name)]);
    for (const backend of [...names].toSorted()) {
      const view = ceilings.view(backend, nowMs());
      if (view !== undefined) yield view;
    }
  }
  const priceOf = (backend: string) => hardware().find((one) => one.backend === backend)?.hardware.pricePerHour;
  const table = createConcurrencyTable(beganMs, priceOf);
  let cached: Summary | undefined;
  let known: ReadonlySet<string> = new Set();

  const fresh = (nowMs: number) => (cached === undefined || nowMs - cached.atMs > minuteMaxAgeMs ? undefined : cached);

  return {
    decodes,
    add(record, nowMs) {
      table.add(record, nowMs);
      ceilings.add(record, nowMs);
    },
    ceilingPage: (nowMs) => ({ about: aboutCeiling, backends: pagesOf(viewsOf(nowMs)) }),
    concurrencyPage: (nowMs, window) => ({
      about: aboutConcurrency,
      window,
      backends: table.backends.map((backend) => ({
        backend,
        decodingNow: decodes.running(backend),
        ...table.view(backend, nowMs, windowLengths[window]),
      })),
    }),
    *refresh(nowMs) {
      if (fresh(nowMs()) !== undefined) return;
      const views: BackendCeiling[] = [];
      for (const view of viewsOf(nowMs)) {
        views.push(view);
        yield;
      }
      cached = summaryOf(views, nowMs());
    },
    minute(nowMs) {
      cached = fresh(nowMs) ?? summaryOf([...viewsOf(() => nowMs)], nowMs);
      return cached.figures;
    },
    newProblems(nowMs) {
      const { problems: found } = fresh(nowMs) ?? summaryOf([...viewsOf(() => nowMs)], nowMs);
      const before = known;
      known = new Set(found.map(keyOf));
      const told = new Set<string>();
      return found.filter((problem) => {
        const key = keyOf(problem);
        if (before.has(key) || told.has(key)) return false;
        told.add(key);
        return true;
      });
    },
  };
}

/** What all backends' views come to. */
interface Summary {
  readonly atMs: number;
  readonly figures: readonly CeilingFigures[];
  readonly problems: readonly (CeilingProblem & { readonly backend: string })[];
}

function summaryOf(views: readonly BackendCeiling[], atMs: number): Summary {
  return {
    atMs,
    figures: views.map(figuresOf),
    problems: views.flatMap(({ backend, problems }) => problems.map((problem) => ({ backend, ...problem }))),
  };
}

function* pagesOf(views: Iterable<BackendCeiling>): Generator<CeilingPage, void> {
  for (const view of views) yield ceilingPageOf(view);
}

function keyOf({ backend, kind }: CeilingProblem & { readonly backend: string }): string {
  return `${backend} ${kind}`;
}

/** vLLM and SGLang serve one base model under all their names. */
function servedBy(backends: () => readonly BackendView[]): (backend: string) => ServedModels | undefined {
  return (name) => {
    const view = backends().find((one) => one.name === name);
    if (view === undefined) return undefined;
    const { engine, models, modelSize } = view;
    const oneBase = engine === 'vllm' || engine === 'sglang' || modelSize !== undefined;
    return { models, size: modelSize, oneBase };
  };
}

function figuresOf(view: BackendCeiling): CeilingFigures {
  const { backend, windows, prefill, engineEstimate, problems } = view;
  const minute = windows['1m'];
  const rate = prefill?.rate;
  return {
    backend,
    mfu: minute.mfu,
    mfuWithoutCache: minute.mfuWithoutCache,
    mbu: minute.mbu,
    shareOfCeiling: minute.shareOfCeiling,
    flopsPerSecond: minute.flopsPerSecond,
    savedFlopsPerSecond: minute.savedFlopsPerSecond,
    meanConcurrency: minute.meanConcurrency,
    decodingShare: minute.decodingShare,
    prefillTokensPerSecond: rate?.tokensPerSecond,
    prefillFixedSeconds: rate === undefined ? undefined : rate.fixedMs / 1000,
    prefillRSquared: prefill?.rSquared,
    outputTokenWeight: rate?.inputTokensPerOutputToken,
    engineMfu: engineEstimate?.['1m']?.mfu,
    engineMbu: engineEstimate?.['1m']?.mbu,
    problems: problems.length,
  };
}
