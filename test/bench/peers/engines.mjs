/**
 * The simulated fleet's engines: vLLM's ways with a mid-sized model, in time's own units but small, so that some dozens of
 * requests a second keep eight of them busy while two cores hardly notice. Figures are plausible, not measured claims.
 * Plain data for `fleet.mjs`; the KV is small on purpose: where it were not, placement would matter little.
 */

/** @typedef {import('../../../src/sim/server-settings.ts').VllmServerSettings} VllmServerSettings */

/** 100 tokens/s alone, 5,000 prompt tokens/s; prefill in steps of 512 tokens beside what decodes. */
const engine = {
  seed: 1,
  maxSequences: 64,
  stepTokens: 512,
  chunkedPrefill: true,
  scheduling: /** @type {const} */ ('fcfs'),
  preemption: true,
  abortBorder: /** @type {const} */ ('at_once'),
  stepTime: {
    baseMs: 10,
    perSequenceMs: 0.1,
    perContextTokenMs: 0.000_3,
    perPrefillTokenMs: 0.2,
    perPrefillPairMs: 0.000_003,
    prefillBaseMs: 1,
    combine: /** @type {const} */ ('sum'),
    jitterShare: 0.02,
  },
};

export const blockTokens = 16;
export const modelName = 'simulated';

/** @param {number} kvTokens of one server @param {number} number makes servers differ in their noise @returns {VllmServerSettings} */
export function serverSettings(kvTokens, number) {
  return {
    dialect: 'vllm',
    model: modelName,
    engine: {
      ...engine,
      seed: engine.seed + number,
      cache: { kind: 'blocks', blockTokens, blocks: Math.floor(kvTokens / blockTokens), prefixCaching: true },
    },
    answer: { minSentences: 3, maxSentences: 10 },
    maxBodyBytes: 64 * 1024 * 1024,
    loadingMs: 0,
    contextTokens: 16_384,
    promptTokensDetails: true,
    frontendMs: 2,
  };
}
