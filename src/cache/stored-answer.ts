/** One answer as it is kept: what its client got, whole. Values, and which answers may be kept at all. Pure. */

export interface StoredAnswer {
  /** Raw names and values in turn, as the client got them less those that belong to one request. */
  readonly headers: readonly string[];
  /** Payload as it was sent to the client, without transfer coding; after anything that was taken out of it. */
  readonly body: Buffer;
  /** Monotonic ms of its end. */
  readonly storedMs: number;
  /** Counts that the engine told; absent is unknown. */
  readonly promptTokens?: number;
  readonly outputTokens?: number;
}

/** Of one request, or of one connection: written anew for each client. */
const perRequest: ReadonlySet<string> = new Set([
  'x-request-id',
  'via',
  'age',
  'server-timing',
  'content-length',
  'transfer-encoding',
]);
/** Where that request went, and why; what its client had left of its limits. */
const ownPrefixes = ['x-warmlane-', 'x-ratelimit-'] as const;

/** Requests are told apart by these when their answers are keyed. */
const keyedBy: ReadonlySet<string> = new Set(['accept', 'origin', 'authorization', 'x-api-key', 'content-type']);
/** Never sent upstream where answers are read, so they change nothing. */
const irrelevant: ReadonlySet<string> = new Set(['accept-encoding']);

/** @returns the headers to keep; undefined when the answer must not be kept */
export function keptHeaders(rawHeaders: readonly string[]): readonly string[] | undefined {
  const kept: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    const key = name.toLowerCase();
    if (forbids(key, value)) return undefined;
    if (!perRequest.has(key) && !ownPrefixes.some((prefix) => key.startsWith(prefix))) kept.push(name, value);
  }
  return kept;
}

function forbids(key: string, value: string): boolean {
  switch (key) {
    case 'content-encoding':
      return !/^\s*(identity)?\s*$/i.test(value);
    case 'set-cookie':
      return true;
    case 'cache-control':
      // Streams say no-cache for those on the way; that they must not be stored is another word.
      return /\bno-store\b/i.test(value);
    case 'vary':
      return value.split(',').some((name) => !isKnown(name.trim().toLowerCase()));
    default:
      return false;
  }
}

function isKnown(name: string): boolean {
  return name === '' || keyedBy.has(name) || irrelevant.has(name);
}

/** About what it takes in memory: strings and an object around the body. */
export function bytesOf({ headers, body }: StoredAnswer): number {
  let bytes = 512 + body.length;
  for (const text of headers) bytes += 2 * text.length + 24;
  return bytes;
}
