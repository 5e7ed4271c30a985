/** What the exact-answer cache tells of itself. All but the last three only rise. */
export interface AnswerCacheFigures {
  readonly hits: number;
  readonly misses: number;
  readonly stored: number;
  /** for want of room; what was too old is not among them */
  readonly evicted: number;
  readonly replayedBytes: number;
  /** of answers that were given again and told their counts */
  readonly savedPromptTokens: number;
  readonly savedOutputTokens: number;
  readonly entries: number;
  readonly bytes: number;
  /** of answers that are under way and may be kept */
  readonly recordingBytes: number;
}
