/**
 * A request on its way at a backend, as the lanes look at it at each tick: who has it, how far its answer has come, and what it
 * is to be judged by. Read from the passage and its observer when somebody asks; nothing is done for each token.
 */
import type { StreamBound } from './admit/online-feel.ts';
import { isWarmUp, type Passage, type PassageStream } from './passage.ts';

/** @returns the same object for one passage on one backend, brought up to date; undefined: it is at none, or yields no tokens */
export function liveStreamOf(passage: Passage, boundOf: BoundOf): PassageStream | undefined {
  const { job, backend, observer } = passage;
  if (job?.generates !== true || backend === undefined || isWarmUp(passage)) return undefined;
  const live = passage.live?.backend === backend ? passage.live : (passage.live = begin(passage, backend, boundOf));
  observer.progress(live);
  return live;
}

/** @param promptTokens those that have to be computed */
export type BoundOf = (job: NonNullable<Passage['job']>, promptTokens: number) => StreamBound;

/** About so many bytes of a request make a prompt token. */
const bytesPerToken = 4;

function begin({ job, errand }: Passage, backend: string, boundOf: BoundOf): PassageStream {
  const promptTokens = errand?.promptTokens ?? (job?.bodyBytes ?? 0) / bytesPerToken;
  return {
    backend,
    lane: job?.lane ?? 'online',
    streams: job?.stream === true && job.measured,
    askedMs: 0,
    sentMs: undefined,
    firstTokenMs: undefined,
    lastTokenMs: undefined,
    tokens: 0,
    events: 0,
    promptTokens,
    bound: job === undefined ? unbound : boundOf(job, errand?.uncachedTokens ?? promptTokens),
  };
}

const unbound: StreamBound = { ttftMs: Infinity, tpotMs: Infinity };
