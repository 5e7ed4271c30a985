/** HTTP methods as labels: those that HTTP knows, `_OTHER` for the rest, as the HTTP conventions ask. */
const methods: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'CONNECT',
  'OPTIONS',
  'TRACE',
  'PATCH',
  'QUERY',
]);

export function methodLabel(method: string): string {
  return methods.has(method) ? method : '_OTHER';
}
