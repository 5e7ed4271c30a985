/** Plays one candidate on one part of a setting. Loaded by `evaluate.mjs`; the same seeds give the same figures. */
import { type Candidate, laneCandidates } from './candidates.ts';
import type { LaneFigures } from './figures.ts';
import { type Lived, type Recovery, recoveryOf } from './recovery.ts';
import { laneSettings, type LanePart, type LaneSetting } from './settings.ts';
import { playLanes } from './stage.ts';
import { tableOf } from './table.ts';
import { createLines, onlineWork, type TraceFiles } from './workload.ts';

export interface LaneRow {
  readonly setting: string;
  readonly source: string;
  readonly part: LanePart;
  readonly candidate: string;
  readonly kind: Candidate['kind'];
  readonly figures: LaneFigures;
  /** only of `step`, where online alone was played as well */
  readonly recovery?: Recovery;
}

export interface Played {
  readonly row: LaneRow;
  readonly lived: Lived;
}

export { laneCandidates, laneSettings, tableOf };

export interface PartsWanted {
  readonly short: boolean;
  readonly 'held-out': boolean;
}

export function partsOf({ parts, shortPart }: LaneSetting, wanted: PartsWanted): readonly LanePart[] {
  if (wanted.short) return [shortPart];
  return wanted['held-out'] ? parts.filter(({ heldOut }) => heldOut) : parts;
}

export function playOne(setting: LaneSetting, part: LanePart, about: PlayAbout): Played {
  const { candidate, files, alone } = about;
  const { source, work } = onlineWork(setting, part, files);
  const { figures, lived } = playLanes(setting, candidate, {
    seconds: part.seconds,
    online: work,
    nextLine: createLines(part.seed),
  });
  const { name, kind } = candidate;
  const row: LaneRow = { setting: setting.name, source, part, candidate: name, kind, figures };
  if (setting.online !== 'step') return { row, lived };
  const usual = kind === 'online only' ? lived : alone;
  return { row: usual === undefined ? row : { ...row, recovery: recoveryOf(lived, usual) }, lived };
}

export interface PlayAbout {
  readonly candidate: Candidate;
  readonly files: TraceFiles;
  /** the same part without batch, to compare with */
  readonly alone?: Lived | undefined;
}
