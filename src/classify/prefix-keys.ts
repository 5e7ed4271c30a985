/**
 * Which members of a body make its prompt, and in which order an engine renders them: what shapes the whole prompt (`seed`),
 * tools, what stands in front of the messages (`head`), then the messages or the prompt itself (`body`). Left out is what
 * engines don't render: sampling, `stream`, `user`, `metadata`, `tool_choice`, `response_format`.
 */
import type { BodyReading } from './endpoint-table.ts';

export type PrefixRole = 'seed' | 'tools' | 'head' | 'body';

export interface PrefixMember {
  readonly key: string;
  readonly role: PrefixRole;
  /** Its place in canonical order. */
  readonly order: number;
}

/** The prompt members of one kind of body, in canonical order. */
export interface PrefixMembers {
  readonly byKey: ReadonlyMap<string, PrefixMember>;
  readonly count: number;
}

const adapters = ['lora', 'lora_adapter', 'lora_path', 'adapter_id'];
const salts = ['cache_salt', 'extra_key'];
const templateInputs = [
  'chat_template',
  'chat_template_kwargs',
  'add_generation_prompt',
  'continue_final_message',
  'add_special_tokens',
  'reasoning_effort',
  'reasoning',
  'thinking',
  'enable_thinking',
  'mm_processor_kwargs',
  'truncate_prompt_tokens',
];
const seed = [...adapters, ...salts, ...templateInputs];

function members(roles: Readonly<Partial<Record<PrefixRole, readonly string[]>>>): PrefixMembers {
  const ordered = [
    ...[...seed, ...(roles.seed ?? [])].map((key) => ({ key, role: 'seed' as const })),
    ...(roles.tools ?? []).map((key) => ({ key, role: 'tools' as const })),
    ...(roles.head ?? []).map((key) => ({ key, role: 'head' as const })),
    ...(roles.body ?? []).map((key) => ({ key, role: 'body' as const })),
  ].map((member, order) => ({ ...member, order }));
  return { byKey: new Map(ordered.map((member) => [member.key, member])), count: ordered.length };
}

const tools = ['tools', 'functions'];
const prompt = ['prompt_embeds', 'prompt', 'suffix'];
const chat = members({ tools, head: ['system_prompt', 'documents'], body: ['messages', 'input'] });

const byReading: Readonly<Partial<Record<BodyReading, PrefixMembers>>> = {
  chat,
  chat_batch: chat,
  completions: members({ body: prompt }),
  invocations: members({ tools, head: ['documents'], body: ['messages', ...prompt] }),
  native: members({
    body: [
      // llama-server's /infill: other files first, then the text before the gap with `prompt` at its end, then the text behind it.
      'input_extra',
      'input_prefix',
      'image_data',
      'prompt',
      'input_suffix',
      // TGI, SGLang, vLLM's token route, Vertex.
      'inputs',
      'text',
      'input_ids',
      'token_ids',
      'instances',
    ],
  }),
  // What they refer to is rendered first, and is kept where it began.
  responses: members({
    seed: ['previous_response_id', 'conversation'],
    tools,
    head: ['instructions'],
    body: ['input'],
  }),
  messages: members({ tools, head: ['system'], body: ['messages'] }),
  ollama: members({
    seed: ['think', 'template', 'raw'],
    tools,
    head: ['system'],
    body: ['context', 'images', 'messages', 'prompt', 'suffix'],
  }),
};

/** Undefined for a body that holds no prompt. */
export function prefixMembers(reading: BodyReading): PrefixMembers | undefined {
  return byReading[reading];
}

/** Of all kinds together. */
export const prefixKeys: ReadonlySet<string> = new Set(
  Object.values(byReading).flatMap(({ byKey }) => [...byKey.keys()]),
);
