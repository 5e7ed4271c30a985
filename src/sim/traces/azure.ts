/**
 * Traces of Azure's LLM inference service (Azure/AzurePublicDataset): CSV with `TIMESTAMP,ContextTokens,GeneratedTokens`. They tell
 * nothing of prompts, so no two begin alike.
 */
import type { TraceFormat, TraceRow } from './row.ts';

const heading = /^\W*TIMESTAMP\s*,\s*ContextTokens\s*,\s*GeneratedTokens/i;

export function isAzureHeading(text: string): boolean {
  return heading.test(text);
}

export const azure: TraceFormat = {
  name: 'azure',
  hashTokens: 512,
  turns: false,
  read(text, line): TraceRow | { readonly why: string } | undefined {
    if (isAzureHeading(text)) return undefined;
    const [time = '', context = '', generated = ''] = text.split(',').map((cell) => cell.trim());
    const timestampMs = timeMs(time);
    if (timestampMs === undefined) return { why: 'TIMESTAMP is no time' };
    const promptTokens = Number(context);
    const outputTokens = Number(generated);
    if (context === '' || !Number.isInteger(promptTokens) || promptTokens < 1)
      return { why: 'ContextTokens is no whole number above 0' };
    if (generated === '' || !Number.isInteger(outputTokens) || outputTokens < 0)
      return { why: 'GeneratedTokens is no whole number' };
    return { line, timestampMs, promptTokens, outputTokens: Math.max(1, outputTokens) };
  },
};

/** `2023-11-16 18:15:46.6805900`: a fraction finer than JavaScript's own, and no zone; only differences count. */
function timeMs(text: string): number | undefined {
  const parts = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?$/.exec(text);
  if (parts === null) return undefined;
  const wholeMs = Date.parse(`${parts[1]}T${parts[2]}Z`);
  return Number.isNaN(wholeMs) ? undefined : wholeMs + Number(parts[3] ?? 0) * 1000;
}
