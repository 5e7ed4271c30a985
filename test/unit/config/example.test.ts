/**
 * config/warmlane.example.yaml names every key, with its default, and is right as it stands and with its comments taken away.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { describe, expect, it } from 'vitest';

import { keyPaths } from '../../../src/config/keys.ts';
import { configFileSchema } from '../../../src/config/schema.ts';
import { certificatePem, keyPem } from './certificate.ts';
import { configOf } from './load-text.ts';

const example = readFileSync(new URL('../../../config/warmlane.example.yaml', import.meta.url), 'utf8');
const leaves = keyPaths(configFileSchema).map((path) => path.slice(path.lastIndexOf('.') + 1));

/** Every commented line that begins with a known key, or with "- " and one, without its mark. The head's sample is left out. */
function uncommented(): string {
  const body = example.slice(example.indexOf('\nlisten:'));
  const line = new RegExp(`^( *)# ( *(?:- )?(?:${leaves.join('|')}):(?: .*)?)$`, 'gm');
  return body.replace(line, '$1$2');
}

function has(value: unknown, path: readonly string[]): boolean {
  const [key, ...rest] = path;
  if (key === undefined) return true;
  if (Array.isArray(value)) return value.some((item) => has(item, path));
  return (
    typeof value === 'object' && value !== null && key in value && has((value as Record<string, unknown>)[key], rest)
  );
}

describe('config/warmlane.example.yaml', () => {
  it('begins with the line by which editors find the schema', () => {
    expect(example.split('\n')[0]).toBe('# yaml-language-server: $schema=./warmlane.schema.json');
  });

  it('loads, and says nothing but the defaults and one backend', () => {
    const backends = [{ name: '127.0.0.1:8000', url: 'http://127.0.0.1:8000' }];
    const config = configOf(example);
    expect(config.fleet.backends).toEqual(backends);
    const defaults = configOf('');
    expect(config).toEqual({ ...defaults, fleet: { ...defaults.fleet, backends } });
  });

  it('holds every key of the schema, some commented out', () => {
    const value: unknown = parse(uncommented());
    const missing = keyPaths(configFileSchema).filter((path) => !has(value, path.replaceAll('[]', '').split('.')));
    expect(missing).toEqual([]);
  });

  it('loads with its comments taken away', () => {
    const config = configOf(uncommented(), {
      env: { GPU_2_KEY: 'k', NIGHTLY_KEY: 'a-key-that-nobody-guesses', DB_PASSWORD: 'p' },
      beside: {
        'server.crt': certificatePem,
        'server.key': keyPem,
        'company-ca.pem': certificatePem,
        'qwen3-32b.json': '{}',
        'agent.json': '{}',
        'team-keys.txt': `team-a ${'ab'.repeat(32)}\n`,
      },
    });
    expect(config.fleet.backends[1]).toMatchObject({
      name: 'gpu-2',
      engine: 'vllm',
      apiKey: 'k',
      tls: { verify: true },
    });
    expect(config.http.tls?.key).toBe(keyPem);
    expect(config.access.auth?.tenants.map(({ name }) => name)).toEqual(['chat-ui', 'nightly', 'team-a']);
    expect(config.access.rules).toHaveLength(2);
  });

  it('is no longer than three lines where it need not be', () => {
    const sample = /^# {3}(backends:)\n# {3}( {2}- url: .*)$/m.exec(example);
    expect(configOf(`${sample?.[1]}\n${sample?.[2]}\n`).fleet.backends).toHaveLength(1);
  });
});
