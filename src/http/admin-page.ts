/** A page of the admin listener that some other part fills: it can be read, and nothing else. */

export interface AdminPage {
  /** Begins with a slash. */
  readonly path: string;
  /** One line for the index. */
  readonly about: string;
  /** An object is sent as JSON; text as it is, with its content type. */
  answer(query: URLSearchParams): AdminAnswer | Promise<AdminAnswer>;
}

export type AdminAnswer =
  | { readonly kind: 'json'; readonly value: object }
  | { readonly kind: 'text'; readonly text: string; readonly contentType: string }
  /** What was wrong with the question: 400. */
  | { readonly kind: 'wrong'; readonly message: string; readonly param: string };
