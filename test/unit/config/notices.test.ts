import { expect, it } from 'vitest';

import { noticesOf } from '../../../src/config/notices.ts';
import { configOf } from './load-text.ts';

it('says nothing about the defaults', () => {
  expect(noticesOf(configOf('backends: [{ url: "https://h" }]'))).toEqual([]);
});

it('names an admin listener on which everybody may change the fleet', () => {
  const open = 'admin: { listen: ":8485", changes: always }\n';
  expect(noticesOf(configOf(open))[1]).toContain('admin.changes is always');
  expect(noticesOf(configOf('admin: { changes: always }'))).toEqual([]);
});

it('names each setting that opens something', () => {
  const text =
    'admin: { listen: ":8485" }\nbackends: [{ url: "https://h", name: a, tls: { verify: false } }]\nroutes: { open: [lora] }\n';
  const notices = noticesOf(configOf(text));
  expect(notices).toHaveLength(3);
  expect(notices[0]).toContain('admin.listen is 0.0.0.0');
  expect(notices[1]).toContain('backend a: tls.verify is false');
  expect(notices[2]).toContain('routes.open');
});

it('names keys that can be guessed, and keys that pass in the clear; hashed ones are not judged', () => {
  const keys = (...items: string[]) => `auth: { keys: [${items.join(', ')}] }\n`;
  const strong = '{ name: a, key: 9f8s7df98sd7f98s7df98sdfk3j4 }';
  expect(noticesOf(configOf(keys(strong, `{ name: b, sha256: ${'0'.repeat(63)}a }`)))).toEqual([]);
  const weak = noticesOf(
    configOf(keys(strong, '{ name: b, key: short-key }', '{ name: c, key: aaaaaaaaaaaaaaaaaaaaaaaaaaaa }')),
  );
  expect(weak).toHaveLength(1);
  expect(weak[0]).toContain('a key of b, c can be guessed');
  expect(weak[0]).not.toContain('short-key');
  expect(noticesOf(configOf(`listen: ":8484"\n${keys(strong)}`))[0]).toContain('speaks plain HTTP');
});
