/**
 * Label values from outside are made fit for every reader: no control characters, no halves of surrogate pairs, not
 * longer than a limit (C190). Pure.
 */

/** Characters of a label value; longer ones end in `…`. */
export const maxLabelLength = 128;

/** Control characters, line separators, and lone surrogates, which have no UTF-8. */
// eslint-disable-next-line no-control-regex -- control characters are what must not get through
const unfit = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]|\p{Surrogate}/gu;
/** Without state, and quicker on what is nearly always there. */
const plain = /^[\u0020-\u007e]*$/;

/** @returns the same string when there is nothing to change */
export function labelText(value: string): string {
  if (value.length <= maxLabelLength && plain.test(value)) return value;
  // Cut before anything else: a value may be as long as a request body.
  const short = value.length <= maxLabelLength ? value : `${value.slice(0, maxLabelLength - 1)}…`;
  return short.replace(unfit, '\ufffd');
}
