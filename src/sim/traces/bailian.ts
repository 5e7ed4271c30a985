/**
 * Traces of Qwen-Bailian (alibaba-edu/qwen-bailian-usagetraces-anon): `chat_id`, `parent_chat_id`, `timestamp` in s, `turn`,
 * `hash_ids` of 16-token blocks. Each row tells its whole prompt, and when it came. A chat's first id stands for the session.
 */
import { idsOf, isWrong, nameOf, parseJsonLine, timeOf, tokensOf } from './json-line.ts';
import type { TraceFormat, TraceRow } from './row.ts';

/** Chats whose session is remembered; those of the longest ago are forgotten first. */
const mostChats = 1_000_000;

export function createBailian(): TraceFormat {
  const roots = new Map<string, string>();

  function rootOf(chat: string, parent: string | undefined): string {
    const root = (parent === undefined ? undefined : roots.get(parent)) ?? chat;
    if (roots.size >= mostChats) {
      const oldest = roots.keys().next();
      if (oldest.done !== true) roots.delete(oldest.value);
    }
    roots.set(chat, root);
    return root;
  }

  return {
    name: 'bailian',
    hashTokens: 16,
    turns: false,
    read(text, line): TraceRow | { readonly why: string } {
      const fields = parseJsonLine(text);
      if (fields === undefined) return { why: 'is no JSON object' };
      const promptTokens = tokensOf(fields, 'input_length', 1);
      if (isWrong(promptTokens)) return promptTokens;
      const outputTokens = tokensOf(fields, 'output_length', 0);
      if (isWrong(outputTokens)) return outputTokens;
      const seconds = timeOf(fields, 'timestamp');
      if (isWrong(seconds)) return seconds;
      if (seconds === undefined) return { why: 'timestamp is missing' };
      const hashIds = idsOf(fields);
      if (isWrong(hashIds)) return hashIds;
      const chat = nameOf(fields, 'chat_id');
      return {
        line,
        timestampMs: seconds * 1000,
        promptTokens,
        outputTokens: Math.max(1, outputTokens),
        ...(hashIds === undefined ? {} : { hashIds }),
        ...(chat === undefined ? {} : { session: rootOf(chat, nameOf(fields, 'parent_chat_id')) }),
      };
    },
  };
}
