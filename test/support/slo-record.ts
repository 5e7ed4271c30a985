/**
 * Records for objectives: a request received at 1000 ms, its steps and token events given in ms after that. Figures follow
 * from the moments, as `measure/figures.ts` defines them.
 */
import { allProfiles, type SloBounds, type SloProfile } from '../../src/account/slo/slo-settings.ts';
import type { Outcome } from '../../src/domain/names.ts';
import type { RequestRecord, TokenStamps } from '../../src/domain/record.ts';
import { sampleRecord } from './sample-record.ts';

export const beganMs = 1000;

export interface Course {
  readonly outcome?: Outcome;
  readonly queued?: number;
  readonly admitted?: number;
  readonly connected?: number;
  readonly sent?: number;
  readonly head?: number;
  /** Moments of the token events. */
  readonly tokens?: readonly number[];
  readonly firstAnswer?: number;
  readonly end?: number;
  /** Whole output as the engine counted it; the number of events unless given. */
  readonly output?: number;
  readonly more?: Partial<RequestRecord>;
  readonly stamps?: Partial<TokenStamps>;
}

export function streamOf(course: Course): RequestRecord {
  const { outcome = 'ok', tokens = [], queued = 0, more = {} } = course;
  const at = (ms: number | undefined) => (ms === undefined ? undefined : beganMs + ms);
  const first = tokens[0];
  const last = tokens.at(-1);
  const end = course.end ?? last ?? course.head ?? 0;
  const answer = course.firstAnswer ?? first;
  const output = course.output ?? tokens.length;
  const moments = {
    received: beganMs - 1,
    receivedLast: beganMs,
    queued: at(queued),
    admitted: at(course.admitted),
    connected: at(course.connected),
    sent: at(course.sent),
    head: at(course.head),
    firstToken: at(first),
    firstAnswer: at(answer),
    lastToken: at(last),
    end: at(end),
  };
  return sampleRecord({
    outcome,
    streamed: true,
    backend: 'b1',
    model: 'm',
    events: tokens.length,
    tokens: output === 0 ? {} : { output: { value: output, source: 'usage' } },
    timeline: withoutUndefined(moments),
    figures: withoutUndefined({
      ttftMs: first,
      ttfaMs: answer,
      e2eMs: last,
      durationMs: end,
      tpotMs: output > 1 && first !== undefined && last !== undefined ? (last - first) / (output - 1) : undefined,
      tpotWindow: output > 1 ? ('visible' as const) : ('none_single_token' as const),
    }),
    ...(tokens.length === 0
      ? {}
      : { stamps: { atMs: Float64Array.from(tokens, (ms) => beganMs + ms), ...course.stamps } }),
    ...more,
  });
}

/** A course through warmlane without waiting: everything up to the engine takes 4 ms. */
export const straight = { queued: 1, admitted: 2, connected: 3, sent: 4, head: 5 } as const;

export function profileOf(bounds: SloBounds, name = 'p'): SloProfile {
  const found = allProfiles({ [name]: bounds }).find((profile) => profile.name === name);
  if (found === undefined) throw new Error('no such profile');
  return found;
}

export function shipped(name: string): SloProfile {
  const found = allProfiles({}).find((profile) => profile.name === name);
  if (found === undefined) throw new Error(`no profile ${name}`);
  return found;
}

type Defined<T> = { [Key in keyof T]: Exclude<T[Key], undefined> };

function withoutUndefined<T extends object>(from: T): Defined<T> {
  // What is undefined is left out, so the rest is defined.
  return Object.fromEntries(Object.entries(from).filter(([, value]) => value !== undefined)) as Defined<T>;
}
