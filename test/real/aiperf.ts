/**
 * Runs AIPerf, a load tool that others wrote, against a server and reads what it measured of each request. Its tokenizer
 * is the folder of vLLM's model: AIPerf makes its prompts with it.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild } from './child-process.ts';
import { modelName } from './engine.ts';
import { aiperfFile, vllmFiles } from './installed.ts';

/** One request as AIPerf saw it. */
export interface AiperfRequest {
  /** the `X-Request-ID` that it sent */
  readonly requestId: string;
  /** its own start → first chunk with content */
  readonly ttftMs: number;
  /** (latency − TTFT) ÷ (tokens − 1) */
  readonly itlMs: number;
  /** its "inter chunk latency" */
  readonly chunkGapsMs: readonly number[];
  /** its own start → last response */
  readonly latencyMs: number;
  readonly outputTokens: number;
  readonly promptTokens: number;
}

export interface AiperfLoad {
  readonly requests: number;
  readonly concurrency: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** @throws with the end of its output when it failed or took longer than `timeoutMs` */
export async function runAiperf(url: string, load: AiperfLoad, timeoutMs = 100_000): Promise<readonly AiperfRequest[]> {
  const folder = mkdtempSync(join(tmpdir(), 'aiperf-'));
  const child = startChild({
    command: aiperfFile,
    args: [
      ...['profile', '--model', modelName, '--url', url, '--endpoint-type', 'chat', '--streaming'],
      ...['--tokenizer', vllmFiles.model, '--use-server-token-count', '--ui', 'none', '--artifact-dir', folder],
      ...['--request-count', String(load.requests), '--concurrency', String(load.concurrency)],
      ...['--synthetic-input-tokens-mean', String(load.promptTokens)],
      ...['--output-tokens-mean', String(load.outputTokens), '--extra-inputs', 'ignore_eos:true'],
      ...['--workers-max', '1', '--no-gpu-telemetry', '--no-server-metrics', '--random-seed', '7'],
    ],
    // A model hub that is told to be off makes it refuse a folder too.
    env: { HF_HUB_OFFLINE: undefined },
  });
  try {
    const end = await child.ended(timeoutMs);
    if (end !== 0) throw new Error(`aiperf ended with ${end}`);
    const lines = readFileSync(join(folder, 'profile_export.jsonl'), 'utf8').trim().split('\n');
    return lines.map((line) => readRequest(JSON.parse(line) as Exported)); // as AIPerf 0.13 writes it
  } catch (error) {
    throw new Error(`${String(error)}\n${child.log().slice(-3_000)}`, { cause: error });
  } finally {
    await child.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Exported {
  readonly metadata: { readonly x_request_id: string };
  readonly metrics: Readonly<Record<string, { readonly value: number | readonly number[] } | undefined>>;
}

function readRequest({ metadata, metrics }: Exported): AiperfRequest {
  const list = (name: string) => {
    const value = metrics[name]?.value;
    if (value === undefined) throw new Error(`aiperf's export has no ${name}`);
    return typeof value === 'number' ? [value] : value;
  };
  const one = (name: string) => list(name)[0] ?? Number.NaN;
  return {
    requestId: metadata.x_request_id,
    ttftMs: one('time_to_first_token'),
    itlMs: one('inter_token_latency'),
    chunkGapsMs: list('inter_chunk_latency'),
    latencyMs: one('request_latency'),
    outputTokens: one('output_sequence_length'),
    promptTokens: one('input_sequence_length'),
  };
}
