/**
 * Anthropic messages: one event → facts. Pure; never throws. `message_start` opens the answer as a role chunk does; its
 * usage may lack the cache counts that `message_delta` brings, so readers take the larger of both.
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
import { readUsage } from './usage.ts';

export function readMessages(json: JsonObject, context: DialectContext): EventFacts {
  const type = textAt(json, 'type') ?? context.name;
  switch (type) {
    case 'content_block_delta':
      return readDelta(objectAt(json, 'delta') ?? {});
    case 'content_block_start':
      return readBlock(objectAt(json, 'content_block') ?? {});
    case 'message_start':
      return readStart(objectAt(json, 'message') ?? {});
    case 'message_delta':
      return readEnd(json);
    case 'message_stop':
      return bare(EventFlag.done);
    default:
      return signFacts;
  }
}

function readDelta(delta: JsonObject): EventFacts {
  if (textAt(delta, 'text') !== undefined) return tokenFacts('text');
  if (textAt(delta, 'thinking') !== undefined) return tokenFacts('reasoning');
  if (textAt(delta, 'partial_json') !== undefined) return tokenFacts('tool');
  return signFacts;
}

/** A tool's name comes with the start of its block: that is its first delta. */
function readBlock(block: JsonObject): EventFacts {
  if (block.type === 'tool_use') return tokenFacts('tool');
  return readDelta(block);
}

function readStart(message: JsonObject): EventFacts {
  const usage = objectAt(message, 'usage');
  return compact<EventFacts>({
    ...bare(EventFlag.sign),
    roles: [0],
    usage: usage && readUsage(usage),
    choice: 0,
    responseId: textAt(message, 'id'),
    responseModel: textAt(message, 'model'),
  });
}

function readEnd(json: JsonObject): EventFacts {
  const usage = objectAt(json, 'usage');
  const reason = textAt(objectAt(json, 'delta') ?? {}, 'stop_reason');
  return compact<EventFacts>({
    ...bare(reason === undefined ? EventFlag.sign : EventFlag.finish),
    finishes: reason === undefined ? [] : [{ choice: 0, reason }],
    usage: usage && readUsage(usage),
    choice: 0,
  });
}

function tokenFacts(kind: DeltaKind): EventFacts {
  return { ...bare(EventFlag.token), deltas: [{ choice: 0, kind }] };
}
