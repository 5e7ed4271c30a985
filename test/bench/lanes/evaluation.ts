/** Plays every candidate on one setting. Loaded by `evaluate.mjs`; the same seeds give the same figures. */
import { type Candidate, laneCandidates } from './candidates.ts';
import type { LaneFigures } from './figures.ts';
import { laneSettings, type LaneSetting } from './settings.ts';
import { playLanes } from './stage.ts';
import { createLines, onlineWork, type TraceFiles } from './workload.ts';

export interface LaneRow {
  readonly setting: string;
  readonly source: string;
  readonly seconds: number;
  readonly seed: number;
  readonly candidate: string;
  readonly figures: LaneFigures;
}

export { laneCandidates, laneSettings };

export function playOne(setting: LaneSetting, candidate: Candidate, files: TraceFiles): LaneRow {
  const { source, work } = onlineWork(setting, files);
  const figures = playLanes(setting, candidate, { online: work, nextLine: createLines(setting.seed) });
  const { name, seconds, seed } = setting;
  return { setting: name, source, seconds, seed, candidate: candidate.name, figures };
}
