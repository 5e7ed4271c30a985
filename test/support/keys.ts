/** Settings of keys and tenants for tests: a tenant `a` with the key `key-of-a`, and so on. */
import { createHash } from 'node:crypto';
import type { AccessSettings, KeySettings, LaneRule, TenantSettings } from '../../src/access/settings.ts';

export type KeyedTenant = Partial<TenantSettings> & { readonly name: string; readonly lane?: KeySettings['lane'] };

export function keyOf(tenant: string): string {
  return `key-of-${tenant}`;
}

export function sha256Of(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

export function accessOf(tenants: readonly KeyedTenant[], rules: readonly LaneRule[] = []): AccessSettings {
  return {
    auth: {
      keys: tenants.map(({ name, lane = 'online' }) => ({ sha256: sha256Of(keyOf(name)), tenant: name, lane })),
      tenants: tenants.map(({ lane: _lane, ...tenant }) => ({ weight: 1, limits: {}, ...tenant })),
      dropHeaders: ['cookie', 'x-goog-api-key'],
      unknownIds: 'refuse',
    },
    rules,
  };
}
