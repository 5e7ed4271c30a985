/**
 * llama-server's `/metrics`: names, help, order and number format of b10434. Prompt counters move when a prompt is done, answer counters
 * only when the slot is released; the two rates are averages since the scrape before, and each scrape resets them.
 */
import type { Engine } from '../engine.ts';

export interface LlamaMetrics {
  /** A prompt is done, or was given up after so many tokens. */
  prompt(computedTokens: number, cachedTokens: number, tookMs: number): void;
  released(tokens: number, tookMs: number): void;
  render(engine: Engine): string;
}

interface Totals {
  promptTokens: number;
  cachedTokens: number;
  promptMs: number;
  predictedTokens: number;
  predictedMs: number;
}

export function createLlamaMetrics(): LlamaMetrics {
  const total: Totals = { promptTokens: 0, cachedTokens: 0, promptMs: 0, predictedTokens: 0, predictedMs: 0 };
  let atLastScrape: Totals = { ...total };
  return {
    prompt(computedTokens, cachedTokens, tookMs) {
      total.promptTokens += computedTokens;
      total.cachedTokens += cachedTokens;
      total.promptMs += tookMs;
    },
    released(tokens, tookMs) {
      total.predictedTokens += tokens;
      total.predictedMs += tookMs;
    },
    render(engine) {
      const since = atLastScrape;
      atLastScrape = { ...total };
      const { running, waiting, counters } = engine.view();
      const rate = (tokens: number, ms: number) => (ms === 0 ? 0 : (1000 * tokens) / ms);
      const busy = counters.steps === 0 ? 0 : counters.stepSequences / counters.steps;
      const rows: readonly (readonly [name: string, type: 'counter' | 'gauge', help: string, value: number])[] = [
        [
          'prompt_tokens_total',
          'counter',
          'Number of prompt tokens processed, excluding cached tokens',
          total.promptTokens,
        ],
        ['prompt_tokens_cached_total', 'counter', 'Number of prompt tokens reused from the cache', total.cachedTokens],
        ['prompt_seconds_total', 'counter', 'Total time spent processing prompts', total.promptMs / 1000],
        ['tokens_predicted_total', 'counter', 'Number of generation tokens processed', total.predictedTokens],
        ['tokens_predicted_seconds_total', 'counter', 'Total time spent generating tokens', total.predictedMs / 1000],
        [
          'n_decode_total',
          'counter',
          'Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding',
          counters.steps,
        ],
        ['n_tokens_max', 'counter', 'Largest observed sequence length (prompt + generation)', counters.longestSequence],
        ['spec_decode_num_draft_tokens_total', 'counter', 'Speculative: Total draft tokens generated', 0],
        [
          'spec_decode_num_accepted_tokens_total',
          'counter',
          'Speculative: Total draft tokens accepted by the target model',
          0,
        ],
        ['spec_decode_num_drafts_total', 'counter', 'Speculative: Total speculative decoding verification steps', 0],
        [
          'prompt_tokens_seconds',
          'gauge',
          'Average prompt throughput in tokens/s',
          rate(total.promptTokens - since.promptTokens, total.promptMs - since.promptMs),
        ],
        [
          'predicted_tokens_seconds',
          'gauge',
          'Average generation throughput in tokens/s',
          rate(total.predictedTokens - since.predictedTokens, total.predictedMs - since.predictedMs),
        ],
        ['requests_processing', 'gauge', 'Number of requests processing', running],
        ['requests_deferred', 'gauge', 'Number of requests deferred', waiting],
        ['n_busy_slots_per_decode', 'gauge', 'Average number of busy slots per llama_decode() call', busy],
      ];
      return rows
        .map(
          ([name, type, help, value]) =>
            `# HELP llamacpp:${name} ${help}\n# TYPE llamacpp:${name} ${type}\nllamacpp:${name} ${shown(value)}\n`,
        )
        .join('');
    },
  };
}

/** Six digits, as a C++ stream writes a double; whole numbers in full. */
function shown(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}
