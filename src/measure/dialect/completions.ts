/**
 * Text completions: one event → facts. Pure; never throws. There is no role chunk; with `echo` the prompt comes with the
 * first token, which is one token event all the same. vLLM's empty `text` is a token (R14), llama-server's last one isn't.
 */
import { textAt, type DialectContext, type EventFacts, type JsonObject } from './facts.ts';
import { idsOf, readChunk, type ChoiceFacts } from './openai.ts';

export function readCompletions(json: JsonObject, context: DialectContext): EventFacts {
  return readChunk(json, context, readChoice);
}

function readChoice(choice: JsonObject, context: DialectContext): ChoiceFacts {
  const ids = idsOf(choice);
  const isToken = ids > 0 || textAt(choice, 'text') !== undefined || (context.engine === 'vllm' && choice.text === '');
  if (!isToken) return { role: false };
  return { role: false, delta: ids > 0 ? { kind: 'text', tokens: ids } : { kind: 'text' } };
}
