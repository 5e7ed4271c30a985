/**
 * Numbers in place of keys, so that equal keys can be told and nothing else: one AES block each, under a key that nobody has but this
 * process, and that is gone with it. Who has the keys' recipe and a guess at a prompt can't test the guess.
 */
import { createCipheriv, randomBytes } from 'node:crypto';

const blockBytes = 16;

/** Blinds whole numbers of up to 53 bits, in order: whole numbers of 48 bits, equal for equal keys. */
export type KeyBlinder = (keys: readonly number[]) => number[];

/** @param secret 16 bytes; random unless given */
export function createKeyBlinder(secret: Uint8Array = randomBytes(blockBytes)): KeyBlinder {
  // Each block by itself is what is wanted here: equal in, equal out.
  const cipher = createCipheriv('aes-128-ecb', secret, null).setAutoPadding(false);
  return (keys) => {
    const plain = Buffer.alloc(keys.length * blockBytes);
    for (const [index, key] of keys.entries()) plain.writeDoubleLE(key, index * blockBytes);
    const blinded = cipher.update(plain);
    return keys.map((_, index) => blinded.readUIntLE(index * blockBytes, 6));
  };
}
