/** Plays one candidate on one part of a setting. Loaded by `evaluate.mjs`; the same seeds give the same figures. */
import { type Candidate, laneCandidates } from './candidates.ts';
import type { LaneFigures } from './figures.ts';
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
}

export { laneCandidates, laneSettings, tableOf };

export function partsOf({ parts, shortPart }: LaneSetting, short: boolean): readonly LanePart[] {
  return short ? [shortPart] : parts;
}

export function playOne(setting: LaneSetting, part: LanePart, about: PlayAbout): LaneRow {
  const { candidate, files } = about;
  const { source, work } = onlineWork(setting, part, files);
  const figures = playLanes(setting, candidate, {
    seconds: part.seconds,
    online: work,
    nextLine: createLines(part.seed),
  });
  const { name, kind } = candidate;
  return { setting: setting.name, source, part, candidate: name, kind, figures };
}

export interface PlayAbout {
  readonly candidate: Candidate;
  readonly files: TraceFiles;
}
