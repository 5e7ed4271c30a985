/** Where a request shows its key: OpenAI's header, Anthropic's, Azure's. Pure; keeps nothing. */
import type { AccessHead } from './port.ts';

/** Headers that hold keys; with keys of warmlane's own none of them goes on to a backend. */
export const keyHeaders = ['authorization', 'x-api-key', 'api-key'] as const;

/** Longer ones are no keys; hashing them would cost more than they are worth. */
const maxKeyChars = 4096;

/** Every key that the request shows, in the order of `keyHeaders`: clients' libraries send some beside one another. */
export function shownKeys(head: Pick<AccessHead, 'header'>): string[] {
  const keys: string[] = [];
  const bearer = bearerOf(head.header('authorization'));
  if (bearer !== undefined) keys.push(bearer);
  for (const name of ['x-api-key', 'api-key'] as const) {
    const key = head.header(name)?.trim();
    if (key !== undefined && key !== '' && key.length <= maxKeyChars) keys.push(key);
  }
  return keys;
}

/** RFC 6750, 2.1; the scheme in any case (RFC 9110, 11.1). */
function bearerOf(value: string | undefined): string | undefined {
  if (value === undefined || value.length < 8 || value.length > maxKeyChars + 8) return undefined;
  if (value.slice(0, 7).toLowerCase() !== 'bearer ') return undefined;
  const key = value.slice(7).trim();
  return key === '' ? undefined : key;
}
