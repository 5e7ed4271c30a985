/** The checked file's `auth` and `lanes.rules` → the settings of `access/`. Renames and regroups; decides nothing. */
import type { AccessSettings, AuthSettings, KeySettings, LaneRule, TenantSettings } from '../access/settings.ts';
import type { HashedKey } from './key-files.ts';
import type { ConfigFile } from './schema.ts';

/** @param keys by path text of the item that they come from */
export function accessSettings(file: ConfigFile, keys: ReadonlyMap<string, readonly HashedKey[]>): AccessSettings {
  const rules: readonly LaneRule[] = file.lanes.rules.map(({ header, ...rule }) =>
    header === undefined ? rule : { ...rule, header: { ...header, name: header.name.toLowerCase() } },
  );
  return file.auth === undefined ? { rules } : { auth: authSettings(file.auth, keys), rules };
}

function authSettings(
  auth: NonNullable<ConfigFile['auth']>,
  found: ReadonlyMap<string, readonly HashedKey[]>,
): AuthSettings {
  const keys: KeySettings[] = [];
  const tenants = new Map<string, TenantSettings>();
  for (const [index, { lane, weight, models, limits }] of auth.keys.entries()) {
    for (const { tenant: name, sha256, isWeak } of found.get(`auth.keys[${index}]`) ?? []) {
      keys.push({ sha256, tenant: name, lane, ...(isWeak ? { isWeak } : {}) });
      const before = tenants.get(name) ?? { name, weight: 1, limits: {} };
      tenants.set(name, {
        ...before,
        ...(weight === undefined ? {} : { weight }),
        ...(models === undefined ? {} : { models }),
        ...(limits === undefined ? {} : { limits }),
      });
    }
  }
  const dropHeaders = auth.dropHeaders.map((name) => name.toLowerCase());
  return { keys, tenants: [...tenants.values()], dropHeaders, unknownIds: auth.unknownIds };
}
