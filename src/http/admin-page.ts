/** A page of the admin listener that some other part fills: it can be read, and nothing else. */

export interface AdminPage {
  /** Begins with a slash. */
  readonly path: string;
  /** One line for the index. */
  readonly about: string;
  /** Query parameters that it knows: any other, and one that is there twice, is refused. Absent: none is looked at. */
  readonly params: readonly string[] | undefined;
  /** What stands behind the path, such as `request id`: the page is at `path/…`, and nowhere else. Absent: it is at `path`. */
  readonly of?: string;
  /**
   * An object is sent as JSON, a long one in pieces; text as it is, with its content type.
   * @param of what stood behind the path; '' for a page that has nothing there
   */
  answer(query: URLSearchParams, of: string): AdminAnswer | Promise<AdminAnswer>;
}

export type AdminAnswer =
  | { readonly kind: 'json'; readonly value: object }
  /** Has lists that are long, or iterables in their place that make each item when it is written. */
  | { readonly kind: 'long'; readonly value: object }
  | { readonly kind: 'text'; readonly text: string; readonly contentType: string }
  /** There is nothing of what stood behind the path, as the message says: 404. */
  | { readonly kind: 'missing'; readonly message: string; readonly code?: string }
  /** What was wrong with the question: 400. */
  | { readonly kind: 'wrong'; readonly message: string; readonly param: string };

/** @returns what is wrong with a query whatever its values say; undefined: nothing */
export function wrongQuery(
  query: URLSearchParams,
  known: readonly string[] | undefined,
): Extract<AdminAnswer, { kind: 'wrong' }> | undefined {
  if (known === undefined) return undefined;
  const allowed = known.length === 0 ? 'there are none here' : `allowed are ${known.join(', ')}`;
  for (const param of query.keys()) {
    if (!known.includes(param)) return { kind: 'wrong', param, message: `unknown parameter; ${allowed}` };
    if (query.getAll(param).length > 1) return { kind: 'wrong', param, message: `${param} may be given once` };
  }
  return undefined;
}
