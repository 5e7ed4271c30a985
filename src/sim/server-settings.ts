/**
 * What a simulated server is told beside its engine: names, limits and the habits of its dialect. One type for each dialect, and a ready
 * one for each kind of use.
 */
import type { AnswerLength } from './canned-text.ts';
import {
  instantLlama,
  instantVllm,
  l40sLlama,
  l40sVllm,
  laptopLlama,
  laptopVllm,
  type EngineSettings,
} from './settings.ts';

interface CommonServerSettings {
  /** Model name that it reports and accepts. */
  readonly model: string;
  readonly engine: EngineSettings;
  readonly answer: AnswerLength;
  /** Wanted as `Authorization: Bearer`; absent: none. */
  readonly apiKey?: string;
  readonly maxBodyBytes: number;
  /** Time from the start to being ready. vLLM's port refuses meanwhile, llama-server answers 503. */
  readonly loadingMs: number;
}

export interface VllmServerSettings extends CommonServerSettings {
  readonly dialect: 'vllm';
  /** `--max-model-len`: prompt and answer together. (llama-server: the slot's tokens, in `engine.cache`.) */
  readonly contextTokens: number;
  /** `--enable-prompt-tokens-details`. */
  readonly promptTokensDetails: boolean;
  /** `--max-num-queued-reqs`: waiting and running together. */
  readonly maxQueuedRequests?: number;
  /** Between a request and its arrival in the engine: validation, tokenisation, the way there. 0: none at all. */
  readonly frontendMs: number;
}

export interface LlamaServerSettings extends CommonServerSettings {
  readonly dialect: 'llama-server';
  /** `--metrics`; without it the route is a 501. */
  readonly metrics: boolean;
  /** `--sse-ping-interval`; 0: no pings. */
  readonly pingIntervalMs: number;
  /** `--threads-http`: requests in hand at once, probes too; more wait unanswered. Absent: no limit. */
  readonly httpThreads?: number;
  /** A client that left without being written to is noticed after so long without any result of the engine. */
  readonly abortPollMs: number;
  /** Status for a body that is no JSON: 500 (b10434) or 400 (b11549). */
  readonly badJsonStatus: 400 | 500;
}

export type SimServerSettings = VllmServerSettings | LlamaServerSettings;

const common = {
  model: 'simulated',
  answer: { minSentences: 3, maxSentences: 10 },
  maxBodyBytes: 64 * 1024 * 1024,
  loadingMs: 0,
};

export const laptopVllmServer: VllmServerSettings = {
  ...common,
  dialect: 'vllm',
  engine: laptopVllm,
  contextTokens: 8192,
  promptTokensDetails: true,
  frontendMs: 3,
};

export const laptopLlamaServer: LlamaServerSettings = {
  ...common,
  dialect: 'llama-server',
  engine: laptopLlama,
  metrics: true,
  pingIntervalMs: 30_000,
  abortPollMs: 1000,
  badJsonStatus: 400,
};

export const l40sVllmServer: VllmServerSettings = { ...laptopVllmServer, engine: l40sVllm, contextTokens: 32_768 };
export const l40sLlamaServer: LlamaServerSettings = { ...laptopLlamaServer, engine: l40sLlama };

/** As fast as the machine allows. */
export const instantVllmServer: VllmServerSettings = { ...l40sVllmServer, engine: instantVllm, frontendMs: 0 };
export const instantLlamaServer: LlamaServerSettings = { ...l40sLlamaServer, engine: instantLlama };
