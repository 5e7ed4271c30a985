/**
 * Everything that is kept of decoding and of ceilings, behind one door: it is told of streams and records, and gives the
 * pages' values, the metrics' figures and newly found problems. Sets no timer and writes no line.
 */
import type { DecodeStarts } from '../../domain/decoding.ts';
import type { EngineReading } from '../../domain/engine-reading.ts';
import type { BackendView } from '../../domain/fleet.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { createDecodeWatch } from '../concurrency.ts';
import { type ConcurrencyLevel, createConcurrencyTable } from '../concurrency-table.ts';
import { type Ceilings, createCeilings } from './ceilings.ts';
import { type CeilingPage, ceilingPageOf } from './page.ts';
import type { CeilingProblem } from './problems.ts';
import type { CeilingSettings } from './settings.ts';
import type { ServedModels } from './shape-book.ts';
import type { BackendCeiling } from './view.ts';

export interface CeilingAccountDeps {
  readonly beganMs: number;
  readonly aliases: Readonly<Record<string, string>>;
  readonly backends: () => readonly BackendView[];
}

/** Figures of the last minute for metrics; `export/metrics/ceiling-metrics.ts` says what each is. */
export interface MinuteFigures {
  readonly backend: string;
  readonly mfu?: number | undefined;
  readonly mfuWithoutCache?: number | undefined;
  readonly mbu?: number | undefined;
  readonly shareOfCeiling?: number | undefined;
  readonly flopsPerSecond?: number | undefined;
  readonly savedFlopsPerSecond?: number | undefined;
  readonly meanConcurrency?: number | undefined;
  readonly decodingShare: number;
  readonly prefillTokensPerSecond?: number | undefined;
  readonly prefillFixedSeconds?: number | undefined;
  readonly prefillRSquared?: number | undefined;
  readonly outputTokenWeight?: number | undefined;
  readonly engineMfu?: number | undefined;
  readonly engineMbu?: number | undefined;
  readonly problems: number;
}

export interface BackendConcurrency {
  readonly backend: string;
  /** Sequences that decode now. */
  readonly decodingNow: number;
  readonly levels: readonly ConcurrencyLevel[];
}

export interface CeilingAccount {
  readonly decodes: DecodeStarts;
  add(record: RequestRecord, nowMs: number): void;
  noteEngine(backend: string, reading: EngineReading): void;
  ceilingPage(nowMs: number): { readonly about: string; readonly backends: readonly CeilingPage[] };
  concurrencyPage(
    nowMs: number,
    windowMs: number,
  ): { readonly about: string; readonly windowMinutes: number; readonly backends: readonly BackendConcurrency[] };
  /** The same list to all who ask within a second. */
  minute(nowMs: number): readonly MinuteFigures[];
  /** Problems that were not there when it was last asked. */
  newProblems(nowMs: number): readonly (CeilingProblem & { readonly backend: string })[];
}

const aboutCeiling =
  'Proxy-attributed: only traffic that came through here is counted, so real utilisation may be higher, never lower. ' +
  'A share above 1 means that the config names another card or model; it is not clamped. See deploy/ceiling.md.';
const aboutConcurrency =
  'What batching does: each stream at the mean number of sequences that decoded on its backend while it did. Answers that ' +
  'did not stream are not in it. tokensPerSecond is of all sequences together.';

const minuteMaxAgeMs = 1000;

export function createCeilingAccount(settings: CeilingSettings, deps: CeilingAccountDeps): CeilingAccount {
  const { beganMs } = deps;
  const decodes = createDecodeWatch(beganMs);
  const served = servedBy(deps.backends);
  const ceilings = createCeilings(settings, { beganMs, decodes, aliases: deps.aliases, served });
  const prices = new Map(settings.hardware.map(({ backend, hardware }) => [backend, hardware.pricePerHour]));
  const table = createConcurrencyTable(beganMs, (backend) => prices.get(backend));
  let cached: { readonly atMs: number; readonly figures: readonly MinuteFigures[] } | undefined;
  let known: ReadonlySet<string> = new Set();

  return {
    decodes,
    add(record, nowMs) {
      table.add(record, nowMs);
      ceilings.add(record, nowMs);
    },
    noteEngine(backend, { atMs, counters }) {
      const { flops, readBytes, writeBytes } = counters;
      ceilings.noteEngine(backend, { flopsTotal: flops, readBytesTotal: readBytes, writeBytesTotal: writeBytes }, atMs);
    },
    ceilingPage: (nowMs) => ({ about: aboutCeiling, backends: viewsOf(ceilings, nowMs).map(ceilingPageOf) }),
    concurrencyPage: (nowMs, windowMs) => ({
      about: aboutConcurrency,
      windowMinutes: windowMs / 60_000,
      backends: table.backends.map((backend) => ({
        backend,
        decodingNow: decodes.running(backend),
        levels: table.levels(backend, nowMs, windowMs),
      })),
    }),
    minute(nowMs) {
      if (cached === undefined || nowMs - cached.atMs > minuteMaxAgeMs)
        cached = { atMs: nowMs, figures: viewsOf(ceilings, nowMs).map(figuresOf) };
      return cached.figures;
    },
    newProblems(nowMs) {
      const found = viewsOf(ceilings, nowMs).flatMap(({ backend, problems }) =>
        problems.map((problem) => ({ backend, ...problem })),
      );
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

function keyOf({ backend, kind }: CeilingProblem & { readonly backend: string }): string {
  return `${backend} ${kind}`;
}

function viewsOf(ceilings: Ceilings, nowMs: number): BackendCeiling[] {
  return ceilings.backends.flatMap((backend) => ceilings.view(backend, nowMs) ?? []);
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

function figuresOf(view: BackendCeiling): MinuteFigures {
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
