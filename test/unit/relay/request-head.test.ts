import { describe, expect, it } from 'vitest';
import type { ClientHead } from '../../../src/platform/client-port.ts';
import { connectionNames, isLoop, upstreamHeaders, type RequestHeadOptions } from '../../../src/relay/request-head.ts';

function clientHead(rawHeaders: readonly string[], over: Partial<ClientHead> = {}): ClientHead {
  return {
    requestId: 'id-1',
    method: 'POST',
    target: '/v1/chat/completions',
    httpVersion: '1.1',
    rawHeaders,
    header(name) {
      const at = rawHeaders.findIndex((each, i) => i % 2 === 0 && each.toLowerCase() === name);
      return at < 0 ? undefined : rawHeaders[at + 1];
    },
    remoteAddress: '192.0.2.7',
    secure: false,
    receivedMs: 1,
    ...over,
  };
}

function sent(
  rawHeaders: readonly string[],
  options: Partial<RequestHeadOptions> = {},
  over: Partial<ClientHead> = {},
): string[] {
  const headers = upstreamHeaders(clientHead(rawHeaders, over), {
    engine: 'vllm',
    measured: true,
    passConversationId: false,
    ...options,
  });
  return headers.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${headers[i + 1]}`] : []));
}

const own = [
  'X-Request-Id: id-1',
  'Via: 1.1 warmlane',
  'Forwarded: for=192.0.2.7;proto=http',
  'X-Forwarded-For: 192.0.2.7',
  'X-Forwarded-Proto: http',
];

describe('headers towards the backend', () => {
  it('keep order, case and repetition of what goes end to end, and warmlane’s own stand behind', () => {
    const raw = ['X-B', '2', 'x-a', '1', 'X-B', '3', 'User-Agent', 'curl/8', 'traceparent', '00-a-b-01'];
    expect(sent(raw)).toEqual(['X-B: 2', 'x-a: 1', 'X-B: 3', 'User-Agent: curl/8', 'traceparent: 00-a-b-01', ...own]);
  });

  it('carry the attempt’s own trace context where there is one, in place of all that the client sent', () => {
    const raw = ['TraceParent', '00-a-b-01', 'tracestate', 'x=1', 'X-B', '2', 'TRACESTATE', 'y=2', 'baggage', 'k=v'];
    const trace = { traceparent: '00-t-s-01', tracestate: 'x=1,y=2' };
    const rest = ['X-B: 2', 'baggage: k=v', 'traceparent: 00-t-s-01'];
    expect(sent(raw, { trace })).toEqual([...rest, 'tracestate: x=1,y=2', ...own]);
    expect(sent(raw, { trace: { traceparent: '00-t-s-01' } })).toEqual([...rest, ...own]);
  });

  it('tell vLLM whom to take first, whatever the client says', () => {
    const raw = ['x-vLLM-priority', '-5', 'X-B', '2'];
    expect(sent(raw, { lane: 'online' })).toContain('X-Vllm-Priority: 0');
    expect(sent(raw, { lane: 'batch' }).filter((line) => /priority/i.test(line))).toEqual(['X-Vllm-Priority: 10']);
  });

  it('tell other engines nothing of it, and keep the client’s own word from them', () => {
    for (const engine of ['llama-server', 'sglang', 'openai'] as const)
      expect(sent(['X-Vllm-Priority', '-5', 'X-B', '2'], { engine, lane: 'batch' })).toEqual(['X-B: 2', ...own]);
  });

  it('never hold the client’s own priority, also where engines are not told', () => {
    expect(sent(['X-Vllm-Priority', '-5'])).toEqual([...own]);
  });

  it('C102 lose the credentials that are warmlane’s, however they are written, and the backend’s key takes their place', () => {
    const raw = [
      'AUTHORIZATION',
      'Bearer k',
      'X-B',
      '2',
      'X-Api-Key',
      'k',
      'authorization',
      'Bearer l',
      'Cookie',
      'c=1',
    ];
    const dropped = new Set(['authorization', 'x-api-key', 'cookie']);
    expect(sent(raw, { dropped })).toEqual(['X-B: 2', ...own]);
    expect(sent(raw, { dropped, apiKey: 'ours' })).toEqual(['X-B: 2', ...own, 'Authorization: Bearer ours']);
  });

  it('lose what belongs to the client’s connection, by name or by its Connection header', () => {
    const raw = [
      'Connection',
      'keep-alive, X-Mine',
      'Keep-Alive',
      'timeout=5',
      'X-Mine',
      '1',
      'TE',
      'trailers',
      'Trailer',
      'x',
      'Upgrade',
      'h2c',
      'Proxy-Connection',
      'close',
      'Proxy-Authorization',
      'Basic eA==',
      'Transfer-Encoding',
      'chunked',
      'connection',
      'x-other',
      'X-Other',
      '2',
    ];
    expect(sent(raw)).toEqual(own);
    expect([...connectionNames(raw)]).toEqual(['keep-alive', 'x-mine', 'x-other']);
  });

  it('leave framing, Host and Expect to the upstream client', () => {
    const raw = ['Host', 'public.example', 'Content-Length', '5', 'Expect', '100-continue'];
    const headers = sent(raw);
    expect(headers.join('\n')).not.toMatch(/^(host|content-length|expect):/im);
    expect(headers).toContain('X-Forwarded-Host: public.example');
    expect(headers).toContain('Forwarded: for=192.0.2.7;proto=http;host="public.example"');
  });

  it('offer no encoding where the answer must be read, and the client’s where it isn’t', () => {
    const raw = ['Accept-Encoding', 'gzip, br'];
    expect(sent(raw)).toEqual(own);
    expect(sent(raw, { measured: false })).toEqual(['Accept-Encoding: gzip, br', ...own]);
  });

  it('hide the conversation from llama-server alone, where it would make aborted requests run on (decision 9)', () => {
    const raw = ['X-Conversation-Id', 'c1'];
    expect(sent(raw, { engine: 'llama-server' })).toEqual(own);
    expect(sent(raw, { engine: 'llama-server', passConversationId: true })).toEqual(['X-Conversation-Id: c1', ...own]);
    expect(sent(raw, { engine: 'vllm' })).toEqual(['X-Conversation-Id: c1', ...own]);
  });

  it('carry the one request id, whatever the client called it', () => {
    expect(sent(['X-Request-ID', 'theirs', 'x-request-id', 'twice'], {}, { requestId: 'kept' })).toContain(
      'X-Request-Id: kept',
    );
    expect(sent(['X-Request-ID', 'theirs']).filter((line) => /^x-request-id/i.test(line))).toEqual([
      'X-Request-Id: id-1',
    ]);
  });

  it('continue the chain of proxies before', () => {
    const raw = [
      'Via',
      '1.0 edge',
      'Forwarded',
      'for=198.51.100.1',
      'X-Forwarded-For',
      '198.51.100.1',
      'X-Forwarded-Proto',
      'https',
      'X-Forwarded-Host',
      'shop.example',
      'Host',
      'inner',
    ];
    expect(sent(raw)).toEqual([
      'X-Request-Id: id-1',
      'Via: 1.0 edge, 1.1 warmlane',
      'Forwarded: for=198.51.100.1, for=192.0.2.7;proto=http;host="inner"',
      'X-Forwarded-For: 198.51.100.1, 192.0.2.7',
      'X-Forwarded-Proto: https',
      'X-Forwarded-Host: shop.example',
    ]);
  });

  it('write an IPv6 address as RFC 7239 wants it, and say that TLS was spoken', () => {
    const headers = sent([], {}, { remoteAddress: '2001:db8::1', secure: true, httpVersion: '1.0' });
    expect(headers).toContain('Forwarded: for="[2001:db8::1]";proto=https');
    expect(headers).toContain('X-Forwarded-For: 2001:db8::1');
    expect(headers).toContain('X-Forwarded-Proto: https');
    expect(headers).toContain('Via: 1.0 warmlane');
  });

  it('let no quote out of a Host header', () => {
    expect(sent(['Host', 'a";for=evil\\'])).toContain('Forwarded: for=192.0.2.7;proto=http;host="a;for=evil"');
  });

  it('add the backend’s key only where the client brings no credentials', () => {
    expect(sent([], { apiKey: 'k1' })).toEqual([...own, 'Authorization: Bearer k1']);
    expect(sent(['Authorization', 'Bearer mine'], { apiKey: 'k1' })).toEqual(['Authorization: Bearer mine', ...own]);
    expect(sent(['x-api-key', 'mine'], { apiKey: 'k1' })).toEqual(['x-api-key: mine', ...own]);
  });
});

describe('a request that came by this proxy before', () => {
  const vias = (count: number) => Array.from({ length: count }, () => '1.1 warmlane').join(', ');

  it('is a loop after more passages than anybody wants', () => {
    expect(isLoop(undefined)).toBe(false);
    expect(isLoop(vias(8))).toBe(false);
    expect(isLoop(vias(9))).toBe(true);
  });

  it('is none by other proxies, however many', () => {
    expect(isLoop(Array.from({ length: 50 }, () => '1.1 other').join(', '))).toBe(false);
    expect(isLoop(`${vias(4)}, 1.1 other, ${vias(4)}`)).toBe(false);
  });
});
