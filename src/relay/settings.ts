/** Deadlines, bounds and the few permitted changes of the relay. 0 switches a deadline off unless said otherwise. */
export interface RelaySettings {
  readonly deadlines: {
    readonly connectMs: number;
    /**
     * sent → response head, for streamed requests, without the share for the prompt;
     * for all requests: how long a backend may take no byte of the body
     */
    readonly headMs: number;
    /** sent → first token, for streamed requests, without the share for the prompt */
    readonly firstTokenMs: number;
    /** added to `headMs` and `firstTokenMs` for each KiB of request body: a long prefill is silent */
    readonly perBodyKibMs: number;
    /** silence between two content events; comments and pings are no content */
    readonly contentStallMs: number;
    /** as `contentStallMs`, once the backend's port was seen to refuse */
    readonly refusedStallMs: number;
    /** sent → end of the answer, everything */
    readonly totalMs: number;
    /**
     * a client that takes no byte for so long is cut; the kernel tells of taken bytes in steps of a third of its send
     * buffer, which on Linux grows to 4 MiB by default: a slow reader shows progress only that often
     */
    readonly clientStallMs: number;
  };
  /** Heartbeat comment towards the client while the answer is silent; 0: off. */
  readonly heartbeatMs: number;
  /** On engines known to answer 200 and then an error: the head waits for the first event, at most so long. */
  readonly headHoldMs: number;
  /** Bytes towards a slow client kept per stream before the backend is paused. */
  readonly maxBufferedBytes: number;
  /** `ask`: on vLLM and SGLang usage is asked for and stripped again; `passive`: nothing is changed. */
  readonly usage: 'ask' | 'passive' | 'per_event';
  /** Send a request again after its backend crashed while working on it (once, decision 11). Off: 502 at once. */
  readonly retryAfterCrash: boolean;
  /** Pass `X-Conversation-Id` on to llama-server, where it makes aborted requests run on (decision 9). */
  readonly passConversationId: boolean;
  /** What answers tell of warmlane's own work. */
  readonly responseHeaders: {
    /** X-Warmlane-Backend, X-Warmlane-Reason and X-Warmlane-Predicted-Cached-Tokens. */
    readonly routing: boolean;
    readonly serverTiming: boolean;
  };
}
