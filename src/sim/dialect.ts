/**
 * What the HTTP server and a dialect say to each other: one exchange at a time, and the server's state of life.
 * Types and the one header that all simulated answers share; no behaviour.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Engine } from './engine.ts';
import type { Reply } from './reply.ts';

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly reply: Reply;
  /** How many requests came on this connection, this one included. */
  readonly numberOnConnection: number;
}

/** States that a real server goes through. */
export type ServerLife =
  /** llama-server: 503 to everything. (vLLM's port refuses meanwhile.) */
  | 'loading'
  | 'ready'
  /** vLLM's `--shutdown-timeout`: running answers finish, new ones get 500, `/health` stays 200 */
  | 'draining'
  /** SIGTERM: the port refuses, open answers fall silent */
  | 'silent'
  /** the engine process died: running answers fail, new ones get 500, `/health` 503 */
  | 'dead';

export interface Dialect {
  readonly engine: Engine;
  /** Answers, now or later, and never throws. */
  handle(exchange: Exchange): void;
  /** The server's life has changed; what that means for running answers is the dialect's business. */
  enter(life: ServerLife): void;
}

/** Header that every simulated answer carries, so that nobody takes it for a real one. */
export const simulatedHeader = ['x-simulated', 'warmlane'] as const;
