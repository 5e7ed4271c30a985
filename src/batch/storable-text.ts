/** Texts that every store gives back as they were: Postgres has no U+0000, and UTF-8 no half of a surrogate pair. Pure. */

export function isStorable(text: string): boolean {
  return !text.includes('\u0000') && !/\p{Surrogate}/u.test(text);
}
