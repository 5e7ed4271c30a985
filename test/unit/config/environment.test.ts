import { describe, expect, it } from 'vitest';

import { loadConfig } from '../../../src/config/load.ts';
import { configOf, loadText, problemsOf } from './load-text.ts';

describe('flags, environment, file, defaults', () => {
  const file =
    'listen: 1001\nadmin: { listen: 2001 }\nbackends: [{ url: "http://file", maxInFlight: 3 }]\nlog: { level: warn, format: json }\n';
  const env = {
    WARMLANE_LISTEN: '1002',
    WARMLANE_ADMIN_LISTEN: '2002',
    WARMLANE_BACKEND: 'http://env-a, http://env-b http://env-c',
    WARMLANE_LOG_LEVEL: 'error',
    WARMLANE_LOG_FORMAT: 'logfmt',
    PATH: '/bin',
  };
  const flags = {
    listen: '1003',
    adminListen: '2003',
    backends: ['http://flag'],
    logLevel: 'debug',
    logFormat: 'json',
  };

  it('the environment wins over the file, and its backends take the place of the list', () => {
    const config = configOf(file, { env });
    expect([config.http.listen.port, config.http.admin.port]).toEqual([1002, 2002]);
    expect(config.log).toEqual({ level: 'error', format: 'logfmt' });
    expect(config.fleet.backends.map(({ name }) => name)).toEqual(['env-a:80', 'env-b:80', 'env-c:80']);
    expect(config.fleet.backends[0]).not.toHaveProperty('maxInFlight');
  });

  it('flags win over both', () => {
    const config = configOf(file, { env, flags });
    expect([config.http.listen.port, config.http.admin.port]).toEqual([1003, 2003]);
    expect(config.log).toEqual({ level: 'debug', format: 'json' });
    expect(config.fleet.backends).toEqual([{ name: 'flag:80', url: 'http://flag' }]);
  });

  it('an empty variable counts as unset', () => {
    const empty = Object.fromEntries(Object.keys(env).map((name) => [name, '']));
    expect(configOf(file, { env: { ...empty, WARMLANE_DEMO: '', WARMLANE_CONFIG: '' } })).toEqual(configOf(file));
  });

  it('WARMLANE_CONFIG names the file unless the flag does', () => {
    expect(loadConfig({ env: { WARMLANE_CONFIG: '/nowhere/a' }, flags: {} })).toMatchObject({
      problems: [{ file: '/nowhere/a' }],
    });
    expect(loadConfig({ file: '/nowhere/b', env: { WARMLANE_CONFIG: '/nowhere/a' }, flags: {} })).toMatchObject({
      problems: [{ file: '/nowhere/b' }],
    });
  });

  it('WARMLANE_DEMO asks for the demo', () => {
    for (const [value, demo] of [
      ['1', true],
      ['TRUE', true],
      ['0', false],
      ['false', false],
    ] as const) {
      expect(loadText('', { env: { WARMLANE_DEMO: value } })).toMatchObject({ ok: true, demo });
    }
    expect(loadText('', { flags: { demo: true } })).toMatchObject({ demo: true });
    expect(problemsOf('', { env: { WARMLANE_DEMO: 'maybe' } })).toEqual(['WARMLANE_DEMO: must be 1, true, 0 or false']);
  });

  it('a wrong value is told under the name that said it', () => {
    expect(problemsOf(file, { env: { WARMLANE_LOG_LEVEL: 'loud' } }).join()).toMatch(
      /^WARMLANE_LOG_LEVEL: must be one of debug, /,
    );
    expect(problemsOf(file, { env, flags: { logLevel: 'loud', backends: ['http://a', 'b'] } })).toEqual([
      '--backend (number 2): the URL must begin with http:// or https://',
      '--log-level: must be one of debug, info, warn, error, not "loud"',
    ]);
  });

  it('a wrong section of the file stays a problem when a flag sets a key in it', () => {
    expect(problemsOf('admin: 5', { flags: { adminListen: '1' } })).toEqual([
      'w.yaml:1:8 admin: must be a map of keys, not 5',
    ]);
  });
});

describe('unknown variables', () => {
  it('are problems, with what was meant', () => {
    expect(problemsOf('', { env: { WARMLANE_LISTN: '1', WARMLANE_TEMPERATURE: '2', WARM: '3' } })).toEqual([
      'WARMLANE_LISTN: unknown variable; did you mean WARMLANE_LISTEN?',
      expect.stringContaining('WARMLANE_TEMPERATURE: unknown variable; known are WARMLANE_CONFIG, '),
    ]);
  });

  it('are none when the file names them itself', () => {
    const text = 'backends:\n  - url: http://h\n    apiKey: ${env:WARMLANE_GPU_KEY}\n';
    expect(configOf(text, { env: { WARMLANE_GPU_KEY: 'k' } }).fleet.backends[0]?.apiKey).toBe('k');
  });

  it('are none when Kubernetes made them of services named warmlane', () => {
    const env = {
      WARMLANE_SERVICE_HOST: '10.0.0.1',
      WARMLANE_SERVICE_PORT: '8484',
      WARMLANE_SERVICE_PORT_HTTP: '8484',
      WARMLANE_PORT: 'tcp://10.0.0.1:8484',
      WARMLANE_PORT_8484_TCP: 'tcp://10.0.0.1:8484',
      WARMLANE_PORT_8484_TCP_PROTO: 'tcp',
      WARMLANE_PORT_8484_TCP_PORT: '8484',
      WARMLANE_PORT_8484_TCP_ADDR: '10.0.0.1',
      WARMLANE_ADMIN_SERVICE_HOST: '10.0.0.2',
      WARMLANE_ADMIN_PORT: 'tcp://10.0.0.2:8485',
    };
    expect(problemsOf('', { env })).toEqual([]);
    expect(problemsOf('', { env: { WARMLANE_PORT: '8484' } })).toHaveLength(1);
  });
});

describe('references', () => {
  const at = (apiKey: string, env: Record<string, string>) =>
    configOf(`backends: [{ url: "http://h", apiKey: "${apiKey}" }]`, { env }).fleet.backends[0]?.apiKey;

  it('are put into any text, once', () => {
    expect(at('a-${env:K}-${env:L}', { K: 'x', L: '${env:K}' })).toBe('a-x-${env:K}');
    expect(at('${env:K:-d}', {})).toBe('d');
    expect(at('${env:K:-d}', { K: '' })).toBe('d');
    expect(at('${env:K:-}k', {})).toBe('k');
  });

  it('may stand for a number or a flag', () => {
    const text =
      'queue:\n  maxJobs: ${env:N}\nretry:\n  afterCrash: ${env:B:-true}\nlisten: ${env:P}\nbackends: [{ url: "http://h", apiKey: "${env:N}" }]\n';
    const config = configOf(text, { env: { N: '12', P: '9000' } });
    expect(config.admit.maxQueuedJobs).toBe(12);
    expect(config.relay.retryAfterCrash).toBe(true);
    expect(config.http.listen.port).toBe(9000);
    expect(config.fleet.backends[0]?.apiKey).toBe('12');
  });

  it('to a variable that is not there are one problem each, with nothing about the rest of the value', () => {
    expect(problemsOf('usage: ${env:U}\nqueue:\n  maxJobs: ${env:N}\n')).toEqual([
      'w.yaml:1:8 usage: the environment has no U; set it, or write ${env:U:-default}',
      'w.yaml:3:12 queue.maxJobs: the environment has no N; set it, or write ${env:N:-default}',
    ]);
  });

  it('that can not be read are not compared with each other, in any list', () => {
    const lists = {
      backends: ['{ url: "http://${env:A}" }', '{ url: "http://${env:B}" }'],
      'backends ': ['{ url: "http://a", name: "${env:A}" }', '{ url: "http://b", name: "${env:B}" }'],
      'auth: { keys': ['{ name: n, key: "${env:A}" }', '{ name: n, key: "${env:B}" }'],
      'auth: { keys ': ['{ name: n, key: "${A}" }', '{ name: n, key: "${A}" }'],
      'models: { shapes': ['{ model: "${env:A}", params: 1 }', '{ model: "${env:B}", params: 1 }'],
      'discovery: { dns': ['{ name: "${env:A}", port: 1 }', '{ name: "${env:B}", port: 1 }'],
      'routing: { pools': [
        '{ models: ["${env:A}"], policy: least-load }',
        '{ models: ["${env:B}"], policy: least-load }',
      ],
    };
    for (const [list, items] of Object.entries(lists)) {
      const found = problemsOf(`${list}: [${items.join(', ')}]${list.includes('{') ? ' }' : ''}\n`);
      expect(found.map((problem) => problem.replace(/^.*?: /, ''))).toEqual([
        expect.stringMatching(/^(the environment has no A|write )/),
        expect.stringMatching(/^(the environment has no B|write )/),
      ]);
    }
  });

  it('that may be names make nobody a stranger', () => {
    const rules = 'lanes: { rules: [{ tenant: nightly, lane: batch }] }\n';
    for (const item of ['{ name: "${env:A}", key: long-enough }', '{ file: "${env:A}" }'])
      expect(problemsOf(`auth: { keys: [${item}] }\n${rules}`)).toEqual([
        expect.stringContaining('the environment has no A'),
      ]);
    expect(problemsOf(`auth: { keys: [{ file: nowhere.txt }] }\n${rules}`)).toEqual([
      expect.stringContaining('the file is not there'),
    ]);
  });

  it('to empty variables are two faults, and no third', () => {
    const keys = ['A', 'B'].map((name) => `{ name: n, key: "\${env:${name}}" }`).join(', ');
    expect(problemsOf(`auth: { keys: [${keys}] }`, { env: { A: '', B: '' } })).toHaveLength(2);
  });

  it.each(['${KEY}', '${env:}', '${env:1}', '${ENV:K}', '${env:K', '${env:K:d}'])(
    '%s is not sent on as it stands',
    (text) => {
      expect(problemsOf(`backends: [{ url: "http://h", apiKey: "${text}" }]`, { env: { KEY: 'k', K: 'k' } })).toEqual([
        'w.yaml:1:39 backends[0].apiKey: write ${env:NAME} or ${env:NAME:-default} for a variable of the environment',
      ]);
    },
  );

  it('in a part that a flag replaces are not needed', () => {
    expect(problemsOf('backends: [{ url: "${env:U}" }]', { flags: { backends: ['http://h'] } })).toEqual([]);
  });
});
