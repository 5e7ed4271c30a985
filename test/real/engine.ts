/** A real model server that a test talks to, whichever engine it is. */
import type { ChildProcess } from './child-process.ts';
import { readCounters, type CounterNames, type Counters } from './counters.ts';

export interface Engine {
  readonly kind: 'llama-server' | 'vllm';
  readonly url: string;
  readonly process: ChildProcess;
  counters(): Promise<Counters>;
  /** Waits until no request runs or waits in it. */
  stop(): Promise<void>;
}

/** The one model that both serve. */
export const modelName = 'smollm2';

export function createEngine(
  kind: Engine['kind'],
  url: string,
  process: ChildProcess,
  names: CounterNames,
  stopGraceMs: number,
): Engine {
  return {
    kind,
    url,
    process,
    counters: () => readCounters(url, names),
    stop: () => process.stop(stopGraceMs),
  };
}
