/**
 * Finds what belongs to a list of words without building a key: a map of maps. Bounded: past `maxLeaves` what is made is
 * not kept, and is made again each time.
 */

type Branch<Leaf> = Map<string, Branch<Leaf> | Leaf>;

export interface LabelTree<Leaf> {
  /** @param words always as many */
  at(words: readonly string[]): Leaf;
}

export function createLabelTree<Leaf extends object>(
  maxLeaves: number,
  make: (words: readonly string[]) => Leaf,
): LabelTree<Leaf> {
  const root: Branch<Leaf> = new Map();
  let leaves = 0;

  function grow(words: readonly string[]): Leaf {
    const leaf = make(words);
    if (leaves >= maxLeaves) return leaf;
    leaves += 1;
    let branch = root;
    for (const [depth, word] of words.entries()) {
      if (depth === words.length - 1) {
        branch.set(word, leaf);
        break;
      }
      // All lists of words are of one length: above the last word there are only branches.
      const next = (branch.get(word) as Branch<Leaf> | undefined) ?? new Map<string, Branch<Leaf> | Leaf>();
      branch.set(word, next);
      branch = next;
    }
    return leaf;
  }

  return {
    at(words) {
      let found: Branch<Leaf> | Leaf | undefined = root;
      for (let depth = 0; depth < words.length; depth += 1) {
        // As above.
        found = (found as Branch<Leaf>).get(words[depth] ?? '');
        if (found === undefined) return grow(words);
      }
      return found as Leaf;
    },
  };
}
