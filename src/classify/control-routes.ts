/**
 * The routes that change an engine for everybody (design decision 8): closed unless the config opens their key.
 * Strict on purpose: what a known engine, also one behind a gateway that tidies paths, could take for one of them is one of
 * them, under any prefix,
 * since vLLM's `--root-path` and llama-server's `--api-prefix` put one before their routes.
 */
import { lenientPaths } from './request-path.ts';
import type { ControlKey } from './settings.ts';

/** `any`: every method. `writes`: all but GET, HEAD and OPTIONS, which only read there. */
type ClosedMethods = 'any' | 'writes';

interface ClosedRoute {
  readonly key: ControlKey;
  readonly methods: ClosedMethods;
  /** Last segments of the path; a pattern stands for one segment. */
  readonly tail: readonly (string | RegExp)[];
  /** Closed only without a prefix: the name is too common for more. */
  readonly whole?: true;
}

const anySegment = /^/;

/** Routes that bear their name alone, closed for every method. */
const closedNames: readonly (readonly [ControlKey, readonly string[]])[] = [
  ['lora', ['load_lora_adapter', 'unload_lora_adapter', 'load_lora_adapter_from_tensors']],
  ['sleep', ['sleep', 'wake_up', 'release_memory_occupation', 'resume_memory_occupation']],
  ['cache_reset', ['flush_cache', 'clear_hicache_storage_backend']],
  ['pause', ['pause', 'resume', 'pause_generation', 'continue_generation']],
  ['abort', ['abort_requests', 'abort_request']],
  ['profile', ['start_profile', 'stop_profile']],
  ['scale', ['scale_elastic_ep']],
  ['rpc', ['collective_rpc', 'set_internal_state', 'configure_logging', 'freeze_gc', 'slow_down', 'set_trace_level']],
];

const closedRoutes: readonly ClosedRoute[] = [
  ...closedNames.flatMap(([key, names]) => names.map((name) => ({ key, methods: 'any' as const, tail: [name] }))),
  { key: 'cache_reset', methods: 'any', tail: [/^reset_(?:\w+_)?cache$/] },
  { key: 'cache_reset', methods: 'writes', tail: ['hicache', 'storage-backend'] },
  { key: 'profile', methods: 'any', tail: [/^(?:start|stop|dump)_expert_distribution_record$/] },
  { key: 'scale', methods: 'any', tail: ['fault_tolerance', 'apply'] },
  { key: 'weights', methods: 'any', tail: [/^(?:init|start|finish|update|destroy|send)_\w*weight/] },
  { key: 'lora', methods: 'writes', tail: ['lora-adapters'] },
  { key: 'slots', methods: 'writes', tail: ['slots', anySegment] },
  { key: 'props', methods: 'writes', tail: ['props'] },
  { key: 'models', methods: 'writes', tail: ['models'] },
  { key: 'models', methods: 'any', tail: ['models', /^(?:load|unload|download)$/] },
  { key: 'models', methods: 'any', tail: ['api', /^(?:pull|push|create|copy|delete)$/] },
  { key: 'models', methods: 'writes', tail: ['api', 'blobs', anySegment] },
  { key: 'stream_delete', methods: 'writes', tail: ['v1', 'stream'] },
  { key: 'tools', methods: 'any', tail: ['cors-proxy'] },
  { key: 'tools', methods: 'any', tail: ['tools'], whole: true },
];

/** The key of the closed route that a request may reach, if it may reach one. @param path undecoded, without query */
export function findControl(method: string, path: string): ControlKey | undefined {
  const reads = method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
  const paths = lenientPaths(path);
  return closedRoutes.find(
    (route) => !(reads && route.methods === 'writes') && paths.some((segments) => ends(segments, route)),
  )?.key;
}

function ends(segments: readonly string[], { tail, whole }: ClosedRoute): boolean {
  const offset = segments.length - tail.length;
  if (whole ? offset !== 0 : offset < 0) return false;
  return tail.every((part, index) => {
    const segment = segments[offset + index] ?? '';
    return typeof part === 'string' ? part === segment : part.test(segment);
  });
}
