/**
 * XXH64 over bytes that come in pieces. Fast, not cryptographic: for telling equal from different where a collision costs
 * little, never for secrets or keys. Loaded (WebAssembly) only by who needs it.
 */
import xxhash from 'xxhash-wasm';

export interface HashStream {
  update(bytes: Uint8Array | string): HashStream;
  /** 64 bits. */
  digest(): bigint;
}

export interface Xxhash {
  start(seed: bigint): HashStream;
}

export async function loadXxhash(): Promise<Xxhash> {
  const api = await xxhash();
  return { start: (seed) => api.create64(seed) };
}
