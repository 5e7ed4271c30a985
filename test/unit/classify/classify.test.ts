import { describe, expect, it } from 'vitest';
import { controlKeys } from '../../../src/classify/settings.ts';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { classified, jobOf } from '../../support/classified.ts';

describe('a streamed chat', () => {
  it('becomes a job that holds what it asks for, and none of its text', () => {
    const body = '{"model":"m","stream":true,"max_tokens":50,"n":2,"messages":[{"role":"user","content":"secret"}]}';
    const job = jobOf({ line: 'POST /v1/chat/completions?x=1', body });
    expect(job).toEqual({
      requestId: 'r1',
      endpoint: 'chat',
      method: 'POST',
      target: '/v1/chat/completions?x=1',
      format: 'chat',
      generates: true,
      stream: true,
      choices: 2,
      maxOutputTokens: 50,
      model: 'm',
      modelSpan: { start: 9, end: 12 },
      priorityPlace: { kind: 'first', start: 1, end: 1 },
      bodyBytes: body.length,
      readable: true,
      lane: 'online',
      usage: { byClient: false, edit: { start: 1, end: 1, text: '"stream_options":{"include_usage":true},' } },
      firstMember: { at: 1, empty: false },
      measured: true,
      repeatable: 'on_request',
    });
    expect(JSON.stringify(job)).not.toContain('secret');
  });
});

describe('a repeated key', () => {
  it.each(['model', 'stream', 'stream_options', 'n', 'max_tokens', 'max_completion_tokens', 'n_predict'])(
    'C112 %s is refused by name',
    (key) => {
      expect(classified({ body: `{"${key}":1,"a":0,"${key}":1}` })).toMatchObject({
        code: 'duplicate_key',
        status: 400,
        param: key,
        spokenBy: 'warmlane',
        outcome: 'client_error',
      });
    },
  );

  it('C112 hidden by an escape is refused as well', () => {
    expect(classified({ body: '{"stream":false,"str\\u0065am":true}' })).toMatchObject({
      code: 'duplicate_key',
      param: 'stream',
    });
    expect(
      classified({ body: '{"stream":true,"stream_options":{"include_usage":true,"include\\u005fusage":false}}' }),
    ).toMatchObject({
      code: 'duplicate_key',
      param: 'stream_options.include_usage',
    });
  });

  it('C112 that differs only in case is refused as well', () => {
    expect(classified({ line: 'POST /api/chat', body: '{"model":"a","Model":"b"}' })).toMatchObject({ param: 'model' });
  });

  it('that means nothing on this endpoint passes', () => {
    expect(jobOf({ body: '{"x":1,"x":2,"previous_response_id":"a","previous_response_id":"b"}' }).readable).toBe(true);
    expect(
      classified({ line: 'POST /v1/responses', body: '{"previous_response_id":"a","previous_response_id":"b"}' }),
    ).toMatchObject({
      param: 'previous_response_id',
    });
    expect(classified({ line: 'POST /v1/completions', body: '{"prompt":"a","prompt":["b","c"]}' })).toMatchObject({
      param: 'prompt',
    });
    expect(jobOf({ line: 'POST /v1/embeddings', body: '{"stream":1,"stream":2}' }).stream).toBe(false);
  });

  it('in a form is refused', () => {
    const part = '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n';
    const asked = {
      line: 'POST /v1/audio/transcriptions',
      body: `${part}${part}--b--`,
      contentType: 'multipart/form-data; boundary=b',
    };
    expect(classified(asked)).toMatchObject({ code: 'duplicate_key', param: 'model' });
  });
});

describe('a body that is not one JSON object', () => {
  it('is forwarded with nothing known of it, R24 bad JSON included', () => {
    for (const body of ['{"model":"m","model":"n"', '[{"model":"m"}]', '\ufeff{"model":"m"}', '{"model":"m"} {}']) {
      const job = jobOf({ body });
      expect(job).toMatchObject({
        readable: false,
        generates: true,
        stream: false,
        choices: 1,
        usage: { byClient: false },
      });
      expect(job).not.toHaveProperty('model');
    }
  });

  it('C114 nested 20,000 levels deep is read all the same', () => {
    const body = `{"model":"m","tools":[{"function":{"parameters":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}}}]}`;
    expect(jobOf({ body })).toMatchObject({ readable: true, model: 'm' });
  });

  it('C109 with lone surrogates is read all the same', () => {
    expect(jobOf({ body: '{"model":"m\\ud83d","messages":[{"content":"x\\udc00"}]}' }).model).toBe('m\ud83d');
  });
});

describe('the model', () => {
  it.each([
    ['too long', `"${'x'.repeat(513)}"`],
    ['100 KB long', `"${'x'.repeat(100_000)}"`],
    ['a number', '42'],
    ['an object', '{"a":1}'],
    ['null', 'null'],
    ['empty', '""'],
    ['malformed', '"a\\x"'],
  ])('C190 that is %s counts as none, and the request goes on', (_, value) => {
    const job = jobOf({ body: `{"model":${value},"stream":true}` });
    expect(job).toMatchObject({ readable: true, stream: true });
    expect(job).not.toHaveProperty('model');
    expect(job).not.toHaveProperty('modelSpan');
  });

  it('C190 of 512 escaped characters is still a name', () => {
    expect(jobOf({ body: `{"model":"${'\\u00e9'.repeat(512)}"}` }).model).toBe('é'.repeat(512));
  });

  it('may stand in the query of a GET, or in the path', () => {
    expect(jobOf({ line: 'GET /props?model=a' }).model).toBe('a');
    expect(jobOf({ line: 'GET /v1/models/org/m' }).model).toBe('org/m');
    expect(jobOf({ line: 'POST /v1/chat/completions?model=a', body: '{}' })).not.toHaveProperty('model');
  });

  it('of an unknown route is read, so that it goes where it is served', () => {
    expect(jobOf({ line: 'POST /v1/images/generations', body: '{"model":"sd"}' })).toMatchObject({
      endpoint: 'other',
      model: 'sd',
    });
  });
});

describe('a form', () => {
  const contentType = 'multipart/form-data; boundary="--x\\"y"';
  const part = (name: string, value: string) =>
    `----x"y\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const file = '----x"y\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n\0\r\n--\r\n';

  it('C118 is routed by its model part', () => {
    const body = `${part('model', 'whisper')}${part('stream', 'true')}${file}----x"y--\r\n`;
    const job = jobOf({ line: 'POST /v1/audio/transcriptions', body, contentType });
    expect(job).toMatchObject({ endpoint: 'audio', model: 'whisper', stream: true, modelSpan: { raw: true } });
    expect(body.slice(job.modelSpan?.start, job.modelSpan?.end)).toBe('whisper');
  });

  it('C119 whose file comes first says that a model may still follow', () => {
    const early = jobOf({ line: 'POST /v1/audio/transcriptions', body: file, contentType });
    expect(early).toMatchObject({ modelUnread: true });
    expect(early).not.toHaveProperty('model');
    const whole = jobOf({ line: 'POST /v1/audio/transcriptions', body: `${file}----x"y--`, contentType });
    expect(whole).not.toHaveProperty('modelUnread');
  });
});

describe('a streamed answer', () => {
  it('is asked for by a literal true alone', () => {
    const asked = (value: string) => jobOf({ body: `{"stream":${value}}` }).stream;
    expect(['true', 'false', '1', '"true"', 'null', '[true]'].map(asked)).toEqual([
      true,
      false,
      false,
      false,
      false,
      false,
    ]);
  });

  it('is what Ollama gives unless refused', () => {
    for (const line of ['POST /api/chat', 'POST /api/generate']) {
      const bodies = ['{"model":"m"}', '{"stream":null}', '{"stream":true}', '{"stream":false}', 'not JSON'];
      expect(bodies.map((body) => jobOf({ line, body }).stream)).toEqual([true, true, true, false, false]);
    }
  });

  it('is what /generate_stream always gives, and a stored response when its query asks', () => {
    expect(jobOf({ line: 'POST /generate_stream', body: '{"inputs":"x"}' }).stream).toBe(true);
    expect(jobOf({ line: 'GET /v1/responses/r?stream=true' })).toMatchObject({ stream: true, generates: false });
    expect(jobOf({ line: 'GET /v1/responses/r' }).stream).toBe(false);
  });
});

describe('a closed route', () => {
  it('is refused with the config key that opens it', () => {
    const refusal = classified({ line: 'POST /v1/load_lora_adapter', body: '{}' });
    expect(refusal).toMatchObject({ code: 'route_closed', status: 403, outcome: 'client_error' });
    expect(isRefusal(refusal) && refusal.message).toContain('routes.open: [lora]');
  });

  it('passes once its own key is open, and no other one', () => {
    expect(jobOf({ line: 'POST /sleep?level=1', settings: { openRoutes: ['sleep'] } })).toMatchObject({
      endpoint: 'control',
      generates: false,
      measured: false,
    });
    const others = controlKeys.filter((key) => key !== 'sleep');
    expect(classified({ line: 'POST /sleep', settings: { openRoutes: others } })).toMatchObject({
      code: 'route_closed',
    });
  });
});

describe('/invocations', () => {
  it('R26 generates, in the format that its body shows', () => {
    const formatOf = (body: string) => jobOf({ line: 'POST /invocations', body });
    expect(formatOf('{"messages":[],"stream":true}')).toMatchObject({
      endpoint: 'chat',
      format: 'chat',
      generates: true,
      usage: { edit: { start: 1 } },
    });
    expect(formatOf('{"prompt":["a","b"]}')).toMatchObject({
      endpoint: 'completions',
      format: 'completions',
      generates: true,
      choices: 2,
    });
    expect(formatOf('{"input":"x"}')).toMatchObject({ endpoint: 'other', format: 'unknown', generates: true });
  });
});

describe('what one backend keeps', () => {
  it('is named by the path, the body, the query or the header', () => {
    const sticky = (line: string, body = '', headers = {}) => jobOf({ line, body, headers }).stickyKey;
    expect(sticky('POST /v1/responses/resp_1/cancel')).toBe('resp_1');
    expect(sticky('POST /v1/responses', '{"previous_response_id":"resp_2","conversation":"c"}')).toBe('resp_2');
    expect(sticky('POST /v1/responses', '{"previous_response_id":null,"conversation":"conv_1"}')).toBe('conv_1');
    expect(sticky('POST /v1/responses', '{"conversation":{"id":"conv_2"}}')).toBe('conv_2');
    expect(sticky('GET /v1/stream?conv_id=c3&from=0')).toBe('c3');
    expect(sticky('POST /v1/chat/completions', '{}', { 'x-conversation-id': 'c4' })).toBe('c4');
  });

  it('is every id in path, body and query, where the header may begin one', () => {
    const refers = (line: string, body = '', headers = {}) => jobOf({ line, body, headers }).refersTo;
    const conversation = { 'x-conversation-id': 'c' };
    expect(
      refers('POST /v1/responses', '{"previous_response_id":"r","conversation":{"id":"k"}}', conversation),
    ).toEqual(['r', 'k']);
    expect(refers('GET /v1/responses/r?conv_id=k&conv_id=l')).toEqual(['r', 'k', 'l']);
    expect(refers('POST /v1/chat/completions/control', '{"id":"c1"}')).toEqual(['c1']);
    expect(refers('POST /v1/chat/completions', '{"previous_response_id":"r"}', conversation)).toBeUndefined();
  });

  it.each([
    ['an id that is too long', `{"previous_response_id":"${'x'.repeat(513)}"}`],
    ['an id that is no string of JSON', '{"previous_response_id":"\\x"}'],
    ['an object that is too long', `{"conversation":{"a":"${'x'.repeat(20_000)}","id":"k"}}`],
    ['JSON in another encoding', Buffer.from('{"previous_response_id":"r"}', 'utf16le').toString('latin1')],
  ])('counts as referred to, unread, where there is %s', (_, body) => {
    expect(jobOf({ line: 'POST /v1/responses', body }).refersTo).toEqual(['']);
  });

  it.each([
    'GET /v1//responses/r',
    'GET /v1/%2572esponses/r',
    'GET /openai/v1/responses/r/input_items',
    'GET /responses/r',
    'GET /chat/completions/r',
  ])('is in the path by another spelling: %s', (line) => {
    expect(jobOf({ line }).refersTo).toEqual(['r']);
  });

  it('is nothing when the name is none', () => {
    expect(
      jobOf({ line: 'POST /v1/responses', body: `{"previous_response_id":"${'x'.repeat(513)}"}` }),
    ).not.toHaveProperty('stickyKey');
    expect(jobOf({ line: 'POST /v1/responses', body: '{"conversation":{"id":7}}' })).not.toHaveProperty('stickyKey');
    expect(jobOf({ body: '{"previous_response_id":"r"}' })).not.toHaveProperty('stickyKey');
  });
});
