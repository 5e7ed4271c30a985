/**
 * What a scripted backend says to probes: enough for a proxy to recognise the engine and find it healthy.
 * Only the shapes that detection reads; the simulated servers speak in full.
 */
import type { ScriptStep } from './fault-steps.ts';
import type { RawRequest } from './raw-request.ts';
import { wholeAnswer } from './sse-script.ts';

export interface ProbeSettings {
  /** Which engine the answers belong to; `openai` (default) knows health and models only. */
  readonly engine?: 'vllm' | 'llama-server' | 'openai';
  /** Model id in `/v1/models`. */
  readonly model?: string;
  /** Slots of a llama-server. */
  readonly slots?: number;
  /** Context of a slot or a model, in tokens. */
  readonly contextTokens?: number;
  /** Called first; what it returns is played instead. */
  readonly override?: (request: RawRequest) => Iterable<ScriptStep> | undefined;
}

/** Probes name themselves, so that a user may ask the same paths. */
export function isFromProber(request: Pick<RawRequest, 'header'>): boolean {
  return request.header('user-agent') === 'warmlane';
}

/** The whole answer to one probe; 404 for what the engine doesn't have. */
export function answerProbe(request: RawRequest, settings: ProbeSettings): Iterable<ScriptStep> {
  const own = settings.override?.(request);
  if (own !== undefined) return own;
  const path = request.target.split('?')[0] ?? '';
  const { engine = 'openai', model = 'm', slots = 4, contextTokens = 4096 } = settings;
  if (path === '/health') return [engine === 'vllm' ? wholeAnswer(200, '') : wholeAnswer(200, { status: 'ok' })];
  if (path === '/v1/models') return [wholeAnswer(200, modelList(engine, model, contextTokens))];
  if (engine === 'vllm') {
    if (path === '/version') return [wholeAnswer(200, { version: '0.32.0' })];
    if (path === '/metrics') return [metrics(vllmMetrics(model))];
  }
  if (engine === 'llama-server') {
    if (path === '/props')
      return [
        wholeAnswer(
          200,
          {
            default_generation_settings: { n_ctx: contextTokens },
            total_slots: slots,
            model_alias: model,
            build_info: 'b0-scripted',
          },
          llamaHeaders,
        ),
      ];
    if (path === '/slots') return [wholeAnswer(200, idleSlots(slots, contextTokens), llamaHeaders)];
    if (path === '/metrics') return [metrics('llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n')];
  }
  const missing =
    engine === 'vllm'
      ? { detail: 'Not Found' }
      : { error: { message: 'File Not Found', type: 'not_found_error', code: 404 } };
  return [wholeAnswer(404, missing)];
}

const llamaHeaders = { Server: 'llama.cpp' };

function modelList(engine: string, model: string, contextTokens: number): object {
  const entry = { id: model, object: 'model', created: 1_780_000_000 };
  if (engine === 'vllm')
    return {
      object: 'list',
      data: [{ ...entry, owned_by: 'vllm', root: model, parent: null, max_model_len: contextTokens }],
    };
  if (engine !== 'llama-server') return { object: 'list', data: [{ ...entry, owned_by: 'scripted' }] };
  return {
    models: [{ name: model, model }],
    object: 'list',
    data: [{ ...entry, owned_by: 'llamacpp', meta: { n_ctx: contextTokens } }],
  };
}

function idleSlots(count: number, contextTokens: number): object[] {
  return Array.from({ length: count }, (_, id) => ({
    id,
    n_ctx: contextTokens,
    speculative: false,
    is_processing: false,
  }));
}

function vllmMetrics(model: string): string {
  const labels = `{engine="0",model_name="${model}"}`;
  return `vllm:num_requests_running${labels} 0.0\nvllm:num_requests_waiting${labels} 0.0\nvllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0\n`;
}

function metrics(text: string): Buffer {
  return wholeAnswer(200, text, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' });
}
