import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';

import { certificatePem, keyPem } from './certificate.ts';
import { configOf, problemsOf } from './load-text.ts';

const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

describe('PEM files', () => {
  it('are read beside the config file', () => {
    const config = configOf(
      'tls: { certFile: c.pem, keyFile: ./k.pem }\nbackends:\n  - url: https://h\n    tls: { caFile: c.pem, serverName: gpu.internal }\n',
      { beside: { 'c.pem': certificatePem, 'k.pem': keyPem } },
    );
    expect(config.http.tls).toEqual({ cert: certificatePem, key: keyPem });
    expect(config.fleet.backends[0]?.tls).toEqual({ ca: certificatePem, serverName: 'gpu.internal', verify: true });
  });

  it.each([
    ['one that is not there', '', 'tls.certFile: the file is not there'],
    ['a key in the place of a certificate', keyPem, 'tls.certFile: the file holds no certificate in PEM form'],
    [
      'a damaged certificate',
      certificatePem.replace('MIIB', 'AAAA'),
      'tls.certFile: a certificate in this file is damaged',
    ],
  ])('%s is a problem', (_, content, words) => {
    const beside: Record<string, string> = { 'k.pem': keyPem, ...(content === '' ? {} : { 'other.pem': content }) };
    const name = content === '' ? 'nowhere.pem' : 'other.pem';
    expect(problemsOf(`tls: { certFile: ${name}, keyFile: k.pem }`, { beside }).join()).toContain(words);
  });

  it.each([
    ["another certificate's key", other.export({ type: 'pkcs8', format: 'pem' }), 'does not belong'],
    [
      'an encrypted key',
      other.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }),
      'encrypted',
    ],
    ['a certificate in the place of a key', certificatePem, 'no private key'],
  ])('%s is a problem', (_, key, words) => {
    const problems = problemsOf('tls: { certFile: c.pem, keyFile: other.pem }', {
      beside: { 'c.pem': certificatePem, 'other.pem': String(key) },
    });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^w\\.yaml:1:\\d+ tls\\.keyFile: .*${words}`));
  });

  it('are looked at whatever else is wrong', () => {
    const problems = problemsOf('listen: x\nbackends:\n  - url: https://h\n    tls: { caFile: ., verify: 3 }\n');
    expect(problems.join('\n')).toContain('w.yaml:4:20 backends[0].tls.caFile: this is a folder');
    expect(problems).toHaveLength(3);
  });

  it('that are no regular files are not read: they may never end', () => {
    const problems = problemsOf('backends: [{ url: "https://h", tls: { caFile: /dev/zero } }]');
    expect(problems.join()).toContain('this is no regular file');
  });

  it('larger than any bundle are not read', () => {
    const problems = problemsOf('backends: [{ url: "https://h", tls: { caFile: big.pem } }]', {
      beside: { 'big.pem': 'x'.repeat(4 * 1024 * 1024 + 1) },
    });
    expect(problems.join()).toContain('larger than 4 MiB');
  });
});
