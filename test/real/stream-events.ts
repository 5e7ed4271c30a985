/**
 * Server-sent events of a recorded payload, and which of them carry tokens: the tests' own reading, by simple rules,
 * against which warmlane's scanner and measurement are held.
 */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
  /** bytes of the payload: from the event's first to the last of the blank line after it */
  readonly start: number;
  readonly end: number;
}

/** Comments are no events; an event without its blank line has not happened yet. */
export function parseEvents(payload: Buffer): StreamEvent[] {
  const events: StreamEvent[] = [];
  for (let start = 0; ;) {
    const blank = payload.indexOf('\n\n', start);
    if (blank < 0) return events;
    const end = blank + 2;
    const lines = payload.toString('utf8', start, blank).split('\n');
    const field = (name: string) =>
      lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart());
    const data = field('data');
    if (data.length > 0) events.push({ name: field('event').join(''), data: data.join('\n'), start, end });
    start = end;
  }
}

// JSON of a foreign server: any shape may come, so every step is looked at before the next.
type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The member at the end of the path, or undefined where the path leads nowhere. */
export function at(value: Json | undefined, ...path: (string | number)[]): Json | undefined {
  let here: Json | undefined = value;
  for (const step of path) {
    if (typeof here !== 'object' || here === null) return undefined;
    here = (here as { [key: string]: Json })[step]; // an array's members have number-like keys too
  }
  return here;
}

export function parseJson(text: string): Json {
  return JSON.parse(text) as Json; // JSON.parse gives exactly this type, its declaration says `any`
}

const full = (value: Json | undefined) => typeof value === 'string' && value !== '';

/**
 * True when the event carries text, reasoning or a tool-call delta.
 * @param isVllm there an empty content (not the role chunk's) is a token too
 */
export function carriesToken(event: StreamEvent, isVllm: boolean): boolean {
  if (event.data === '[DONE]') return false;
  const json = parseJson(event.data);
  const type = at(json, 'type');
  if (typeof type === 'string') {
    if (type === 'content_block_delta') return at(json, 'delta', 'type') !== 'signature_delta';
    return type.endsWith('.delta') && full(at(json, 'delta'));
  }
  if (at(json, 'stop') !== undefined) return full(at(json, 'content'));
  const choice = at(json, 'choices', 0);
  const delta = at(choice, 'delta');
  if (delta === undefined) return full(at(choice, 'text')) || (isVllm && at(choice, 'text') === '');
  if (at(delta, 'role') !== undefined && !full(at(delta, 'content'))) return false;
  return (
    full(at(delta, 'content')) ||
    (isVllm && at(delta, 'content') === '') ||
    full(at(delta, 'reasoning')) ||
    full(at(delta, 'reasoning_content')) ||
    at(delta, 'tool_calls') !== undefined
  );
}

/** All text of a streamed or whole answer, reasoning and tool arguments included, whatever its dialect. */
export function textOf(answer: { readonly events: readonly StreamEvent[]; readonly text: string }): string {
  if (answer.events.length === 0) return textOfWhole(parseJson(answer.text));
  return answer.events
    .filter((event) => event.data !== '[DONE]')
    .map((event) => textOfEvent(parseJson(event.data)))
    .join('');
}

const joined = (...values: (Json | undefined)[]) => values.filter((value) => typeof value === 'string').join('');

function textOfEvent(json: Json): string {
  const type = at(json, 'type');
  if (typeof type === 'string') {
    if (!type.endsWith('delta')) return '';
    return joined(
      at(json, 'delta'),
      at(json, 'delta', 'text'),
      at(json, 'delta', 'thinking'),
      at(json, 'delta', 'partial_json'),
    );
  }
  const choice = at(json, 'choices', 0);
  const delta = at(choice, 'delta');
  return joined(
    at(json, 'content'),
    at(choice, 'text'),
    at(delta, 'content'),
    at(delta, 'reasoning'),
    at(delta, 'reasoning_content'),
    at(delta, 'tool_calls', 0, 'function', 'name'),
    at(delta, 'tool_calls', 0, 'function', 'arguments'),
  );
}

function textOfWhole(json: Json): string {
  const list = at(json, 'output') ?? at(json, 'content');
  if (Array.isArray(list)) {
    return list
      .flatMap((item) => [item, ...(Array.isArray(at(item, 'content')) ? (at(item, 'content') as Json[]) : [])])
      .map((part) => joined(at(part, 'text'), at(part, 'thinking')))
      .join('');
  }
  const message = at(json, 'choices', 0, 'message');
  return joined(
    at(json, 'content'),
    at(json, 'choices', 0, 'text'),
    at(message, 'content'),
    at(message, 'reasoning'),
    at(message, 'reasoning_content'),
    at(message, 'tool_calls', 0, 'function', 'name'),
    at(message, 'tool_calls', 0, 'function', 'arguments'),
  );
}

const changing = new Set([
  ...[
    'id',
    'item_id',
    'call_id',
    'response_id',
    'created',
    'created_at',
    'completed_at',
    'system_fingerprint',
    'signature',
  ],
  ...['id_slot', 'id_task', 'prompt_ms', 'prompt_per_token_ms', 'prompt_per_second'],
  ...['predicted_ms', 'predicted_per_token_ms', 'predicted_per_second'],
]);

/** The same value without what differs between two equal requests: ids, clocks, durations. */
export function normalise(value: Json): Json {
  if (Array.isArray(value)) return value.map(normalise);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !changing.has(key))
      .map(([key, member]) => [key, normalise(member)]),
  );
}

/** True for the event that reports usage alone: the one that vLLM sends when `include_usage` was asked for. */
export function isUsageOnly(event: StreamEvent): boolean {
  if (event.data === '[DONE]') return false;
  const json = parseJson(event.data);
  const choices = at(json, 'choices');
  return Array.isArray(choices) && choices.length === 0 && at(json, 'usage') !== undefined;
}

/**
 * Events in a form in which two equal requests are equal. Token events in a row become one: an engine whose consumer was
 * slow for a moment puts two tokens into one event.
 */
export function comparable(events: readonly StreamEvent[], isVllm: boolean): Json[] {
  const list: Json[] = [];
  let run: { name: string; text: string; finish: Json } | undefined;
  for (const event of events) {
    if (!carriesToken(event, isVllm)) {
      run = undefined;
      list.push({ name: event.name, data: event.data === '[DONE]' ? event.data : normalise(parseJson(event.data)) });
      continue;
    }
    const json = parseJson(event.data);
    if (run === undefined) list.push((run = { name: event.name, text: '', finish: null }));
    run.text += textOfEvent(json);
    run.finish = at(json, 'choices', 0, 'finish_reason') ?? null;
  }
  return list;
}
