/** Prefix chains for tests: of any body, cut anywhere, as `receive` and `classify` make them. */
import type { BodyReading } from '../../src/classify/endpoint-table.ts';
import { createPromptReader, type PromptReader } from '../../src/classify/prefix-scan.ts';
import { prefixDefaults } from '../../src/classify/settings.ts';
import { keysToScan } from '../../src/classify/wanted-keys.ts';
import type { PrefixChain } from '../../src/domain/prefix.ts';
import { createJsonScan } from '../../src/platform/json-scan.ts';
import { readJsonString } from '../../src/platform/json-value.ts';
import { loadXxhash } from '../../src/platform/xxhash.ts';

export interface ChainOptions {
  /** `chat` unless given. */
  readonly reading?: BodyReading;
  /** Where the body is cut into pieces, in bytes. */
  readonly cutAt?: readonly number[];
  readonly maxChunks?: number;
}

const hash = await loadXxhash();
const keys = keysToScan({ shape: false, prefix: true });

export function promptReader(maxChunks: number = prefixDefaults.maxChunks): PromptReader {
  return createPromptReader({ maxChunks }, hash);
}

/** The chain of a body, given as a value or as JSON text; undefined when it holds no prompt. */
export function findChain(body: unknown, options: ChainOptions = {}): PrefixChain | undefined {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const prompt = promptReader(options.maxChunks)(options.reading ?? 'chat');
  const scan = createJsonScan({ keys, pieces: prompt });
  let from = 0;
  for (const cut of [...(options.cutAt ?? []), bytes.length]
    .map((at) => Math.min(at, bytes.length))
    .toSorted(byNumber)) {
    // A copy that is spoilt afterwards: nothing may be read from a piece later than in its own push.
    const piece = Buffer.from(bytes.subarray(from, cut));
    scan.push(piece);
    piece.fill(0x22);
    from = cut;
  }
  const result = scan.end();
  return result.readable ? prompt?.chain(readJsonString(result.fields.get('model'))) : undefined;
}

/** As `findChain`, for a body that must hold a prompt. */
export function chainOf(body: unknown, options: ChainOptions = {}): PrefixChain {
  const chain = findChain(body, options);
  if (chain === undefined) throw new Error('the body holds no prompt');
  return chain;
}

/** How many keys two prompts have in common from their beginnings on. */
export function sharedKeys(one: PrefixChain, other: PrefixChain): number {
  let shared = 0;
  while (shared < one.keys.length && one.keys[shared] === other.keys[shared]) shared += 1;
  return shared;
}

function byNumber(one: number, other: number): number {
  return one - other;
}
