/** What the store's two sides tell each other: a call by its method's name, and its answer by the call's number. Plain data. */
import type { CallName, StoreCalls } from './sqlite-core.ts';
import type { StoreFault } from './port.ts';

export type SqliteCall = {
  readonly [Name in CallName]: {
    readonly id: number;
    /** the calling thread's clock */
    readonly nowMs: number;
    readonly name: Name;
    readonly given: Parameters<StoreCalls[Name]>;
  };
}[CallName];

export type ToWorker = SqliteCall | { readonly id: number; readonly name: 'close' };

export type FromWorker =
  | { readonly id: number; readonly value: unknown }
  /** `fault` is missing where it is a bug of ours */
  | { readonly id: number; readonly fault: StoreFault | undefined; readonly message: string };
