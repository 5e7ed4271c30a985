/** Which warmlane this is, from the package's own description. */
import { readFileSync } from 'node:fs';

export function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  // Our own file, made with every release.
  return (JSON.parse(text) as { version: string }).version;
}
