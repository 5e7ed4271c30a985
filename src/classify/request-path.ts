/**
 * What a request target names. Two readings: the plain one, by which known endpoints are found, and every path that
 * some server behind could make of it, by which closed routes are found. Nothing here changes what is forwarded.
 */

/** Path and query of a target, absolute-form (`http://host/path`) included. Not decoded. */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  // Most targets are nothing but a path.
  if (target.startsWith('/') && !target.includes('?') && !target.includes('#')) return { path: target, query: '' };
  const origin = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const plain = origin.split('#', 1)[0] ?? '';
  const mark = plain.indexOf('?');
  return mark < 0 ? { path: plain, query: '' } : { path: plain.slice(0, mark), query: plain.slice(mark + 1) };
}

/**
 * The path as servers match it: percent-decoded once, and without a final line feed, which Python's `$` overlooks
 * (so `/sleep%0A` is `/sleep` to Starlette). Bytes above 127 stay single characters: no route has any.
 */
export function matchedPath(path: string): string {
  return decodeOnce(path).replace(/\n$/, '');
}

/**
 * The segments of every path that a lenient server, or one behind a gateway that tidies paths, could read:
 * decoded up to three times, backslash for slash, blanks and control characters dropped, slashes collapsed,
 * dot segments resolved before or after collapsing, path parameters (`;a=b`) kept or dropped.
 */
export function lenientPaths(path: string): readonly (readonly string[])[] {
  const decoded = decodeFully(path);
  const segments = decoded.replaceAll('\\', '/').split('/').slice(1);
  const readings = readSegments(segments);
  if (!decoded.includes(';')) return readings;
  return [...readings, ...readSegments(segments.map((segment) => segment.replace(/;.*$/, '')))];
}

/** The path as far as it can be decoded, and all names in it whatever stands between them: nothing is resolved. */
export function rawNames(path: string): { readonly decoded: string; readonly names: readonly string[] } {
  const decoded = decodeFully(path);
  return { decoded, names: decoded.split(/[/\\;?#]/) };
}

/** Up to three times, blanks and control characters dropped. */
function decodeFully(path: string): string {
  let decoded = path;
  for (let round = 0; round < 3 && decoded.includes('%'); round += 1) decoded = decodeOnce(decoded);
  return decoded.replace(blankOrControl, '');
}

function readSegments(segments: readonly string[]): readonly (readonly string[])[] {
  const collapsed = segments.filter((segment) => segment !== '');
  const first = resolveDots(collapsed);
  if (!segments.includes('..')) return [first];
  return [first, resolveDots(segments).filter((segment) => segment !== '')];
}

// oxlint-disable-next-line no-control-regex -- control characters are what must not hide a route
const blankOrControl = /[\u0000-\u0020\u007f]/g;

function resolveDots(segments: readonly string[]): string[] {
  const resolved: string[] = [];
  for (const segment of segments) {
    if (segment === '..') resolved.pop();
    else if (segment !== '.') resolved.push(segment);
  }
  return resolved;
}

/** `%41`, and `%u0041` as cpp-httplib (llama-server) reads it. What is malformed stays as it is. */
function decodeOnce(path: string): string {
  return path.replace(/%(?:u([0-9a-f]{4})|([0-9a-f]{2}))/gi, (_, wide: string | undefined, byte: string | undefined) =>
    String.fromCharCode(Number.parseInt(wide ?? byte ?? '', 16)),
  );
}

/** All values of a query parameter, as often as it is given. */
export function queryValues(query: string, name: string): readonly string[] {
  return new URLSearchParams(query).getAll(name);
}

/** The one value of a query parameter; undefined when it is absent, empty, or given twice. */
export function queryValue(query: string, name: string): string | undefined {
  if (query === '') return undefined;
  const values = new URLSearchParams(query).getAll(name);
  return values.length === 1 && values[0] !== '' ? values[0] : undefined;
}

/** Where a target names its model, in the path or else in the query; undefined when not in plain sight. */
export function modelPlace(target: string): { readonly start: number; readonly end: number } | undefined {
  const { path, query } = splitTarget(target);
  if (!target.startsWith(path)) return undefined;
  const inPath = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
  if (inPath !== undefined) return { start: path.length - inPath.length, end: path.length };
  const named = /(?:^|&)model=([^&]+)/.exec(query);
  if (named?.[1] === undefined) return undefined;
  const end = path.length + 1 + named.index + named[0].length;
  return { start: end - named[1].length, end };
}
