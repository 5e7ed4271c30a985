import { describe, expect, it } from 'vitest';

import { configOf, problemsOf } from './load-text.ts';

describe('warmUp', () => {
  it('warms nothing and remembers nothing unless told to', () => {
    expect(configOf('').warmUp).toEqual({
      prompts: [],
      hottest: { enabled: false, count: 8, maxBytes: 8 * 1024 * 1024 },
      maxConcurrentPerFleet: 2,
      timeoutMs: 120_000,
    });
  });

  it('makes requests of prompts, as clients write them', () => {
    const { warmUp } = configOf(
      [
        'warmUp:',
        '  prompts:',
        '    - { model: m, messages: [{ role: system, content: "ü \\"x\\"" }] }',
        '    - { prompt: abc }',
        '    - { path: /v1/messages, body: \'{"system": "s", "messages": []}\' }',
        '    - { file: agent.json }',
      ].join('\n'),
      { beside: { 'agent.json': '{ "tools": [] }' } },
    );
    expect(warmUp.prompts).toEqual([
      {
        name: 'warmUp.prompts[0]',
        path: '/v1/chat/completions',
        body: '{"model":"m","messages":[{"role":"system","content":"ü \\"x\\""}]}',
      },
      { name: 'warmUp.prompts[1]', path: '/v1/completions', body: '{"prompt":"abc"}' },
      { name: 'warmUp.prompts[2]', path: '/v1/messages', body: '{"system": "s", "messages": []}' },
      { name: 'warmUp.prompts[3]', path: '/v1/chat/completions', body: '{ "tools": [] }' },
    ]);
  });

  it.each([
    ['none of them', '{ path: /x }', 'must have exactly one of messages, prompt, body, file'],
    ['two of them', '{ prompt: a, body: "{}" }', 'must have exactly one of messages, prompt, body, file'],
    ['a model beside a body', '{ model: m, body: "{}" }', 'must name its model in the body itself'],
    ['a body that is no JSON', '{ body: "nothing" }', 'body: it is no JSON'],
    ['a body that is no object', '{ body: "[1]" }', 'body: it holds no JSON object'],
    ['a file that is not there', '{ file: nowhere.json }', 'file: the file is not there'],
    ['a file that is no JSON', '{ file: text.json }', 'file: the file is no JSON'],
    ['a path without a slash', '{ prompt: a, path: v1 }', 'path: must be a path that begins with a slash'],
  ])('says what is wrong with %s, and never what it holds', (_what, prompt, message) => {
    const problems = problemsOf(`warmUp: { prompts: [${prompt}] }`, { beside: { 'text.json': 'secret text' } });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(message);
    expect(problems[0]).not.toContain('secret');
  });
});
