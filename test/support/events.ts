/** Events in the words of the bug cases: role chunk, text, finish, usage, end marker. */
export const sse = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;
const chunk = (choice: object, extra: object = {}) =>
  sse({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm1', choices: [choice], ...extra });

export const delta = (fields: object, index = 0): string => chunk({ index, delta: fields, finish_reason: null });
export const role = (index = 0): string => delta({ role: 'assistant', content: '' }, index);
export const text = (content: string, index = 0): string => delta({ content }, index);
export const finish = (reason: string, index = 0): string => chunk({ index, delta: {}, finish_reason: reason });
export const usage = (prompt: number, completion: number, more: object = {}): string =>
  sse({
    id: 'chatcmpl-1',
    model: 'm1',
    choices: [],
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion, ...more },
  });
export const done = 'data: [DONE]\n\n';
