/**
 * Requests that are looked at apart: all that generate, by warmth, and by model, backend and lane, each of these by warmth
 * as well; other endpoints each by itself. Bounded: what goes beyond is one population, `(other)`.
 */
import { figureNames, type FigureName, type FigureResult, FigureSums } from './figures.ts';
import { generates, type Row } from './row.ts';
import { otherName, ownText } from './tally.ts';

export type PopulationKind = 'all' | 'warmth' | 'model' | 'backend' | 'lane' | 'endpoint';

export interface PopulationResult {
  readonly by: PopulationKind;
  /** of the model, the backend …; absent for `all` */
  readonly name?: string;
  /** absent: all of them together */
  readonly warmth?: string;
  readonly requests: number;
  readonly notOk: number;
  readonly figures: Readonly<Record<FigureName, FigureResult>>;
}

export interface Populations {
  add(row: Row): void;
  /** Those with requests, in the order of `PopulationKind`, the larger ones first. */
  results(): readonly PopulationResult[];
}

/** Models and backends (each has up to five warmths below it). */
const mostNames = 30;

interface Population {
  readonly by: PopulationKind;
  readonly name?: string;
  readonly warmth?: string;
  requests: number;
  notOk: number;
  readonly figures: Readonly<Record<FigureName, FigureSums>>;
}

export function createPopulations(): Populations {
  const populations = new Map<string, Population>();
  const names = new Map<PopulationKind, Set<string>>();

  function bounded(by: PopulationKind, name: string): string {
    const known = names.get(by) ?? new Set();
    names.set(by, known);
    if (known.has(name)) return name;
    if (known.size >= mostNames) return otherName;
    const own = ownText(name);
    known.add(own);
    return own;
  }

  function count(row: Row, by: PopulationKind, name?: string, warmth?: string): void {
    const key = `${by}\n${name ?? ''}\n${warmth ?? ''}`;
    let population = populations.get(key);
    if (population === undefined) {
      population = create(by, name, warmth);
      populations.set(key, population);
    }
    population.requests += 1;
    if (row.outcome !== 'ok') population.notOk += 1;
    for (const figure of figureNames) population.figures[figure].add(row);
  }

  return {
    add(row) {
      if (!generates(row)) return count(row, 'endpoint', bounded('endpoint', row.endpoint));
      const warmth = bounded('warmth', row.warmth);
      count(row, 'all');
      count(row, 'warmth', warmth);
      for (const by of ['model', 'backend', 'lane'] as const) {
        if (row[by] === undefined) continue;
        const name = bounded(by, row[by]);
        count(row, by, name);
        count(row, by, name, warmth);
      }
    },
    results: () => [...populations.values()].toSorted(inOrder).map(resultOf),
  };
}

function create(by: PopulationKind, name: string | undefined, warmth: string | undefined): Population {
  const figures = Object.fromEntries(figureNames.map((figure) => [figure, new FigureSums(figure)]));
  return {
    by,
    ...(name === undefined ? {} : { name }),
    ...(warmth === undefined ? {} : { warmth }),
    requests: 0,
    notOk: 0,
    // Made of exactly these names in the line above.
    figures: figures as Record<FigureName, FigureSums>,
  };
}

const order: readonly PopulationKind[] = ['all', 'warmth', 'model', 'backend', 'lane', 'endpoint'];
const warmthOrder = ['cold_start', 'resident', 'prefix_hit', 'replayed', 'unknown'];

function inOrder(a: Population, b: Population): number {
  if (a.by !== b.by) return order.indexOf(a.by) - order.indexOf(b.by);
  if (a.by === 'warmth') return warmthOrder.indexOf(a.name ?? '') - warmthOrder.indexOf(b.name ?? '');
  if (a.name !== b.name) return (a.name ?? '') < (b.name ?? '') ? -1 : 1;
  return warmthOrder.indexOf(a.warmth ?? '') - warmthOrder.indexOf(b.warmth ?? '');
}

function resultOf({ by, name, warmth, requests, notOk, figures }: Population): PopulationResult {
  return {
    by,
    ...(name === undefined ? {} : { name }),
    ...(warmth === undefined ? {} : { warmth }),
    requests,
    notOk,
    figures: {
      ttft: figures.ttft.result(),
      ttfa: figures.ttfa.result(),
      tpot: figures.tpot.result(),
      itl: figures.itl.result(),
      e2e: figures.e2e.result(),
      queue: figures.queue.result(),
      overhead: figures.overhead.result(),
    },
  };
}
