/** How near one backend came to its ceiling in the last minute, as metrics show it. Absent figures are not known. Values only. */

export interface CeilingFigures {
  readonly backend: string;
  readonly mfu?: number | undefined;
  readonly mfuWithoutCache?: number | undefined;
  readonly mbu?: number | undefined;
  readonly shareOfCeiling?: number | undefined;
  readonly flopsPerSecond?: number | undefined;
  readonly savedFlopsPerSecond?: number | undefined;
  readonly meanConcurrency?: number | undefined;
  readonly decodingShare: number;
  readonly prefillTokensPerSecond?: number | undefined;
  readonly prefillFixedSeconds?: number | undefined;
  readonly prefillRSquared?: number | undefined;
  readonly outputTokenWeight?: number | undefined;
  readonly engineMfu?: number | undefined;
  readonly engineMbu?: number | undefined;
  readonly problems: number;
}
