/** How much the warm index holds, for metrics and the admin listener. Values only; `route/warm` fills it. */

export interface WarmState {
  readonly entries: number;
  readonly maxEntries: number;
  readonly bytes: number;
  /** entries that had to make room for others, since the start */
  readonly trimmed: number;
  readonly backends: readonly WarmBackendState[];
}

export interface WarmBackendState {
  readonly backend: string;
  readonly entries: number;
  readonly heldTokens: number;
  /** tokens inserted after which an untouched prefix is taken to be gone (Che's characteristic time); absent while that is a guess */
  readonly horizonTokens?: number;
  /** predicted less told, and its size, as a share of the prompt; absent without an answer that told */
  readonly bias?: number;
  readonly error?: number;
  readonly flushes: number;
  /** how often the prediction was off for so long that the horizon began anew */
  readonly driftResets: number;
  /** it told again and again that it had nothing of what it was sent before: taken to hold nothing until it does */
  readonly distrusted: boolean;
}
