import { describe, expect, it } from 'vitest';
import { applyEdits } from '../../../src/classify/edit-body.ts';
import { jobOf } from '../../support/classified.ts';

const usageOf = (body: string, line = 'POST /v1/chat/completions') => jobOf({ body, line }).usage;

/** The body after its usage edit. */
function spliced(body: string): string | undefined {
  const { edit } = usageOf(body);
  return edit && Buffer.concat(applyEdits([Buffer.from(body)], [edit]).chunks).toString();
}

describe('C032 the splice that asks for usage', () => {
  it.each([
    ['{"stream":true}', '{"stream_options":{"include_usage":true},"stream":true}'],
    [' { "stream" : true }\n', ' {"stream_options":{"include_usage":true}, "stream" : true }\n'],
    ['{"stream":true,"stream_options":null}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream":true,"stream_options":{}}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ['{"stream_options": { "x":1 },"stream":true}', '{"stream_options": {"include_usage":true, "x":1 },"stream":true}'],
    [
      '{"stream_options":{"include_usage":false},"stream":true}',
      '{"stream_options":{"include_usage":true},"stream":true}',
    ],
    [
      '{"stream_options":{"a":[],"include\\u005fusage" : null},"stream":true}',
      '{"stream_options":{"a":[],"include\\u005fusage" : true},"stream":true}',
    ],
    [
      '{"stream_options":{"continuous_usage_stats":false},"stream":true}',
      '{"stream_options":{"include_usage":true,"continuous_usage_stats":false},"stream":true}',
    ],
  ])('makes of %j %j', (body, expected) => {
    expect(spliced(body)).toBe(expected);
    expect(usageOf(body).byClient).toBe(false);
  });

  it('is not made when the client asked itself', () => {
    expect(usageOf('{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}')).toEqual({
      byClient: true,
    });
    expect(usageOf('{"stream":false,"stream_options":{"include_usage":true}}')).toEqual({ byClient: true });
  });

  it.each([
    '{"stream":true,"stream_options":[]}',
    '{"stream":true,"stream_options":true}',
    '{"stream":true,"stream_options":"{}"}',
    '{"stream":true,"stream_options":{"include_usage":"false"}}',
    '{"stream":true,"stream_options":{"include_usage":0}}',
    `{"stream":true,"stream_options":{"x":"${'y'.repeat(20_000)}"}}`,
    '{"stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true}}',
  ])(
    'is not made where the options are malformed, too large, or would change more than the last event: %.80s',
    (body) => {
      expect(usageOf(body)).toEqual({ byClient: false });
    },
  );

  it.each(['{}', '{"stream":false}', '{"stream":1}', '{"stream":"true"}', '{"stream":null}'])(
    'is not made without a literal true: %s',
    (body) => {
      expect(usageOf(body)).toEqual({ byClient: false });
    },
  );

  it.each([
    '/v1/responses',
    '/v1/messages',
    '/completion',
    '/api/chat',
    '/cohere/v2/chat',
    '/v1/embeddings',
    '/v1/images/generations',
  ])('is not made for %s, which reports by itself or has no such option', (path) => {
    expect(usageOf('{"stream":true,"stream_options":null}', `POST ${path}`)).toEqual({ byClient: false });
  });

  it('says when options stood there without a word on usage, which vLLM takes for yes', () => {
    expect(usageOf('{"stream":true,"stream_options":{}}').unstated).toBe(true);
    expect(usageOf('{"stream":true,"stream_options":{"continuous_usage_stats":true}}')).toEqual({
      byClient: false,
      unstated: true,
    });
    expect(usageOf('{"stream":true}')).not.toHaveProperty('unstated');
    expect(usageOf('{"stream":true,"stream_options":null}')).not.toHaveProperty('unstated');
  });
});
