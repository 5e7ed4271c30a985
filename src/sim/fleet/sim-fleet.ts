/**
 * Several simulated engines of one kind on one clock, and what a proxy's fleet would know of them. No network, no sockets: who
 * drives it submits to the engines themselves.
 */
import type { BackendView, FleetSnapshot } from '../../domain/fleet.ts';
import type { Clock } from '../../platform/clock.ts';
import { createEngine, type Engine } from '../engine.ts';
import type { EngineSettings } from '../settings.ts';
import { kvTokensOf } from './engine-models.ts';

export interface SimFleetSettings {
  readonly backends: number;
  readonly engine: EngineSettings;
  /** The proxy is told how much KV each engine has, as vLLM's metrics would. */
  readonly tellsCapacity: boolean;
}

export interface SimFleet {
  readonly engines: ReadonlyMap<string, Engine>;
  snapshot(): FleetSnapshot;
}

export function createSimFleet(settings: SimFleetSettings, { clock }: { readonly clock: Clock }): SimFleet {
  const engines = new Map<string, Engine>();
  const views: BackendView[] = [];
  for (let index = 0; index < settings.backends; index += 1) {
    const name = `b${index + 1}`;
    const engine = { ...settings.engine, seed: settings.engine.seed + index };
    engines.set(name, createEngine(engine, { clock }));
    views.push(viewOf(name, settings, clock.nowMs()));
  }
  const snapshot: FleetSnapshot = { atMs: clock.nowMs(), backends: views };
  return { engines, snapshot: () => snapshot };
}

function viewOf(name: string, { engine, tellsCapacity }: SimFleetSettings, sinceMs: number): BackendView {
  const { cache, maxSequences } = engine;
  const common = {
    name,
    url: `http://${name}`,
    engineKnown: true,
    health: 'up',
    healthSinceMs: sinceMs,
    models: [],
    ghostSlots: 0,
    advice: [],
  } as const;
  const kv = tellsCapacity ? { kvTokens: kvTokensOf(engine) } : {};
  if (cache.kind === 'blocks')
    return { ...common, engine: 'vllm', blockTokens: cache.blockTokens, maxSequences, ...kv };
  return { ...common, engine: 'llama-server', slots: maxSequences, contextTokens: cache.slotTokens, ...kv };
}
