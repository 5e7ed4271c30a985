/** Small pieces of the Postgres store's SQL. Pure. */

/** `$1, $2, $3` */
export function placeholders(count: number): string {
  return Array.from({ length: count }, (_, index) => `$${index + 1}`).join(', ');
}

/** @param of the table's alias, where several have such columns */
export function columnList(columns: readonly string[], of?: string): string {
  return (of === undefined ? columns : columns.map((column) => `${of}.${column}`)).join(', ');
}

/** Postgres refuses U+0000 in text. Of an id that is looked up this makes one that is nobody's. */
export function filled(id: string): string {
  return id.replaceAll('\u0000', '\ufffd');
}
