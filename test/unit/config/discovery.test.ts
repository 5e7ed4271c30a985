/** Where backends come from beside the list in the config, and lists of them that come from elsewhere. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type BackendsRead, readBackend, readBackendsFile } from '../../../src/config/discovery.ts';
import { problemText } from '../../../src/config/problem.ts';
import { certificatePem } from './certificate.ts';
import { configOf, problemsOf } from './load-text.ts';

const folder = mkdtempSync(join(tmpdir(), 'warmlane-backends-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const around = { env: { KEY: 'sk-secret' }, own: [{ host: '127.0.0.1', port: 8484 }] };

function readFile(content: string) {
  const path = join(folder, 'b.yaml');
  writeFileSync(path, content);
  return told(readBackendsFile(path, around));
}

const posted = (value: unknown) => told(readBackend(value, around));

/** What was read, and what was wrong as one text. */
function told(read: BackendsRead): { readonly backends: unknown; readonly wrong: string } {
  if (read.ok) return { backends: read.backends, wrong: '' };
  const wrong = read.problems.map((one) => problemText(one).replaceAll(`${folder}/`, '')).join('\n');
  return { backends: undefined, wrong };
}

describe('discovery in the config', () => {
  it('has nothing unless it is asked for, and a breaker that is on', () => {
    const config = configOf('');
    expect(config.discovery).toEqual({ dns: [] });
    expect(config.fleet.breaker).toMatchObject({ enabled: true, failures: 5, share: 0.5, minRequests: 20 });
  });

  it('takes names with what holds for each of their backends, and a file beside the config', () => {
    const config = configOf(
      `discovery:
  dns:
    - { name: llm.svc, port: 8000, engine: vllm, weight: 2, labels: { zone: a }, apiKey: "\${env:KEY}" }
    - { name: _http._tcp.llm, scheme: https, intervalMs: 2000, family: both, path: /v, tls: { caFile: ca.pem } }
  file: { path: more.yaml }`,
      { env: { KEY: 'k' }, beside: { 'ca.pem': certificatePem } },
    );
    expect(config.discovery.dns).toEqual([
      {
        name: 'llm.svc',
        port: 8000,
        scheme: 'http',
        path: '',
        intervalMs: 10_000,
        family: 'auto',
        each: { engine: 'vllm', weight: 2, labels: { zone: 'a' }, apiKey: 'k' },
      },
      {
        name: '_http._tcp.llm',
        scheme: 'https',
        path: '/v',
        intervalMs: 2000,
        family: 'both',
        each: { tls: { verify: true, ca: certificatePem } },
      },
    ]);
    expect(config.discovery.file?.path).toMatch(/^\/.*\/more\.yaml$/);
  });

  it.each([
    ['dns: [{ name: "http://x" }]', 'discovery.dns[0].name: must be a host name'],
    ['dns: [{ name: a, intervalMs: 100 }]', 'intervalMs: must be a whole number of milliseconds from 1000'],
    ['dns: [{ name: _x._tcp.a, port: 1 }]', 'port: has no use with an SRV record'],
    ['dns: [{ name: a, tls: { verify: false } }]', 'tls: has no use with scheme http'],
    ['dns: [{ name: a }, { name: A }]', 'dns: must name each host once'],
    ['dns: [{ name: a, path: v1/ }]', 'path: must begin with a slash'],
    ['dns: [{ name: a, weight: 0 }]', 'weight: must be a number of shares above 0'],
    ['dns: [{ name: a, url: "http://x" }]', 'url: unknown key'],
    ['file: x', 'discovery.file: must be a map of keys; write { path: … }'],
  ])('%s is wrong: %s', (text, message) => {
    expect(problemsOf(`discovery: { ${text} }`).join()).toContain(message);
  });

  it('a backend has weight, labels and drain', () => {
    const [one] = configOf('backends: [{ url: "http://h", weight: 0.5, labels: { rack: r1 }, drain: true }]').fleet
      .backends;
    expect(one).toEqual({ name: 'h:80', url: 'http://h', weight: 0.5, labels: { rack: 'r1' }, drain: true });
    const many = Array.from({ length: 17 }, (_, i) => `l${i}: x`).join(', ');
    expect(problemsOf(`backends: [{ url: "http://h", labels: { ${many} } }]`).join()).toContain('at most 16 labels');
  });
});

describe('a file of backends', () => {
  it('is a list, or a map with one, in YAML or JSON', () => {
    const expected = [{ settings: { name: 'a', url: 'http://a:1' } }, { settings: { name: 'b:2', url: 'http://b:2' } }];
    expect(readFile('- { url: "http://a:1", name: a }\n- url: http://b:2\n').backends).toEqual(expected);
    expect(readFile('{"backends": [{"url": "http://a:1", "name": "a"}, {"url": "http://b:2"}]}').backends).toEqual(
      expected,
    );
    expect(readFile('[]').backends).toEqual([]);
  });

  it('brings keys by the environment, and what the accounts want to know', () => {
    expect(
      readFile('- { url: "http://a", apiKey: "${env:KEY}", hardware: { gpu: l4 }, cache: { blockTokens: 16 } }')
        .backends,
    ).toEqual([
      {
        settings: { name: 'a:80', url: 'http://a', apiKey: 'sk-secret' },
        extra: { hardware: { gpu: 'l4' }, cache: { blockTokens: 16 } },
      },
    ]);
  });

  it.each([
    ['', 'b.yaml: there is no list in it'],
    ['x: 1', 'b.yaml: there is no list in it'],
    ['- url: http://a\n  name: "a b"\n', 'b.yaml:2:9 backends[0].name: must be 1 to 64 letters'],
    ['- url: http://a\n- url: http://a\n', 'b.yaml:2:3 backends[1]: the same URL twice'],
    ['- url: ftp://a\n', 'backends[0].url: the scheme must be http or https'],
    ['- urk: http://a\n', 'backends[0].urk: unknown key; did you mean "url"?'],
    ['- url: http://127.0.0.1:8484\n', "backends[0].url: this is warmlane's own address"],
    ['- { url: "http://a", apiKey: "${env:NONE}" }', 'the environment has no NONE'],
    ['- url: [', 'b.yaml:'],
    ['- { url: "https://a", tls: { caFile: none.pem } }', 'backends[0].tls.caFile: the file is not there'],
  ])('%j is wrong as a whole: %s', (content, message) => {
    expect(readFile(content).wrong).toContain(message);
  });

  it('that is not there, or no file, is wrong too, and never shows a key', () => {
    expect(readBackendsFile(join(folder, 'none'), around)).toMatchObject({
      problems: [{ message: 'the file is not there' }],
    });
    expect(readBackendsFile(folder, around)).toMatchObject({ problems: [{ message: 'this is no regular file' }] });
    expect(readFile('- { url: "http://a", apiKey: "sk-secret with blanks" }').wrong).not.toContain('secret');
  });
});

describe('a backend by API', () => {
  it('is checked like one of the config, and may not reach into this machine', () => {
    expect(posted({ url: 'http://a:1', weight: 2 }).backends).toEqual([
      { settings: { name: 'a:1', url: 'http://a:1', weight: 2 } },
    ]);
    expect(posted({ url: 'http://a', apiKey: '${env:KEY}' }).backends).toMatchObject([
      { settings: { apiKey: '${env:KEY}' } },
    ]);
    expect(posted({ url: 'https://a', tls: { caFile: '/etc/passwd' } }).wrong).toContain('tls.caFile: can stand only');
  });

  it.each([
    [{}, 'url: is missing'],
    [[], 'must be a map of keys'],
    ['http://a', 'write - url: http://…'],
    [null, 'must be a map of keys'],
    [{ url: 'http://a', maxInFlight: 0 }, 'maxInFlight: must be a whole number'],
    [{ url: 'http://a', x: 1 }, 'x: unknown key'],
  ])('%j is wrong: %s', (value, message) => {
    expect(posted(value).wrong).toContain(message);
  });
});
