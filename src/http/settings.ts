/** The two listeners. */
import type { CorsSettings } from './cors.ts';

export interface ListenSettings {
  readonly host: string;
  readonly port: number;
}

export interface HttpSettings {
  readonly listen: ListenSettings;
  readonly admin: ListenSettings;
  /** Who may change the fleet on the admin listener: whoever reaches it, if that is this machine alone (`loopback`), or anyhow. */
  readonly adminChanges: 'loopback' | 'always' | 'never';
  /** PEM texts of the data listener's own certificate; absent: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Largest request body that is held (JSON); a larger one is 413. */
  readonly maxBodyBytes: number;
  /** All held bodies together; past it new ones are refused with 503. */
  readonly maxHeldBytes: number;
  /** Absolute limit for a client's request head; then 408. */
  readonly requestHeadMs: number;
  /** Absolute limit for a client's whole request; 0: none. */
  readonly requestMs: number;
  /** `abort`: a client's FIN means that it is gone, as the engines themselves take it; `finish`: it may half-close and read on. */
  readonly clientHalfClose: 'abort' | 'finish';
  readonly cors: CorsSettings;
  /** SIGTERM → streams still open are ended. */
  readonly drainMs: number;
  /** Finished requests kept for the admin listener. */
  readonly maxRecords: number;
  /** Memory of the kept records' token stamps, all together. */
  readonly maxRecordBytes: number;
}
