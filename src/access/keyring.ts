/**
 * Finds the key that a request shows among those that are known, by their hashes, in a time that tells nothing of them.
 * Keys lie in slots by a hash under a secret of this process: whoever asks can't know which keys share a slot with theirs.
 * All of a slot are compared, each in constant time, wherever the right one lies; a slot that is empty compares with a decoy.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

export interface KnownKey {
  /** 64 hex digits in lower case */
  readonly sha256: string;
}

export interface Keyring<Key extends KnownKey> {
  /** A few microseconds, however many keys there are. */
  find(key: string): Key | undefined;
}

interface Entry<Key> {
  readonly hash: Buffer;
  readonly key: Key;
}

/** @param equal compares two buffers of 32 bytes in constant time */
export function createKeyring<Key extends KnownKey>(
  keys: readonly Key[],
  equal: (one: Buffer, other: Buffer) => boolean = timingSafeEqual,
): Keyring<Key> {
  const secret = randomBytes(32);
  const decoy = randomBytes(32);
  // A power of two with room to spare: one key a slot, mostly.
  const count = 2 ** Math.max(8, Math.min(16, Math.ceil(Math.log2(2 * keys.length + 1))));
  const slots: Entry<Key>[][] = Array.from({ length: count }, () => []);
  const slotOf = (hash: Buffer): number =>
    createHash('sha256').update(secret).update(hash).digest().readUInt16LE() & (count - 1);
  for (const key of keys) {
    const hash = Buffer.from(key.sha256, 'hex');
    slots[slotOf(hash)]?.push({ hash, key });
  }

  return {
    find(key) {
      const hash = createHash('sha256').update(key, 'latin1').digest();
      const slot = slots[slotOf(hash)];
      let found: Key | undefined;
      if (slot === undefined || slot.length === 0) equal(hash, decoy);
      else for (const entry of slot) if (equal(hash, entry.hash)) found = entry.key;
      return found;
    },
  };
}
