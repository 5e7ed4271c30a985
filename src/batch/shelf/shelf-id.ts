/** Ids that may name a file: one path segment that hides nothing. */

/** @throws Error: ids are made here, so another one is a bug, and never a path out of the directory */
export function checkedId(id: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(id))
    throw new Error(`no id of a file: ${JSON.stringify(id.slice(0, 140))}`);
  return id;
}
