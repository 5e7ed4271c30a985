import { describe, expect, it } from 'vitest';
import { jobOf } from '../../support/classified.ts';

const session = (body: object, headers: Record<string, string> = {}, line = 'POST /v1/chat/completions') =>
  jobOf({ line, headers, body: JSON.stringify({ model: 'm', messages: [], ...body }) }).session;
const anthropic = 'POST /v1/messages';

describe('the session of a request', () => {
  it('is what the body calls its cache key, then a header, then the user', () => {
    const all = { prompt_cache_key: 'k', user: 'u', metadata: { user_id: 'm' } };
    expect(session(all, { 'x-session-id': 'h' }, anthropic)).toBe('key:k');
    expect(session({ ...all, prompt_cache_key: '' }, { 'x-session-id': ' h ' }, anthropic)).toBe('header:h');
    expect(session({ user: 'u', metadata: { user_id: 'm' } }, {}, anthropic)).toBe('user:u');
    expect(session({ metadata: { user_id: 'm' } }, {}, anthropic)).toBe('user:m');
    expect(session({})).toBeUndefined();
  });

  it('is not read of the metadata in other formats, where it is free text', () => {
    expect(session({ metadata: { user_id: 'm' } })).toBeUndefined();
  });

  it('is absent where the value is no text or longer than it may be', () => {
    expect(session({ user: 7, prompt_cache_key: null })).toBeUndefined();
    expect(session({ user: 'x'.repeat(251) })).toHaveLength(256);
    expect(session({ user: 'x'.repeat(252) })).toBeUndefined();
  });

  it('is looked for in the headers that the settings name, in their order', () => {
    const settings = { sessionHeaders: ['x-chat', 'x-thread'] };
    const named = (headers: Record<string, string>) => jobOf({ body: '{"messages":[]}', headers, settings }).session;
    expect(named({ 'x-thread': 't', 'x-session-id': 's' })).toBe('header:t');
    expect(named({ 'x-thread': 't', 'x-chat': 'c' })).toBe('header:c');
  });

  it('is not read where nothing is generated', () => {
    expect(session({ user: 'u' }, {}, 'POST /v1/embeddings')).toBeUndefined();
  });
});
