import { describe, expect, it } from 'vitest';
import { contentText, readTurns, renderChat } from '../../../src/sim/chat-template.ts';

describe('chat template', () => {
  it('makes each turn extend the text of the turns before', () => {
    const turns = [{ role: 'user', content: 'hi' }];
    const first = renderChat(turns, undefined);
    const next = renderChat(
      [...turns, { role: 'assistant', content: 'yes' }, { role: 'user', content: 'more' }],
      undefined,
    );
    expect(next.startsWith(`${first}yes<|im_end|>`)).toBe(true);
  });

  it('puts tools at the beginning, and takes the texts out of parts', () => {
    expect(renderChat([], [{ name: 'f' }])).toBe(
      '<|im_start|>tools\n[{"name":"f"}]<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(
      contentText([
        { type: 'text', text: 'look: ' },
        { type: 'image_url', image_url: { url: 'u' } },
      ]),
    ).toBe('look: <|media|>{"type":"image_url","image_url":{"url":"u"}}');
  });

  it('takes only lists of messages for turns', () => {
    expect(readTurns('hi')).toBeUndefined();
    expect(readTurns([{ content: 'no role' }])).toBeUndefined();
    expect(readTurns([{ role: 'user' }])).toEqual([{ role: 'user', content: '' }]);
  });
});
