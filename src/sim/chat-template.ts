/**
 * Turns what a client sends into the one text that a model would read. The form is ChatML, as many small models have it; a tool list
 * comes first, since templates put it at the beginning. Only strings; unknown shapes become their JSON.
 */

export interface ChatTurn {
  readonly role: string;
  readonly content: string;
}

export const endMark = '<|im_end|>';

/** @param tools as sent, or undefined */
export function renderChat(turns: readonly ChatTurn[], tools: unknown): string {
  const head =
    Array.isArray(tools) && tools.length > 0 ? `<|im_start|>tools\n${JSON.stringify(tools)}${endMark}\n` : '';
  return `${head}${turns.map((turn) => `<|im_start|>${turn.role}\n${turn.content}${endMark}\n`).join('')}<|im_start|>assistant\n`;
}

/** Text of a message's content: a string, or parts of which texts are taken and the rest is named. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.map(partText).join('');
}

function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (typeof part !== 'object' || part === null) return '';
  if ('text' in part && typeof part.text === 'string') return part.text;
  return `<|media|>${JSON.stringify(part)}`;
}

/** The turns of a `messages` list; undefined when it isn't one. */
export function readTurns(messages: unknown): ChatTurn[] | undefined {
  if (!Array.isArray(messages)) return undefined;
  const turns: ChatTurn[] = [];
  const entries: readonly unknown[] = messages;
  for (const message of entries) {
    if (typeof message !== 'object' || message === null || !('role' in message) || typeof message.role !== 'string')
      return undefined;
    const calls = 'tool_calls' in message && message.tool_calls !== null ? JSON.stringify(message.tool_calls) : '';
    turns.push({ role: message.role, content: `${'content' in message ? contentText(message.content) : ''}${calls}` });
  }
  return turns;
}
