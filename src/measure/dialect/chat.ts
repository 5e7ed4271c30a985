/**
 * Chat completions: one event → facts. Pure; never throws.
 * A token event carries text, a refusal, reasoning, a tool-call delta or token ids. On vLLM also an empty `content` without a
 * role is one: half a character, or text held back because of `stop` (R14). Role chunks, progress and usage are none.
 */
import { textAt, objectAt, type DeltaKind, type DialectContext, type EventFacts, type JsonObject } from './facts.ts';
import { idsOf, readChunk, type ChoiceFacts } from './openai.ts';

const reasoningKeys = ['reasoning_content', 'reasoning', 'thinking'] as const;

export function readChat(json: JsonObject, context: DialectContext): EventFacts {
  return readChunk(json, context, readChoice);
}

function readChoice(choice: JsonObject, context: DialectContext): ChoiceFacts {
  const delta = objectAt(choice, 'delta') ?? {};
  const ids = idsOf(choice);
  const role = typeof delta.role === 'string';
  const kind =
    kindOf(delta) ?? (ids > 0 || (context.engine === 'vllm' && !role && delta.content === '') ? 'text' : undefined);
  if (kind === undefined) return { role };
  return { role, delta: ids > 0 ? { kind, tokens: ids } : { kind } };
}

function kindOf(delta: JsonObject): DeltaKind | undefined {
  if (textAt(delta, 'content') !== undefined || textAt(delta, 'refusal') !== undefined) return 'text';
  if (Array.isArray(delta.content) && delta.content.length > 0) return 'text';
  if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) return 'tool';
  if (objectAt(delta, 'function_call') !== undefined) return 'tool';
  if (reasoningKeys.some((key) => textAt(delta, key) !== undefined)) return 'reasoning';
  if (objectAt(delta, 'audio') !== undefined) return 'text';
  return undefined;
}
