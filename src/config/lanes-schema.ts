/** The part of the schema about the two lanes: what belongs to which, what waits how long, and what batch may use. */
import * as v from 'valibot';

import { laneDefaults } from '../admit/lane-settings.ts';
import * as field from './field.ts';
import { laneRules } from './lane-rules-schema.ts';

/** The defaults' reasons stand with them, in `admit/lane-settings.ts`. */
const { batch, control, reclaim, maxQueuedTokens, refuseBeyond } = laneDefaults;

const manyTokens = { unit: 'tokens', min: 0, max: 1_000_000_000_000 } as const;

/** From 0 up to `max`. */
function number(range: { readonly of: string; readonly zero: string; readonly max: number }, says: string) {
  const message = `must be a number${range.of} from 0 (${range.zero}) to ${range.max}`;
  return v.pipe(v.number(message), v.minValue(0, message), v.maxValue(range.max, message), v.description(says));
}

const capMessage = 'must be adaptive, or a whole number of jobs from 0 to 100000';

/** The environment gives numbers as text. */
const cap = v.pipe(
  v.union([v.string(), v.number()], capMessage),
  v.description('adaptive: as many as online users bear; or a fixed number of batch jobs on each backend.'),
  v.rawTransform(({ dataset, addIssue, NEVER }): 'adaptive' | number => {
    const { value } = dataset;
    if (value === 'adaptive') return value;
    const jobs = value === '' ? Number.NaN : Number(value);
    if (Number.isInteger(jobs) && jobs >= 0 && jobs <= 100_000) return jobs;
    addIssue({ message: capMessage });
    return NEVER;
  }),
);

const batchLane = field.section(
  {
    maxJobs: v.optional(
      field.wholeNumber(
        { unit: 'jobs', min: 0, max: 1_000_000, zero: 'none wait' },
        'Batch jobs that may wait at once, lines of batches under way among them; one more is refused with 429.',
      ),
      batch.maxQueuedJobs,
    ),
    maxQueuedTokens: v.optional(
      field.wholeNumber(manyTokens, 'Tokens of their prompts, estimated; one alone may wait however long it is.'),
      batch.maxQueuedTokens,
    ),
    timeoutMs: v.optional(
      field.millisecondsOr(
        'no limit',
        'Longest wait of a batch job whose client waits for it; then 503. Lines of batches wait on.',
      ),
      batch.queueTimeoutMs,
    ),
    minShare: v.optional(
      number(
        { of: '', zero: 'none: online always goes first', max: 1 },
        "Part of each backend's places, rounded up, that batch gets whatever online wants.",
      ),
      batch.minShare,
    ),
    agingMs: v.optional(
      field.millisecondsOr('never', 'A batch job that has waited for so long goes before online ones that came later.'),
      batch.agingMs,
    ),
    reserveSlots: v.optional(
      field.wholeNumber(
        { unit: 'places', min: 0, max: 100_000 },
        'Places of each backend that batch leaves free while anybody was online lately.',
      ),
      batch.reserveSlots,
    ),
  },
  'The waiting room of batch, and what is guaranteed to it.',
);

const controller = field.section(
  {
    cap: v.optional(cap, control.cap),
    maxPerBackend: v.optional(
      field.wholeNumber(
        { unit: 'jobs', min: 1, max: 100_000 },
        'Most batch jobs at once on a backend that tells no number of places.',
      ),
      control.maxPerBackend,
    ),
    tickMs: v.optional(
      field.milliseconds(50, 'How often each cap is looked at, while there is batch work.'),
      control.tickMs,
    ),
    threshold: v.optional(
      field.share("Part of an SLO's bound; above it the cap is cut, below it grows."),
      control.threshold,
    ),
    decrease: v.optional(field.share('What is left of the cap after a cut.'), control.decrease),
    increase: v.optional(
      field.positive('jobs', 1000, 'Jobs that the cap grows by at each quiet look.'),
      control.increase,
    ),
    idleMs: v.optional(
      field.milliseconds(0, 'So long after the last online request batch takes all places.'),
      control.idleMs,
    ),
    ttftBoundMs: v.optional(
      field.milliseconds(1, 'Bound on the time to the first token, for requests whose SLO has none.'),
      control.ttftMs,
    ),
    tpotBoundMs: v.optional(
      field.milliseconds(1, 'Bound on the time per further token, for requests whose SLO has none.'),
      control.tpotMs,
    ),
    gate: v.optional(
      field.flag('One batch prompt at a time is computed on a backend, and none beside an online one.'),
      control.gate,
    ),
    enginePriority: v.optional(
      field.flag('Tell engines that schedule by priority whom to take first.'),
      control.enginePriority,
    ),
    trustClientPriority: v.optional(
      field.flag(
        'Leave "priority" in bodies of clients where warmlane puts none in its place. X-Vllm-Priority never passes.',
      ),
      control.trustClientPriority,
    ),
  },
  'How many batch jobs run on a backend beside online ones.',
);

const reclaiming = field.section(
  {
    enabled: v.optional(
      field.flag('End batch jobs, to be run again, where an online request needs their place.'),
      reclaim.enabled,
    ),
    maxTimes: v.optional(
      field.wholeNumber(
        { unit: 'times', min: 0, max: 1000, zero: 'never' },
        'How often one job may be taken back once its answer has begun; while its prompt is computed it always may.',
      ),
      reclaim.maxTimes,
    ),
    afterTtftShare: v.optional(
      field.share(
        'An online request that waits in a full engine longer than this part of its TTFT bound has one taken back.',
      ),
      reclaim.afterTtftShare,
    ),
  },
  'Taking places back from batch.',
);

export const lanes = field.section(
  {
    rules: v.nullish(laneRules, []),
    maxQueuedTokens: v.optional(
      field.wholeNumber(
        manyTokens,
        'Tokens of the prompts of online jobs that wait, estimated; past it 429. How many may wait: queue.maxJobs.',
      ),
      maxQueuedTokens,
    ),
    refuseBeyond: v.optional(
      number(
        { of: '', zero: 'never', max: 1000 },
        'Online requests whose foreseen wait is so many times the TTFT bound of their SLO get 429 at once.',
      ),
      refuseBeyond,
    ),
    batch: v.nullish(batchLane, {}),
    control: v.nullish(controller, {}),
    reclaim: v.nullish(reclaiming, {}),
  },
  'Online goes first, batch uses what that leaves; see deploy/lanes.md.',
);
