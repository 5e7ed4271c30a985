import { describe, expect, it } from 'vitest';

import { hostPort, isLoopback, isOwnAddress, parseBackendUrl, parseListen } from '../../../src/config/address.ts';

describe('parseListen', () => {
  it.each([
    ['127.0.0.1:8484', { host: '127.0.0.1', port: 8484 }],
    ['localhost:80', { host: 'localhost', port: 80 }],
    ['gpu-1.example.net:8484', { host: 'gpu-1.example.net', port: 8484 }],
    ['[::1]:8484', { host: '::1', port: 8484 }],
    ['[::]:0', { host: '::', port: 0 }],
    [':8484', { host: '0.0.0.0', port: 8484 }],
    ['*:8484', { host: '0.0.0.0', port: 8484 }],
    ['8484', { host: '127.0.0.1', port: 8484 }],
    [8484, { host: '127.0.0.1', port: 8484 }],
    [0, { host: '127.0.0.1', port: 0 }],
  ])('takes %s', (written, value) => {
    expect(parseListen(written)).toEqual({ ok: true, value });
  });

  it.each([
    ['127.0.0.1', 'port is missing'],
    ['127.0.0.1:', 'port is missing'],
    ['', 'port is missing'],
    ['host:65536', '0 (any free one) to 65535'],
    ['host:-1', 'port'],
    ['host:80x', 'port'],
    [1.5, 'port'],
    [-1, 'port'],
    [70_000, '65535'],
    ['::1:8484', 'brackets'],
    ['::1', 'brackets'],
    ['[127.0.0.1]:80', 'no IPv6'],
    ['300.1.1.1:80', 'host'],
    ['a b:80', 'host'],
    ['http://127.0.0.1:8484', 'no scheme'],
  ])('refuses %s and says why', (written, words) => {
    const parsed = parseListen(written);
    expect(parsed.ok).toBe(false);
    expect(parsed.ok ? '' : parsed.message).toContain(words);
  });
});

describe('parseBackendUrl', () => {
  it.each([
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000'],
    ['http://127.0.0.1:8000/', 'http://127.0.0.1:8000'],
    ['HTTPS://GPU.example.net', 'https://gpu.example.net'],
    ['https://gpu.example.net:443/vllm//', 'https://gpu.example.net/vllm'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://h/a@b', 'http://h/a@b'],
  ])('takes %s', (text, value) => {
    expect(parseBackendUrl(text)).toEqual({ ok: true, value });
  });

  it.each([
    ['127.0.0.1:8000', 'begin with http://'],
    ['localhost:8000', 'begin with http://'],
    ['127.0.0.1:8000', 'write http://127.0.0.1:8000'],
    ['[::1]:8000', 'write http://[::1]:8000'],
    ['gpu-2:8000/v1', 'write http://gpu-2:8000'],
    ['user:hunter2@h:80', 'begin with http://'],
    ['//h', 'begin with http://'],
    ['ftp://h', 'not ftp'],
    ['http://', 'no URL'],
    ['http://h:99999', 'no URL'],
    ['http://user@h', 'no user or password'],
    ['http://@h', 'no user or password'],
    ['http://user:hunter2@h', 'no user or password'],
    ['http://h/?', 'no query'],
    ['http://h?a=1', 'no query'],
    ['http://h/#', 'no fragment'],
    [' http://h', 'no blanks'],
    ['http://h/a\nb', 'no blanks'],
    ['http://h/v1', 'leave /v1 off'],
    ['http://h/api/v1/', 'leave /v1 off'],
    ['http://h/v1/chat/completions', 'leave /v1/chat/completions off'],
    ['http://h/llm/v1/models/', 'leave /v1/models off'],
    ['http://h/chat/completions', 'leave /chat/completions off'],
    ['http://h/api/chat', 'leave /api/chat off'],
    ['http://h/health', 'leave /health off'],
  ])('refuses %j and says why, without repeating it', (text, words) => {
    const parsed = parseBackendUrl(text);
    expect(parsed.ok).toBe(false);
    expect(parsed.ok ? '' : parsed.message).toContain(words);
    expect(parsed.ok ? '' : parsed.message).not.toContain('hunter2');
  });

  it('names a backend by host and port, the usual ports spelled out', () => {
    expect(hostPort('http://h')).toBe('h:80');
    expect(hostPort('https://h/x')).toBe('h:443');
    expect(hostPort('http://[::1]:8000')).toBe('[::1]:8000');
  });
});

describe('isOwnAddress', () => {
  it.each([
    ['http://127.0.0.1:8484', '127.0.0.1'],
    ['http://127.0.0.1:8484/vllm', '0.0.0.0'],
    ['http://localhost:8484', '127.0.0.1'],
    ['http://127.0.0.1:8484', 'localhost'],
    ['http://[::1]:8484', '::1'],
    ['http://127.0.0.1:8484', '::'],
    ['http://GPU.example.net:8484', 'gpu.example.net'],
  ])('%s is where %s listens', (url, host) => {
    expect(isOwnAddress(url, { host, port: 8484 })).toBe(true);
    expect(isOwnAddress(url, { host, port: 8485 })).toBe(false);
  });

  it.each([
    ['http://10.0.0.5:8484', '0.0.0.0'],
    ['http://127.0.0.2:8484', '127.0.0.1'],
    ['http://[::1]:8484', '127.0.0.1'],
    ['http://[::1]:8484', '0.0.0.0'],
    ['http://127.0.0.1:8484', '10.0.0.5'],
  ])('%s may be somebody else when %s is listened on', (url, host) => {
    expect(isOwnAddress(url, { host, port: 8484 })).toBe(false);
  });
});

it('isLoopback knows the addresses that only this machine reaches', () => {
  expect(['127.0.0.1', '127.9.9.9', '::1', 'localhost'].filter(isLoopback)).toHaveLength(4);
  expect(['0.0.0.0', '::', '10.0.0.1', '127.example.net', ''].filter(isLoopback)).toHaveLength(0);
});
