/**
 * Where each dialect keeps the text of an answer and the arguments of its tool calls, in events and in whole answers. Pure.
 * Reasoning is neither.
 */
import type { StreamFormat } from '../domain/names.ts';
import { countAt, isObject, objectAt, textAt, type JsonObject } from './dialect/facts.ts';

export type Piece =
  | {
      readonly kind: 'text' | 'call';
      readonly choice: number;
      /** which text or call of that choice */
      readonly id: string;
      readonly text: string;
    }
  | { readonly kind: 'refusal'; readonly choice: number };

export function readEventPieces(format: StreamFormat, event: JsonObject): Piece[] {
  switch (format) {
    case 'chat':
    case 'completions':
      return choicesOf(event).flatMap((choice, i) => readChoice(choice, i, 'delta'));
    case 'responses':
      return readResponsesEvent(event);
    case 'messages':
      return readMessagesEvent(event);
    default:
      return [];
  }
}

export function readAnswerPieces(format: StreamFormat, answer: JsonObject): Piece[] {
  switch (format) {
    case 'chat':
    case 'completions':
      return choicesOf(answer).flatMap((choice, i) => readChoice(choice, i, 'message'));
    case 'responses':
      return objectsAt(answer, 'output').flatMap((item, i) => readOutputItem(item, String(i)));
    case 'messages':
      // A call's input is an object there: it has been parsed already.
      return objectsAt(answer, 'content').flatMap((block, i): Piece[] =>
        block.type === 'tool_use'
          ? [{ kind: 'call', choice: 0, id: String(i), text: JSON.stringify(block.input ?? {}) }]
          : [],
      );
    default:
      return [];
  }
}

function choicesOf(json: JsonObject): JsonObject[] {
  return objectsAt(json, 'choices');
}

function readChoice(choice: JsonObject, place: number, key: 'delta' | 'message'): Piece[] {
  const index = countAt(choice, 'index') ?? place;
  if (typeof choice.text === 'string') return textPiece(choice.text, index);
  const body = objectAt(choice, key);
  if (body === undefined) return [];
  const pieces: Piece[] = textPiece(body.content, index);
  if (textAt(body, 'refusal') !== undefined) pieces.push({ kind: 'refusal', choice: index });
  objectsAt(body, 'tool_calls').forEach((call, i) => {
    // A tool that takes free text (`custom`) promises no JSON.
    if (call.type === 'custom' || objectAt(call, 'custom') !== undefined) return;
    const text = argumentsOf(objectAt(call, 'function'));
    pieces.push({ kind: 'call', choice: index, id: String(countAt(call, 'index') ?? i), text });
  });
  const old = objectAt(body, 'function_call');
  if (old !== undefined) pieces.push({ kind: 'call', choice: index, id: 'function_call', text: argumentsOf(old) });
  return pieces;
}

/** Some servers give an object where a string is due: it is JSON. */
function argumentsOf(call: JsonObject | undefined): string {
  const given = call?.arguments;
  if (typeof given === 'string') return given;
  return isObject(given) ? JSON.stringify(given) : '';
}

function textPiece(text: unknown, choice: number): Piece[] {
  if (typeof text === 'string') return text === '' ? [] : [{ kind: 'text', choice, id: '', text }];
  // A list of parts: those that are text.
  if (!Array.isArray(text)) return [];
  return text.filter(isObject).flatMap((part) => textPiece(part.text, choice));
}

function readResponsesEvent(event: JsonObject): Piece[] {
  const id = String(countAt(event, 'output_index') ?? textAt(event, 'item_id') ?? '');
  const delta = textAt(event, 'delta');
  switch (event.type) {
    case 'response.output_text.delta':
      return delta === undefined ? [] : [{ kind: 'text', choice: 0, id, text: delta }];
    case 'response.refusal.delta':
      return [{ kind: 'refusal', choice: 0 }];
    case 'response.function_call_arguments.delta':
      return [{ kind: 'call', choice: 0, id, text: delta ?? '' }];
    case 'response.output_item.added':
      // A call that takes no arguments sends none.
      return objectAt(event, 'item')?.type === 'function_call' ? [{ kind: 'call', choice: 0, id, text: '' }] : [];
    default:
      return [];
  }
}

function readOutputItem(item: JsonObject, id: string): Piece[] {
  if (item.type === 'function_call') return [{ kind: 'call', choice: 0, id, text: argumentsOf(item) }];
  if (item.type !== 'message') return [];
  return objectsAt(item, 'content').flatMap((part): Piece[] => {
    if (part.type === 'refusal') return [{ kind: 'refusal', choice: 0 }];
    const text = textAt(part, 'text');
    return text === undefined ? [] : [{ kind: 'text', choice: 0, id, text }];
  });
}

function readMessagesEvent(event: JsonObject): Piece[] {
  const id = String(countAt(event, 'index') ?? 0);
  if (event.type === 'content_block_start' && objectAt(event, 'content_block')?.type === 'tool_use')
    return [{ kind: 'call', choice: 0, id, text: '' }];
  const delta = event.type === 'content_block_delta' ? objectAt(event, 'delta') : undefined;
  if (delta?.type !== 'input_json_delta') return [];
  return [{ kind: 'call', choice: 0, id, text: typeof delta.partial_json === 'string' ? delta.partial_json : '' }];
}

function objectsAt(json: JsonObject, key: string): JsonObject[] {
  const list = json[key];
  return Array.isArray(list) ? list.filter(isObject) : [];
}
