/**
 * Where each session was served last. A hint, never a pin: it lowers that backend's cost a little. Bounded; a session that was
 * not heard of for long is forgotten.
 */
import { LRUCache } from 'lru-cache';

export interface Sessions {
  /** @param session as `job.session`, with the model */
  home(session: string): string | undefined;
  served(session: string, backend: string): void;
}

export function createSessions(
  { maxSessions, sessionTtlMs }: { readonly maxSessions: number; readonly sessionTtlMs: number },
  deps: { readonly nowMs: () => number },
): Sessions {
  const homes = new LRUCache<string, string>({
    max: maxSessions,
    ttl: sessionTtlMs,
    // Without a resolution of its own it sets a timer to keep a moment; here each moment is the given clock's.
    ttlResolution: 0,
    perf: { now: deps.nowMs },
  });
  return {
    home: (session) => homes.get(session),
    served: (session, backend) => void homes.set(session, backend),
  };
}
