/** Registers the figures of the two lanes with the meter. Holds nothing: all is read at each collection. */
import type { BackendLanes, LaneDepth, Pressures } from '../../domain/lanes.ts';
import type { Lane } from '../../domain/names.ts';
import type { Meter } from './meter.ts';

export interface LaneFigures {
  /** @param look where nobody looks otherwise, look now what presses */
  readonly backends: (look?: boolean) => readonly BackendLanes[];
  readonly depths: () => readonly LaneDepth[];
}

const lanes: readonly Lane[] = ['online', 'batch'];
const signals = [
  'tpot',
  'itl',
  'ttft',
  'kv',
  'waiting',
  'preemptions',
  'busy',
  'rise',
] as const satisfies (keyof Pressures)[];

export function registerLaneMetrics(
  meter: Pick<Meter, 'gauge' | 'counterFrom'>,
  { backends, depths }: LaneFigures,
): void {
  const byLane = (value: (depth: LaneDepth) => number) => () =>
    depths().map((depth) => ({ labels: { lane: depth.lane }, value: value(depth) }));
  const byBackend = (value: (of: BackendLanes) => number) => () =>
    backends().map((of) => ({ labels: { backend: of.backend }, value: value(of) }));
  meter.gauge(
    'warmlane.lane.queue.jobs',
    byLane(({ jobs }) => jobs),
  );
  meter.gauge(
    'warmlane.lane.queue.tokens',
    byLane(({ tokens }) => tokens),
  );
  meter.gauge(
    'warmlane.lane.queue.oldest',
    byLane(({ oldestMs }) => (oldestMs ?? 0) / 1000),
  );
  meter.gauge('warmlane.lane.running', () =>
    backends().flatMap(({ backend, running }) =>
      lanes.map((lane) => ({ labels: { backend, lane }, value: running[lane] })),
    ),
  );
  meter.gauge(
    'warmlane.batch.cap',
    byBackend(({ cap }) => cap),
  );
  meter.gauge('warmlane.batch.pressure', () =>
    backends(true).flatMap(({ backend, pressures }) =>
      signals.flatMap((signal) => {
        const value = pressures[signal];
        return value === undefined ? [] : [{ labels: { backend, signal }, value }];
      }),
    ),
  );
  meter.counterFrom(
    'warmlane.batch.reclaimed',
    byBackend(({ reclaimed }) => reclaimed),
  );
  meter.counterFrom(
    'warmlane.batch.wasted_tokens',
    byBackend(({ wastedTokens }) => wastedTokens),
  );
}
