/**
 * Responses API: one event → facts. Pure; never throws. `created` and `in_progress` are signs only: vLLM sends them before
 * any work. llama-server sends `created` with its first token, so there it stands for the role chunk.
 */
import { EventFlag } from '../../domain/tap.ts';
import {
  bare,
  compact,
  objectAt,
  signFacts,
  textAt,
  type DeltaKind,
  type DialectContext,
  type EventFacts,
  type JsonObject,
} from './facts.ts';
import { readTimings, readUsage } from './usage.ts';

const deltaKinds: Readonly<Record<string, DeltaKind>> = {
  'response.output_text.delta': 'text',
  'response.refusal.delta': 'text',
  'response.audio.delta': 'text',
  'response.audio.transcript.delta': 'text',
  'response.reasoning_text.delta': 'reasoning',
  'response.reasoning.delta': 'reasoning',
  'response.reasoning_summary_text.delta': 'summary',
  'response.function_call_arguments.delta': 'tool',
  'response.custom_tool_call_input.delta': 'tool',
  'response.mcp_call_arguments.delta': 'tool',
  'response.code_interpreter_call_code.delta': 'tool',
};
const toolItems: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call', 'mcp_call']);

export function readResponses(json: JsonObject, context: DialectContext): EventFacts {
  const type = textAt(json, 'type') ?? context.name;
  const kind = deltaKinds[type];
  if (kind !== undefined) return textAt(json, 'delta') === undefined ? signFacts : tokenFacts(kind);
  if (type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed') {
    return readEnd(json, type);
  }
  if (type === 'response.output_item.added' && toolItems.has(objectAt(json, 'item')?.type)) return tokenFacts('tool');
  const response = objectAt(json, 'response');
  if (response === undefined) return signFacts;
  const opens = context.engine === 'llama-server' && type === 'response.created';
  return { ...bare(EventFlag.sign), roles: opens ? [0] : [], ...names(response) };
}

function tokenFacts(kind: DeltaKind): EventFacts {
  return { ...bare(EventFlag.token), deltas: [{ choice: 0, kind }] };
}

/** vLLM says `completed` even when the length cut it; the status and `incomplete_details` say so. */
function readEnd(json: JsonObject, type: string): EventFacts {
  const response = objectAt(json, 'response') ?? {};
  const usage = objectAt(response, 'usage');
  const timings = objectAt(json, 'timings');
  const details = objectAt(response, 'incomplete_details');
  const reason = (details && textAt(details, 'reason')) ?? textAt(response, 'status') ?? type.slice('response.'.length);
  return compact<EventFacts>({
    ...bare(EventFlag.finish | EventFlag.done),
    finishes: [{ choice: 0, reason }],
    usage: usage && readUsage(usage),
    timings: timings && readTimings(timings),
    choice: 0,
    ...names(response),
  });
}

function names(response: JsonObject): Pick<EventFacts, 'responseId' | 'responseModel'> {
  const id = textAt(response, 'id');
  const model = textAt(response, 'model');
  return { ...(id === undefined ? {} : { responseId: id }), ...(model === undefined ? {} : { responseModel: model }) };
}
