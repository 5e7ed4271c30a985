import fc from 'fast-check';
import { describe, expect, expectTypeOf, it } from 'vitest';

import type { ConfigFile } from '../../../src/config/schema.ts';
import type { Engine } from '../../../src/domain/names.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { type Around, configOf, loadText, problemsOf } from './load-text.ts';

describe('defaults', () => {
  it('need no file, no flag and no variable', () => {
    const result = loadConfig({ env: {}, flags: {} });
    expect(result).toMatchObject({ ok: true, demo: false });
    if (!result.ok) return;
    expect(result).not.toHaveProperty('file');
    expect(result.config.http.listen).toEqual({ host: '127.0.0.1', port: 8484 });
    expect(result.config.http.admin).toEqual({ host: '127.0.0.1', port: 8485 });
    expect(result.config.fleet.backends).toEqual([]);
    expect(result.config.relay.deadlines).toEqual({
      connectMs: 5000,
      headMs: 120_000,
      firstTokenMs: 120_000,
      perBodyKibMs: 1000,
      contentStallMs: 120_000,
      refusedStallMs: 2000,
      totalMs: 3_600_000,
      clientStallMs: 60_000,
    });
    expect(result.config.http).toMatchObject({
      requestHeadMs: 60_000,
      requestMs: 0,
      drainMs: 30_000,
      clientHalfClose: 'abort',
      cors: { origins: [] },
    });
    expect(result.config).toMatchObject({
      upstreamClient: 'h1',
      relay: {
        usage: 'ask',
        retryAfterCrash: false,
        passConversationId: false,
        responseHeaders: { routing: true, serverTiming: true },
      },
    });
  });

  it.each([
    '',
    '# only a comment\n',
    '{}',
    'queue:\nmodels: { aliases: }\nadmin:\nbackends:\n',
    '\ufefflisten: 127.0.0.1:8484\r\n',
  ])('stand for all that %j leaves out', (text) => {
    const bare = loadConfig({ env: {}, flags: {} });
    expect(loadText(text)).toMatchObject(bare.ok ? { config: bare.config } : { ok: true });
  });

  it('are frozen all the way down', () => {
    const config = configOf('backends: [{ url: "http://h:1", models: [a] }]');
    const open: string[] = [];
    const visit = (value: unknown, path: string): void => {
      if (typeof value !== 'object' || value === null) return;
      if (!Object.isFrozen(value)) open.push(path);
      for (const [key, held] of Object.entries(value)) visit(held, `${path}.${key}`);
    };
    visit(config, 'config');
    expect(open).toEqual([]);
  });

  it('know every engine', () => {
    type InFile = NonNullable<ConfigFile['backends'][number]['engine']>;
    expectTypeOf<InFile>().toEqualTypeOf<Engine>();
    for (const engine of ['vllm', 'llama-server', 'sglang', 'tgi', 'ollama', 'openai']) {
      expect(configOf(`backends: [{ url: "http://h", engine: ${engine} }]`).fleet.backends[0]?.engine).toBe(engine);
    }
  });
});

describe('a file', () => {
  it('sets what it names and leaves the rest', () => {
    const config = configOf(`
listen: ":9000"
admin: { listen: 9001 }
backends:
  - url: http://127.0.0.1:8000/
  - url: http://127.0.0.1:8080/llama
    name: cpu
    engine: llama-server
    models: [smollm2]
    maxInFlight: 4
    apiKey: abc
models: { aliases: { gpt-4o: smollm2 } }
routes: { open: [lora, sleep], passConversationId: true }
clients: { maxBodyBytes: 1000, maxHeldBytes: 1000, halfClose: finish }
cors: { origins: ["https://app.example", "http://localhost:3000", "chrome-extension://abc", "*"] }
queue: { maxJobs: 0, timeoutMs: 5 }
deadlines: { totalMs: 0, drainMs: 0 }
stream: { heartbeatMs: 15000 }
responseHeaders: { serverTiming: false }
usage: passive
retry: { afterCrash: true }
log: { requests: false, format: json, level: warn }
upstreamClient: undici
`);
    expect(config.http).toMatchObject({
      listen: { host: '0.0.0.0', port: 9000 },
      admin: { host: '127.0.0.1', port: 9001 },
      maxBodyBytes: 1000,
      maxHeldBytes: 1000,
      clientHalfClose: 'finish',
      cors: { origins: ['https://app.example', 'http://localhost:3000', 'chrome-extension://abc', '*'] },
      drainMs: 0,
    });
    expect(config.fleet.backends).toEqual([
      { name: '127.0.0.1:8000', url: 'http://127.0.0.1:8000' },
      {
        name: 'cpu',
        url: 'http://127.0.0.1:8080/llama',
        engine: 'llama-server',
        models: ['smollm2'],
        maxInFlight: 4,
        apiKey: 'abc',
      },
    ]);
    expect(config.classify.openRoutes).toEqual(['lora', 'sleep']);
    expect({ ...config.classify.modelAliases }).toEqual({ 'gpt-4o': 'smollm2' });
    expect(config.admit).toMatchObject({ maxQueuedJobs: 0, queueTimeoutMs: 5 });
    expect(config.relay).toMatchObject({
      heartbeatMs: 15_000,
      usage: 'passive',
      retryAfterCrash: true,
      passConversationId: true,
      responseHeaders: { routing: true, serverTiming: false },
    });
    expect(config.relay.deadlines).toMatchObject({ totalMs: 0, connectMs: 5000 });
    expect(config.export.requestLog).toBe(false);
    expect(config.log).toEqual({ level: 'warn', format: 'json' });
    expect(config.upstreamClient).toBe('undici');
  });

  it('may be JSON, indented with tabs', () => {
    const json = JSON.stringify({ listen: 1234, backends: [{ url: 'http://h' }], queue: { maxJobs: 3 } }, null, '\t');
    const config = configOf(json);
    expect(config.http.listen.port).toBe(1234);
    expect(config.fleet.backends[0]?.name).toBe('h:80');
    expect(config.admit.maxQueuedJobs).toBe(3);
  });

  it('may use anchors', () => {
    const config = configOf('backends:\n  - url: http://a\n    models: &m [x]\n  - url: http://b\n    models: *m\n');
    expect(config.fleet.backends.map(({ models }) => models)).toEqual([['x'], ['x']]);
  });

  it('finds no alias for a model called like a built-in of objects', () => {
    const { modelAliases } = configOf('models: { aliases: { a: b } }').classify;
    expect(modelAliases['toString']).toBeUndefined();
    expect(modelAliases['constructor']).toBeUndefined();
    expect(problemsOf('models:\n  aliases:\n    constructor: b\n    __proto__: c\n')).toEqual([
      'w.yaml:3:5 models.aliases.constructor: this name can not be used',
      'w.yaml:4:5 models.aliases.__proto__: this name can not be used',
    ]);
  });
});

describe('problems', () => {
  it('come all at once, each with its path, line and column, from top to bottom', () => {
    expect(
      problemsOf(`listen: 99999
backends:
  - url: http://127.0.0.1:8000
    maxInFligth: 3
    maxInFlight: 1.5
  - name: a
    engine: vlm
queue: { maxJobs: -1, timeoutMs: "5" }
drainMs: 5
clients: { maxBodyBytes: 10, maxHeldBytes: 5 }
temperature: 1
`),
    ).toEqual([
      'w.yaml:1:9 listen: the port must be a whole number from 0 (any free one) to 65535, not 99999',
      'w.yaml:4:5 backends[0].maxInFligth: unknown key; did you mean "maxInFlight"?',
      'w.yaml:5:18 backends[0].maxInFlight: must be a whole number of jobs from 1 to 65535, not 1.5',
      'w.yaml:6:5 backends[1].url: is missing',
      'w.yaml:7:13 backends[1].engine: must be one of vllm, llama-server, sglang, tgi, ollama, openai, not "vlm"',
      'w.yaml:8:19 queue.maxJobs: must be a whole number of jobs from 0 (none wait) to 1000000, not -1',
      'w.yaml:8:34 queue.timeoutMs: must be a whole number of milliseconds from 1 to 2147483647, not "5"',
      'w.yaml:9:1 drainMs: unknown key here; it stands at deadlines.drainMs',
      'w.yaml:10:44 clients.maxHeldBytes: must be at least clients.maxBodyBytes, else the largest body never fits',
      expect.stringContaining('w.yaml:11:1 temperature: unknown key "temperature"; known here: listen, tls, admin'),
    ]);
  });

  it.each([
    [
      'deadlines: { totalMs: 2147483648 }',
      'deadlines.totalMs: must be a whole number of milliseconds from 0 (off) to 2147483647, not 2147483648',
    ],
    ['deadlines: { requestHeadMs: 0 }', 'deadlines.requestHeadMs: must be a whole number of milliseconds from 1'],
    ['deadlines: { totalMs: 5s }', 'not "5s"'],
    ['deadlines: { totalMs: .inf }', 'not Infinity'],
    ['cors: { origins: [https://app.example/] }', 'cors.origins[0]: must be * or an origin as browsers send it'],
    ['cors: { origins: [app.example] }', 'cors.origins[0]: must be * or an origin as browsers send it'],
    ['cors: { origins: [HTTPS://App.Example] }', 'cors.origins[0]: must be * or an origin as browsers send it'],
    ['cors: { origins: "*" }', 'cors.origins: must be a list'],
    ['probes: { intervalMs: 1999 }', 'probes.intervalMs: must be a whole number of milliseconds from 2000'],
    ['measure: { prefixHitShare: 0 }', 'above 0 and up to 1, not 0'],
    ['measure: { prefixHitShare: 50 }', 'above 0 and up to 1, not 50'],
    ['backends: [{ url: "http://h", maxInFlight: 0 }]', 'from 1 to 65535, not 0'],
    ['backends: [{ url: "http://h", name: "a b" }]', 'backends[0].name: must be 1 to 64 letters'],
    ['backends: [{ url: "http://h", tls: { verify: false } }]', 'backends[0].tls: has no use with an http:// URL'],
    [
      'backends: [{ url: "https://h", tls: { verify: no } }]',
      'backends[0].tls.verify: must be true or false, not "no"',
    ],
    ['backends: [{ url: "https://h", tls: { serverName: 10.0.0.1 } }]', 'must be a host name, not an address'],
    ['backends: [{ url: "http://h" }, { url: "http://h/b" }]', 'backends[1]: the name h:80 is taken'],
    [
      'backends: [{ url: "http://h", name: a, maxInFlight: x }, { url: "http://i", name: a }]',
      'backends[1]: the name a is taken',
    ],
    ['backends: [{ url: "http://h" }, { url: "http://h/" }]', 'backends[1]: the same URL twice (h:80)'],
    // The fleet has each server once: the second would be left out, with what it says of models and limits.
    [
      'backends: [{ url: "http://h", name: a }, { url: "http://h/", name: b, models: [m] }]',
      'backends[1]: the same URL as a; name each backend once',
    ],
    ['backends: http://h', 'backends: must be a list'],
    ['backends:\n  - url:http://h', 'w.yaml:2:5 backends[0]: a blank is missing after url:'],
    ['backends:\n  - http://h', 'w.yaml:2:5 backends[0]: write - url: http://…'],
    ['backends:\n  - h', 'backends[0]: must be a map of keys'],
    [
      'backends:\n  - url: http://localhost:8484',
      "w.yaml:2:10 backends[0].url: this is warmlane's own address; name the model server's",
    ],
    [
      'backends: [{ url: "http://127.0.0.1:9/x" }]\nadmin: { listen: 9 }',
      "backends[0].url: this is warmlane's own address",
    ],
    ['routes: { open: [lora, lro] }', 'routes.open[1]: must be one of lora, sleep'],
    ['queue: 3', 'queue: must be a map of keys, not 3'],
    ['queue: [1]', 'queue: must be a map of keys, not a list'],
    ['telemetry: { promptTrace: x }', 'telemetry.promptTrace: must be a map of keys; write { file: … }'],
    ['answerCache: true', 'answerCache: must be a map of keys; write { enabled: true }, not true'],
    ['breaker: false', 'breaker: must be a map of keys; write { enabled: false }, not false'],
    ['queue: true', 'queue: must be a map of keys, not true'],
    ['backends: [', 'or a bracket above is not closed'],
    ['{\n  "queue": { "maxJobs": 1 }\n', 'a closing quote, bracket or a comma is missing'],
    ['models: { aliases: [a] }', 'models.aliases: must be a map of keys, not a list'],
    ['models: { aliases: { gpt.4: 3 } }', 'models.aliases["gpt.4"]: must be a text of 1 to 512 characters, not 3'],
    ['- 1', 'must be a map of keys, not a list'],
    ['hello', 'must be a map of keys'],
    ['usage:', 'usage: has no value; it must be one of ask, passive, per_event, or leave the key out'],
    ['listen: 127.0.0.1:8485', 'admin.listen: must not be the same address as listen'],
    ['tls: { certFile: a.pem }', 'tls.keyFile: is missing'],
  ])('%s', (text, words) => {
    expect(problemsOf(text).join('\n')).toContain(words);
  });

  it('two listeners on port 0 get two ports', () => {
    expect(problemsOf('listen: 0\nadmin: { listen: 0 }')).toEqual([]);
  });

  it.each([
    ['listen: 1\nlisten: 2', 'w.yaml:2:1: this key stands here twice; keep one'],
    ['listen: [::1]:8484', 'w.yaml:1:14: YAML did not expect this here'],
    ['queue:\n\tmaxJobs: 1', 'w.yaml:2:1: indent with blanks, not with tabs'],
    ['listen: "1', 'a closing quote'],
    ['a: 1\n---\nb: 1', 'more than one document'],
    ['queue: { maxJobs: ${env:N} }', 'w.yaml:1:20: YAML did not expect this here'],
    ['? [a]\n: 1', 'w.yaml:1:3: a key must be a text'],
    ['{"listen": 1, "listen": 2}', 'w.yaml:1:15: this key stands here twice'],
    ['{"listen": 1,', 'is missing'],
  ])('of the text itself are told too: %j', (text, words) => {
    expect(problemsOf(text).join('\n')).toContain(words);
  });

  it.each([
    ['a key indented too far', 'queue:\n  maxJobs: 1\n   timeoutMs: 2\n  foo: 3\nlog:\n  level: info\n', 2],
    ['a key indented too little', 'queue:\n  maxJobs: 1\n timeoutMs: 2\nlog:\n  level: info\nusage: ask\n', 3],
    [
      'a backend of which one key slipped',
      'backends:\n  - url: http://a\n   name: x\n  - url: http://b\n    name: y\n',
      3,
    ],
    ['several slips', 'queue:\n  a: 1\n   b: 2\nlog:\n  c: 1\n d: 2\nlist: [\n', 2],
  ])('of the text: only the first, and it speaks of indentation: %s', (_, text, line) => {
    const problems = problemsOf(text);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^w\\.yaml:${line}:.*indentation`));
  });

  it.each<[string, Around]>([
    ['--demo: both this and --backend', { flags: { demo: true, backends: ['http://h'] } }],
    ['WARMLANE_DEMO: both this and --backend', { env: { WARMLANE_DEMO: '1' }, flags: { backends: ['http://h'] } }],
    ['WARMLANE_DEMO: both this and WARMLANE_BACKEND', { env: { WARMLANE_DEMO: '1', WARMLANE_BACKEND: 'http://h' } }],
  ])('%s say what to serve', (words, around) => {
    expect(problemsOf('', around)).toEqual([`${words} say what to serve; leave one out`]);
  });

  it('a demo asked for by flag wins over backends of a file or of a variable', () => {
    expect(problemsOf('backends: [{ url: "http://h" }]', { flags: { demo: true } })).toEqual([]);
    expect(problemsOf('', { env: { WARMLANE_BACKEND: 'http://h' }, flags: { demo: true } })).toEqual([]);
  });

  it('of a URL given twice name the flag', () => {
    expect(problemsOf('', { flags: { backends: ['http://h:1', 'http://h:1/'] } })).toEqual([
      '--backend (number 2): the same URL twice (h:1); name each backend once',
    ]);
  });

  it('beside a key that stands twice are told as well', () => {
    expect(problemsOf('listen: 1\nlisten: 2\nqueue: 3')).toHaveLength(2);
  });

  it('of a half-written file hide no problem of flags and environment', () => {
    const problems = problemsOf('backends: [', { env: { WARMLANE_LISTE: '1' }, flags: { listen: 'x' } });
    expect(problems).toHaveLength(3);
    expect(problems.join('\n')).toContain('WARMLANE_LISTE');
    expect(problems.join('\n')).toContain('--listen');
  });

  it('include a file that is not there, a folder, and a file far too large', () => {
    expect(loadConfig({ file: '/nowhere/w.yaml', env: {}, flags: {} })).toEqual({
      ok: false,
      problems: [{ file: '/nowhere/w.yaml', path: '', message: 'the file is not there' }],
    });
    expect(loadConfig({ file: '/', env: {}, flags: {} })).toMatchObject({
      problems: [{ message: 'this is a folder, not a file' }],
    });
    expect(problemsOf(`# ${'x'.repeat(1024 * 1024)}`)).toEqual([
      'w.yaml: the file is larger than 1 MiB; that is no configuration',
    ]);
  });

  it('include anchors that grow without bound', () => {
    const bomb = [
      'a: &a [x,x,x,x,x,x,x,x,x]',
      ...'bcdefgh'
        .split('')
        .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[index]}`).join(',')}]`),
    ].join('\n');
    expect(problemsOf(bomb)).toEqual(['w.yaml:1:1: the anchors (&, *) of this file make it grow without bound']);
  });

  it('are values: no text makes loading throw', () => {
    const piece = fc.constantFrom(
      'listen',
      ':',
      ' ',
      '\n',
      '  ',
      '- ',
      '{',
      '}',
      '[',
      ']',
      '"',
      "'",
      '&a',
      '*a',
      '!',
      '#',
      '${env:A}',
      'backends',
      'url',
      '1',
      '\t',
      '|',
      '>',
      '?',
      '<<',
      '\u0000',
      '%',
      '---',
      'null',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const result = loadText(pieces.join(''));
        expect(result.ok || result.problems.length > 0).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});

describe('secrets', () => {
  it.each([
    ['a key with a blank', 'backends:\n  - url: http://h\n    apiKey: "hunter2 x"\n'],
    ['a key that is a YAML alias', 'backends:\n  - url: http://h\n    apiKey: *hunter2\n'],
    ['a key that is a YAML tag', 'backends:\n  - url: http://h\n    apiKey: !hunter2\n'],
    ['a key that begins with @', 'backends:\n  - url: http://h\n    apiKey: @hunter2\n'],
    ['a key without the blank before it', 'backends:\n  - { url: "http://h", apiKey:hunter2 }\n'],
    ['a key that is a list', 'backends:\n  - url: http://h\n    apiKey: [hunter2]\n'],
    ['a password in a URL', 'backends:\n  - url: http://u:hunter2@h\n'],
    ['a query in a URL', 'backends:\n  - url: http://h?key=hunter2\n'],
    ['a word from the environment', 'usage: ${env:SECRET}\nlisten: ${env:SECRET}\nqueue:\n  maxJobs: ${env:SECRET}\n'],
  ])('are not in the problem of %s', (_, text) => {
    const problems = problemsOf(text, { env: { SECRET: 'hunter2' } });
    expect(problems.length).toBeGreaterThan(0);
    expect(problems.join('\n')).not.toContain('hunter2');
  });

  it('of flags and variables are not repeated either', () => {
    const url = 'http://u:hunter2@h';
    expect(problemsOf('', { env: { WARMLANE_BACKEND: url } }).join()).toMatch(
      /^WARMLANE_BACKEND \(number 1\): (?!.*hunter2)/,
    );
    expect(problemsOf('', { flags: { backends: [url] } }).join()).toMatch(/^--backend \(number 1\): (?!.*hunter2)/);
    expect(problemsOf('', { env: { WARMLANE_DEMO: 'hunter2' } }).join()).not.toContain('hunter2');
  });
});

it('files that the config names are looked for beside it, those that are written too', () => {
  const text = 'discovery: { file: { path: d.yaml } }\ntelemetry: { promptTrace: { file: p.jsonl } }\n';
  const { discovery, promptTrace } = configOf(text);
  expect(promptTrace.file).toBe(discovery.file?.path.replace('d.yaml', 'p.jsonl'));
  expect(promptTrace.file).toMatch(/^\/.+\/p\.jsonl$/);
  expect(configOf('telemetry: { promptTrace: { file: /p.jsonl } }').promptTrace.file).toBe('/p.jsonl');
});

describe('a file that may never end', () => {
  it('is read at the start, which may be given a pipe, and not while streams run', () => {
    const request = { file: '/dev/null', env: {}, flags: {} };
    expect(loadConfig(request)).toMatchObject({ ok: true });
    expect(loadConfig({ ...request, isRunning: true })).toMatchObject({
      problems: [{ message: 'this is no regular file' }],
    });
  });
});
