import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';

import { configOf, problemsOf } from './load-text.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const hash = 'ab'.repeat(32);
const key = 'a-secret-that-nobody-guesses';

describe('auth', () => {
  it('is absent unless it is there: no key is asked for', () => {
    expect(configOf('').access).toEqual({ rules: [] });
  });

  it('keeps hashes, never keys', () => {
    const config = configOf(
      `auth: { keys: [{ name: a, key: "\${env:A_KEY}" }, { name: b, sha256: ${hash.toUpperCase()}, lane: batch }] }`,
      { env: { A_KEY: key } },
    );
    expect(config.access.auth).toEqual({
      keys: [
        { sha256: sha256(key), tenant: 'a', lane: 'online' },
        { sha256: hash, tenant: 'b', lane: 'batch' },
      ],
      tenants: [
        { name: 'a', weight: 1, limits: {} },
        { name: 'b', weight: 1, limits: {} },
      ],
      dropHeaders: ['cookie', 'x-goog-api-key'],
      unknownIds: 'refuse',
    });
    expect(JSON.stringify(config)).not.toContain(key);
  });

  it('several keys are of one tenant, whose terms stand with one of them', () => {
    const { access } = configOf(
      [
        'auth:',
        '  keys:',
        `    - { name: a, sha256: ${sha256('1')} }`,
        `    - { name: a, sha256: ${sha256('2')}, lane: batch, weight: 3, models: [m], limits: { concurrent: 5 } }`,
        '  dropHeaders: [X-Mine]',
      ].join('\n'),
    );
    expect(access.auth?.keys.map(({ tenant, lane }) => [tenant, lane])).toEqual([
      ['a', 'online'],
      ['a', 'batch'],
    ]);
    expect(access.auth?.tenants).toEqual([{ name: 'a', weight: 3, models: ['m'], limits: { concurrent: 5 } }]);
    expect(access.auth?.dropHeaders).toEqual(['x-mine']);
  });

  it('reads files of keys: a line for each, comments and what sha256sum writes behind a hash left out', () => {
    const file = `# team\n\na ${sha256('1')}\r\n  b\t${sha256('2').toUpperCase()}  -\na ${sha256('3')}\n`;
    const { access } = configOf('auth: { keys: [{ file: keys.txt, lane: batch, limits: { concurrent: 2 } }] }', {
      beside: { 'keys.txt': file },
    });
    expect(access.auth?.keys).toEqual([
      { sha256: sha256('1'), tenant: 'a', lane: 'batch' },
      { sha256: sha256('2'), tenant: 'b', lane: 'batch' },
      { sha256: sha256('3'), tenant: 'a', lane: 'batch' },
    ]);
    expect(access.auth?.tenants).toEqual([
      { name: 'a', weight: 1, limits: { concurrent: 2 } },
      { name: 'b', weight: 1, limits: { concurrent: 2 } },
    ]);
  });

  it.each([
    ['', 'must hold a key; leave auth out'],
    ['{ name: a }', 'must have exactly one of key, sha256, file'],
    [`{ name: a, key: ${key}, sha256: ${hash} }`, 'must have exactly one of key, sha256, file'],
    [`{ sha256: ${hash} }`, 'must have a name'],
    ['{ name: a, file: good.txt }', 'must have a name, unless it is a file'],
    ['{ name: a, key: secret7 }', 'key: must be 8 to 4096 characters'],
    ['{ name: a, key: 12345678901234567 }', 'key: must be 8 to 4096 characters'],
    ['{ name: a, key: "secret with blanks" }', 'key: must be 8 to 4096 characters'],
    ['{ name: a, sha256: secretsecret }', 'sha256: must be a SHA-256 as 64 hex digits'],
    ['{ file: nowhere.txt }', 'file: the file is not there'],
    ['{ file: empty.txt }', 'file: the file has no keys'],
    ['{ file: plain.txt }', 'file: line 2: must be a name'],
    [
      `{ name: a, sha256: ${hash} }, { name: b, sha256: ${hash} }`,
      'auth.keys[1]: a key of b is the same as one in auth.keys[0]',
    ],
    [
      `{ name: a, sha256: ${hash}, weight: 1 }, { name: a, sha256: ${sha256('2')}, limits: {} }`,
      'auth.keys[1]: weight, models or limits of a stand in auth.keys[0]',
    ],
    [`{ name: a, sha256: ${hash}, limits: { concurrent: 0 } }`, 'must be a whole number of requests from 1'],
    [`{ name: a, sha256: ${hash}, limits: { requestPerMinute: 5 } }`, 'did you mean "requestsPerMinute"'],
    [`{ name: "a b", sha256: ${hash} }`, 'name: must be 1 to 64 letters'],
    [
      `{ name: a, key: ${key} }, { name: anonymous, sha256: ${hash} }`,
      "auth.keys[1]: the name anonymous is warmlane's own, for requests that show no key; choose another one",
    ],
    ['{ file: anonymous.txt }', "auth.keys[0]: the name anonymous is warmlane's own"],
  ])('says what is wrong with %s, and never what it holds', (items, message) => {
    const anonymous = `a ${sha256('1')}\nanonymous ${hash}\n`;
    const beside = {
      'anonymous.txt': anonymous,
      'empty.txt': '# none\n',
      'plain.txt': `a ${hash}\nb secretsecret\n`,
      'good.txt': `a ${hash}\n`,
    };
    const problems = problemsOf(`auth: { keys: [${items}] }`, { beside });
    expect(problems.join('\n')).toContain(message);
    expect(problems.join('\n')).not.toMatch(/secret[s7]|12345678|abab|nobody/);
  });

  it('a section without a value is a mistake, and no open door', () => {
    expect(problemsOf('auth:\n')[0]).toContain('auth: has no value');
    expect(problemsOf('auth: {}\n')[0]).toContain('auth.keys: is missing');
  });
});

describe('lanes.rules', () => {
  it('names headers in lower case', () => {
    const { access } = configOf('lanes: { rules: [{ header: { name: X-Job, value: Night }, lane: batch }] }');
    expect(access.rules).toEqual([{ header: { name: 'x-job', value: 'Night' }, lane: 'batch' }]);
  });

  it.each([
    ['{ lane: batch }', 'must have one or more of path, model, tenant, header'],
    ['{ path: /v1/x }', 'lane: is missing'],
    ['{ header: { name: x-job }, lane: online }', 'a rule with a header must have lane: batch'],
    ['{ header: x-job, lane: batch }', 'write { name: … }'],
    ['{ tenant: nobody, lane: batch }', 'tenant: no key under auth.keys has this name'],
  ])('says what is wrong with %s', (rule, message) => {
    expect(problemsOf(`lanes: { rules: [${rule}] }`).join('\n')).toContain(message);
  });
});
