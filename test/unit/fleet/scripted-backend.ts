/**
 * A backend made of a table: what each path answers now, and what was asked when. Time is the fake clock's.
 * Also the answers of the real engines, in their own words (`/props` as llama-server b10434 gives it, cut to what matters).
 */
import type { ProbeFetch, ProbeOptions, ProbeResult } from '../../../src/fleet/probe-port.ts';
import type { Clock } from '../../../src/platform/clock.ts';

export type Script = ProbeResult | 'hang' | { readonly afterMs: number; readonly result: ProbeResult };

export interface ScriptedBackend {
  readonly fetch: ProbeFetch;
  /** Path → answer; what isn't there is `otherwise`. */
  answers: Record<string, Script>;
  otherwise: Script;
  readonly asked: { readonly path: string; readonly atMs: number }[];
  /** Asked paths since the last call. */
  take(): string[];
  /** The largest number of questions of one path that were open at once. */
  mostOpen(): number;
}

export function createScriptedBackend(clock: Clock, answers: Record<string, Script> = {}): ScriptedBackend {
  const asked: { path: string; atMs: number }[] = [];
  const open = new Map<string, number>();
  let most = 0;
  let taken = 0;
  const backend: ScriptedBackend = {
    answers,
    otherwise: notFound,
    asked,
    take: () => asked.slice(taken, (taken = asked.length)).map(({ path }) => path),
    mostOpen: () => most,
    async fetch(path, options) {
      asked.push({ path, atMs: clock.nowMs() });
      open.set(path, (open.get(path) ?? 0) + 1);
      most = Math.max(most, open.get(path) ?? 0);
      const result = await play(clock, backend.answers[path] ?? backend.otherwise, options);
      open.set(path, (open.get(path) ?? 0) - 1);
      return result;
    },
  };
  return backend;
}

function play(clock: Clock, script: Script, options: ProbeOptions): Promise<ProbeResult> | ProbeResult {
  const { timeoutMs, signal } = options;
  if (script !== 'hang' && !('afterMs' in script)) return script;
  const late = script === 'hang' || script.afterMs >= timeoutMs;
  return new Promise((resolve) => {
    const timer = clock.timer(late ? timeoutMs : script.afterMs, () => {
      resolve(late ? { failure: 'timeout', detail: 'scripted' } : script.result);
    });
    signal?.addEventListener('abort', () => {
      timer.cancel();
      resolve({ failure: 'other', detail: 'called off' });
    });
  });
}

export const refused: ProbeResult = { failure: 'refused', detail: 'ECONNREFUSED' };

export function ok(body: unknown, headers: Record<string, string> = {}): ProbeResult {
  return status(200, body, headers);
}

export function status(code: number, body: unknown = '', headers: Record<string, string> = {}): ProbeResult {
  return { status: code, headers, body: typeof body === 'string' ? body : JSON.stringify(body) };
}

const notFound = status(404, { detail: 'Not Found' });

export const llamaHeaders = { server: 'llama.cpp' };

export const llamaLoading = status(
  503,
  { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } },
  llamaHeaders,
);

export function llamaProps(changes: Record<string, unknown> = {}): ProbeResult {
  return ok(
    {
      default_generation_settings: { params: { seed: 4294967295 }, n_ctx: 2048 },
      total_slots: 2,
      model_alias: 'smollm2',
      endpoint_slots: true,
      endpoint_props: false,
      endpoint_metrics: true,
      build_info: 'b1-7e4c0a9',
      is_sleeping: false,
      ...changes,
    },
    llamaHeaders,
  );
}

export function llamaSlots(...busy: boolean[]): ProbeResult {
  return ok(
    busy.map((is, id) => ({ id, n_ctx: 2048, speculative: false, is_processing: is })),
    llamaHeaders,
  );
}

/** A llama-server with two slots, up. */
export function llamaAnswers(): Record<string, Script> {
  const data = [{ id: 'smollm2', aliases: ['small'], object: 'model', owned_by: 'llamacpp', meta: { n_ctx: 2048 } }];
  return {
    '/v1/models': ok({ models: [], object: 'list', data }, llamaHeaders),
    '/props': llamaProps(),
    '/health': ok({ status: 'ok' }, llamaHeaders),
    '/slots': llamaSlots(false, false),
  };
}

export function vllmModels(id = 'm1'): ProbeResult {
  const base = { object: 'model', created: 1, owned_by: 'vllm', root: 'org/m1' };
  return ok({
    object: 'list',
    data: [
      { id, ...base, parent: null, max_model_len: 32768 },
      { id: 'my-lora', ...base, parent: id, max_model_len: null },
    ],
  });
}

export function vllmMetrics(labels = 'block_size="16",enable_prefix_caching="True",num_gpu_blocks="573"'): ProbeResult {
  return ok(
    `# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n# TYPE vllm:cache_config_info gauge\n` +
      `vllm:num_requests_running{engine="0",model_name="m1"} 0.0\nvllm:cache_config_info{${labels},engine="0"} 1.0\n`,
  );
}

/** A vLLM, up. */
export function vllmAnswers(): Record<string, Script> {
  return {
    '/v1/models': vllmModels(),
    '/version': ok({ version: '0.32.0' }),
    '/metrics': vllmMetrics(),
    '/health': ok(''),
  };
}
