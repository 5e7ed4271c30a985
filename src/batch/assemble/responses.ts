/**
 * A streamed response (Responses API): its last event has the whole object, which is taken as it stands, byte for byte. Formats:
 * model servers' reference, A7 and B5; OpenAI's, D2.
 */
import { scanJson } from '../../platform/json-scan.ts';
import { type Assembled, assembledError, type Assembler, isObject, parseObject } from './assembled.ts';

/** Both are whole answers: what cut it short stands in the object. */
const ends: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete']);

export function createResponsesAssembler(): Assembler {
  let whole: string | undefined;
  let error: Assembled | undefined;

  return {
    get keptChars() {
      return whole?.length ?? 0;
    },
    event(name, data) {
      // Of most events only the name matters, and it may be missing.
      if (name !== '' && !isRead(name)) return;
      const event = parseObject(data);
      if (event === undefined) return;
      const { type = name, response } = event;
      if (ends.has(type)) whole = rawResponse(data);
      else if (type === 'response.failed')
        error ??= assembledError(isObject(response) && response.error !== null ? response.error : event);
      else if (type === 'error') error ??= assembledError(event.error ?? event);
      // An engine that knows no error event of this API says it in the chat one's shape.
      else if (event.type === undefined && event.error !== undefined) error ??= assembledError(event.error);
    },
    end(engine): Assembled {
      if (error !== undefined) return error;
      if (whole === undefined) return { kind: 'broken', message: 'The stream ended before its answer was complete.' };
      return { kind: 'whole', body: engine === 'llama-server' ? withCompletedAt(whole) : whole };
    },
  };
}

function isRead(name: string): boolean {
  return ends.has(name) || name === 'response.failed' || name === 'error';
}

function rawResponse(data: string): string | undefined {
  const bytes = Buffer.from(data);
  const field = scanJson(bytes, new Map([['response', 0]])).fields.get('response');
  return field?.kind === 'object' ? bytes.toString('utf8', field.start, field.end) : undefined;
}

/** It names the moment of its end twice when it doesn't stream, and once when it does. */
function withCompletedAt(whole: string): string {
  const object = parseObject(whole);
  const created = object?.created_at;
  if (object === undefined || object.completed_at !== undefined || typeof created !== 'number') return whole;
  return `{"completed_at":${created},${whole.slice(1)}`;
}
