/** HTTP methods as labels and in spans: those that HTTP knows, `_OTHER` for the rest, lest a client invents series and span names. */
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
