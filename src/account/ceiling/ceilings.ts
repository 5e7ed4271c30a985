/**
 * The ceiling of every backend: what its cards and its models allow, how near the traffic seen here comes to it, how fast
 * prompts are computed, and which figures can't be true. State only; page and metrics read it. Bounded by the backends.
 */
import type { RequestRecord } from '../../domain/record.ts';
import type { DecodeWatch } from '../concurrency.ts';
import { type Hardware, hardwareOf } from './cards.ts';
import { type EngineHour, exportsEstimates } from './engine-estimate.ts';
import { peakFlops } from './formulas.ts';
import type { ModelShape } from './model-shape.ts';
import { createPrefillLine, type PrefillLine, type PrefillView } from './prefill-rate.ts';
import { decodeCost, prefillCost, promptOf, wholeCost } from './request-cost.ts';
import type { CeilingSettings } from './settings.ts';
import { createShapeBook, type ServedModels } from './shape-book.ts';
import { backendView, type BackendCeiling } from './view.ts';
import { type Costs, createWork, type Work } from './work.ts';

export interface CeilingDeps {
  /** When counting begins, monotonic ms. */
  readonly beganMs: number;
  readonly decodes: DecodeWatch;
  /** Alias → model. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Undefined: no such backend. */
  readonly served: (backend: string) => ServedModels | undefined;
  /** Undefined: nothing was ever read there. */
  readonly engine: (backend: string) => EngineHour | undefined;
  /** The cards now; another array when they are others. Absent: those of the settings, for good. */
  readonly hardware?: (() => CeilingSettings['hardware']) | undefined;
}

export interface Ceilings {
  add(record: RequestRecord, nowMs: number): void;
  /** Backends that are configured with hardware, or had requests. */
  readonly backends: readonly string[];
  /** Also of one that nothing came to, where its engine exports estimates. */
  view(backend: string, nowMs: number): BackendCeiling | undefined;
  prefill(backend: string, nowMs: number): PrefillView | undefined;
}

const maxBackends = 1000;
/**
 * Drawing a line takes half a millisecond, so it is done as records come, every so many of them, and not for all backends
 * at once when somebody scrapes. The first lines come sooner, and cost less: one more request changes much then.
 */
const recordsPerLine = 16;
/** However many come. */
const leastLineAgeMs = 1000;
const fewRequests = 64;
/** Without new requests a line only fades. */
const lineMaxAgeMs = 600_000;

interface Kept {
  hardware: Hardware | undefined;
  readonly work: Work;
  readonly line: PrefillLine;
  drawn: { readonly atMs: number; readonly view: PrefillView } | undefined;
  /** Records that said something of it since it was drawn. */
  undrawn: number;
}

export function createCeilings(settings: CeilingSettings, deps: CeilingDeps): Ceilings {
  const { beganMs, decodes } = deps;
  const hardware = new Map<string, Hardware>();
  let hardwareIs: CeilingSettings['hardware'] = [];
  const book = createShapeBook(settings.shapes);
  const kept = new Map<string, Kept>();
  followHardware();

  /** Backends come and go, and with them their cards. */
  function followHardware(): void {
    const now = deps.hardware?.() ?? settings.hardware;
    if (now === hardwareIs) return;
    hardwareIs = now;
    hardware.clear();
    for (const one of now) hardware.set(one.backend, hardwareOf(one.hardware));
    for (const [backend, held] of kept) held.hardware = hardware.get(backend);
    for (const backend of hardware.keys()) keptOf(backend);
  }

  function keptOf(backend: string): Kept | undefined {
    let held = kept.get(backend);
    if (held === undefined) {
      for (const oldest of kept.keys()) if (kept.size >= maxBackends && !hardware.has(oldest)) kept.delete(oldest);
      held = {
        hardware: hardware.get(backend),
        work: createWork(beganMs),
        line: createPrefillLine(),
        drawn: undefined,
        undrawn: 0,
      };
      kept.set(backend, held);
    }
    return held;
  }

  function shapeFor(record: RequestRecord, backend: string): ModelShape | undefined {
    const { model, responseModel } = record;
    const meant = model !== undefined && Object.hasOwn(deps.aliases, model) ? deps.aliases[model] : undefined;
    return book.find([responseModel, meant, model], deps.served(backend));
  }

  function prefill(backend: string, nowMs: number): PrefillView | undefined {
    const held = kept.get(backend);
    if (held === undefined) return undefined;
    const { drawn } = held;
    const due = drawn === undefined || nowMs - drawn.atMs > lineMaxAgeMs;
    return due || (held.undrawn > 0 && drawn.view.requests < fewRequests) ? draw(held, nowMs) : drawn.view;
  }

  function draw(held: Kept, nowMs: number): PrefillView {
    const view = held.line.view(nowMs);
    held.drawn = { atMs: nowMs, view };
    held.undrawn = 0;
    return view;
  }

  return {
    get backends() {
      followHardware();
      return [...kept.keys()].toSorted();
    },
    add(record, nowMs) {
      const { backend } = record;
      if (backend === undefined || !worked(record)) return;
      followHardware();
      const held = keptOf(backend);
      if (held === undefined) return;
      if (held.line.add(record, nowMs)) held.undrawn += 1;
      const drawnMs = held.drawn?.atMs ?? Number.NEGATIVE_INFINITY;
      if (held.undrawn >= recordsPerLine && nowMs - drawnMs >= leastLineAgeMs) draw(held, nowMs);
      held.work.add(costsOf(record, shapeFor(record, backend), held.hardware), nowMs);
    },
    prefill,
    view(backend, nowMs) {
      const engine = deps.engine(backend);
      const held = engine !== undefined && exportsEstimates(engine) ? keptOf(backend) : kept.get(backend);
      if (held === undefined) return undefined;
      return backendView({
        backend,
        nowMs,
        hardware: held.hardware,
        shapes: book.shapesOf(deps.served(backend) ?? { models: [], oneBase: false }),
        shapeProblems: book.problems,
        work: held.work,
        engine,
        times: (windowMs) => decodes.times(backend, nowMs, windowMs),
        prefill: prefill(backend, nowMs),
      });
    },
  };
}

/** A backend computed something for it: a first token came, or an answer with counts. */
function worked({ timeline, tokens, streamed }: RequestRecord): boolean {
  return streamed ? timeline.firstToken !== undefined : tokens.prompt !== undefined;
}

const noCards: Hardware = { count: 1 };

function costsOf(
  record: RequestRecord,
  shape: ModelShape | undefined,
  hardware: Hardware = noCards,
): Costs | undefined {
  if (shape === undefined || promptOf(record) === undefined) return undefined;
  const peak = peakFlops(hardware, shape);
  if (record.streamed)
    return { peakFlops: peak, prefill: prefillCost(record, shape), decode: decodeCost(record, shape, hardware) };
  const { sent, received, end } = record.timeline;
  const flops = wholeCost(record, shape);
  if (flops === undefined || end === undefined) return undefined;
  return { peakFlops: peak, whole: { flops, fromMs: sent ?? received, toMs: end } };
}
