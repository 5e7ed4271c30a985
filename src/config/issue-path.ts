/** Where a problem stands, as valibot wants to be told: each key with the map or list that it stands in. Pure. */
import type * as v from 'valibot';

type Key = string | number;

/** @param keys found by walking `value`: each but the last leads to a map or a list */
export function issuePath(
  value: object,
  [first, ...rest]: readonly [Key, ...Key[]],
): [v.IssuePathItem, ...v.IssuePathItem[]] {
  let held: unknown = value;
  const item = (key: Key): v.IssuePathItem => {
    if (Array.isArray(held) && typeof key === 'number') {
      const input: unknown[] = [...(held as readonly unknown[])]; // just seen to be one
      held = input[key];
      return { type: 'array', origin: 'value', input, key, value: held };
    }
    const input = { ...(held as Record<string, unknown>) }; // keys come from walking these very maps
    held = input[key];
    return { type: 'object', origin: 'value', input, key: String(key), value: held };
  };
  return [item(first), ...rest.map(item)];
}
