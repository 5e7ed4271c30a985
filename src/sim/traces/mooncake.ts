/**
 * Traces in Mooncake's form (kvcache-ai/Mooncake, FAST'25): `timestamp` in ms, `input_length`, `output_length`, `hash_ids` of
 * 512-token blocks; as warmlane writes it, with `lane` where it is batch; and as NVIDIA's AIPerf and Dynamo extend it: `session_id`, `delay` (ms after the turn before), ids optional.
 */
import { idsOf, isWrong, nameOf, parseJsonLine, timeOf, tokensOf } from './json-line.ts';
import type { TraceFormat, TraceRow } from './row.ts';

export const mooncake: TraceFormat = {
  name: 'mooncake',
  hashTokens: 512,
  turns: true,
  read(text, line): TraceRow | { readonly why: string } {
    const fields = parseJsonLine(text);
    if (fields === undefined) return { why: 'is no JSON object' };
    const promptTokens = tokensOf(fields, 'input_length', 1);
    if (isWrong(promptTokens)) return promptTokens;
    const outputTokens = fields['output_length'] === undefined ? 1 : tokensOf(fields, 'output_length', 0);
    if (isWrong(outputTokens)) return outputTokens;
    const timestampMs = timeOf(fields, 'timestamp');
    const delayMs = timeOf(fields, 'delay');
    const hashIds = idsOf(fields);
    for (const value of [timestampMs, delayMs, hashIds]) if (isWrong(value)) return value;
    const session = nameOf(fields, 'session_id');
    return {
      line,
      promptTokens,
      outputTokens: Math.max(1, outputTokens),
      ...(typeof timestampMs === 'number' ? { timestampMs } : {}),
      ...(typeof delayMs === 'number' ? { delayMs } : {}),
      ...(Array.isArray(hashIds) ? { hashIds: hashIds as readonly number[] } : {}),
      ...(session === undefined ? {} : { session }),
      ...(fields['lane'] === 'batch' ? { lane: 'batch' as const } : {}),
    };
  },
};
