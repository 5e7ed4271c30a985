/**
 * Whether the answer to a body that doesn't ask for a stream could be had as one all the same, with nothing lost once it is put
 * together again, and by which edits. Only bodies whose every top-level key is known to mean the same both ways; where an engine
 * streams otherwise than it answers, it is left out. For lines of batches: a stream shows progress, and is left at once (R09).
 */
import type { BodyEdit, StreamPlan } from '../domain/job.ts';
import type { Engine } from '../domain/names.ts';
import { type JsonField, type JsonScanResult, scanJson } from '../platform/json-scan.ts';
import { createJsonWalk } from '../platform/json-walk.ts';

const sampling = [
  'model',
  'stream',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'typical_p',
  'seed',
  'stop',
  'presence_penalty',
  'frequency_penalty',
  'repetition_penalty',
  'repeat_penalty',
  'repeat_last_n',
  'logit_bias',
  'min_tokens',
  'ignore_eos',
  'user',
  'metadata',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'priority',
  'cache_prompt',
  'grammar',
  'json_schema',
  'structured_outputs',
];

const chat = new Set([
  ...sampling,
  'messages',
  'max_tokens',
  'max_completion_tokens',
  'n',
  'logprobs',
  'top_logprobs',
  'response_format',
  'reasoning_effort',
  'reasoning_format',
  'verbosity',
  'chat_template_kwargs',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'store',
]);
const completions = new Set([...sampling, 'prompt', 'max_tokens', 'n', 'logprobs']);
const responses = new Set([
  ...sampling,
  'input',
  'instructions',
  'max_output_tokens',
  'reasoning',
  'text',
  'store',
  'truncation',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
]);

const keysByPath: Readonly<Record<string, ReadonlySet<string>>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completions,
  '/v1/responses': responses,
};

const engines: readonly Engine[] = ['llama-server', 'vllm'];
/** vLLM reads tool calls and reasoning out of a stream by other code than out of a whole text. */
const withTools: readonly Engine[] = ['llama-server'];

/** @returns undefined where it may not be streamed */
export function planStream(path: string, body: Buffer): StreamPlan | undefined {
  const known = keysByPath[path];
  if (known === undefined || !hasOnly(body, known)) return undefined;
  const scan = scanJson(body, read);
  if (!scan.readable || scan.duplicates.length > 0) return undefined;
  const stream = scan.fields.get('stream');
  if (stream !== undefined && stream.kind !== 'false' && stream.kind !== 'null') return undefined;
  const prompt = scan.fields.get('prompt');
  if (path === '/v1/completions' && !isOnePrompt(prompt)) return undefined;
  const hasTools = scan.fields.has('tools') || path === '/v1/responses';
  return { engines: hasTools ? withTools : engines, edits: editsOf(scan, stream, path) };
}

const read = new Map([
  ['stream', 8],
  ['prompt', 0],
  ['tools', 0],
]);

function editsOf(scan: JsonScanResult, stream: JsonField | undefined, path: string): BodyEdit[] {
  const at = scan.objectStart + 1;
  const members = [
    ...(stream === undefined ? ['"stream":true'] : []),
    ...(path === '/v1/responses' ? [] : ['"stream_options":{"include_usage":true}']),
  ];
  const text = members.map((member, index) => (scan.empty && index === members.length - 1 ? member : `${member},`));
  const first = members.length === 0 ? [] : [{ start: at, end: at, text: text.join('') }];
  return stream === undefined ? first : [...first, { start: stream.start, end: stream.end, text: 'true' }];
}

/** Of several prompts vLLM counts the cached tokens of the first alone when it streams. */
function isOnePrompt(prompt: JsonField | undefined): boolean {
  if (prompt?.kind === 'string') return true;
  const { elements } = prompt ?? {};
  return elements !== undefined && elements.count > 0 && elements.numbers === elements.count;
}

function hasOnly(body: Buffer, known: ReadonlySet<string>): boolean {
  let keyStart = 0;
  let allKnown = true;
  const walk = createJsonWalk({
    objectBegin() {},
    keyBegin(at) {
      keyStart = at + 1;
    },
    keyEnd(at) {
      // A key that is written with escapes counts as unknown.
      if (!known.has(body.toString('utf8', keyStart, at))) allKnown = false;
      return undefined;
    },
    valueBegin() {},
    valueEnd() {},
  });
  walk.push(body);
  return walk.end() === undefined && allKnown;
}
