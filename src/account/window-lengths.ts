/**
 * The windows that pages show, the same for all of them, and how a page is asked for one. Values only.
 */

/** Milliseconds. */
export const windowLengths = { '1m': 60_000, '5m': 300_000, '60m': 3_600_000 } as const;
export type WindowName = keyof typeof windowLengths;

// Every key of the table is one of its names.
export const windowNames = Object.keys(windowLengths) as readonly WindowName[];

export const windowMessage = `window must be one of ${windowNames.join(', ')}`;

/** `5m`, or without its unit; an hour may be called `1h`. @returns undefined: there is no such window */
export function readWindow(text: string): WindowName | undefined {
  if (text === '1h') return '60m';
  return windowNames.find((name) => name === text || name === `${text}m`);
}
