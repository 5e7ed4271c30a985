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
