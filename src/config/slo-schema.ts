/**
 * The part of the schema that says what counts as fast enough and as useful: profiles, whom they are for, checks of answers.
 */
import * as v from 'valibot';

import { noProfile, shippedProfiles, type SloBounds } from '../account/slo/slo-settings.ts';
import { endpointKinds } from '../domain/names.ts';
import * as field from './field.ts';
import { issuePath } from './issue-path.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

const longestMs = 3_600_000;

const profileName = v.pipe(
  field.label('Name of a profile.'),
  v.check((name) => name !== noProfile, `must not be "${noProfile}": that stands for no profile`),
);

const routeMessage = `must be a path that begins with a slash, or one of ${endpointKinds.join(', ')}`;
const route = v.pipe(
  v.string(routeMessage),
  v.check((text) => text.startsWith('/') || (endpointKinds as readonly string[]).includes(text), routeMessage),
);
const model = field.text(512, 'Name of a model.');

function boundMs(says: string) {
  return v.exactOptional(field.wholeNumber({ unit: 'milliseconds', min: 1, max: longestMs }, says));
}

function additionMs(of: string) {
  return v.exactOptional(
    field.wholeNumber(
      { unit: 'milliseconds', min: 0, max: longestMs },
      `Added to ${of} for each 1,000 prompt tokens that were not in the cache.`,
    ),
  );
}

function above0UpTo(max: number, says: string) {
  const message = `must be a number above 0 and up to ${max}`;
  return v.pipe(v.number(message), v.gtValue(0, message), v.maxValue(max, message), v.description(says));
}

const bounds = ['ttft', 'ttfa', 'itl', 'tpot', 'e2e'] as const;

const profile = field.section(
  {
    ttftMs: boundMs("Request's last byte → first visible token."),
    ttftPerKilotokenMs: additionMs('ttftMs'),
    ttfaMs: boundMs("Request's last byte → first token that is not reasoning."),
    ttfaPerKilotokenMs: additionMs('ttfaMs'),
    itlMs: boundMs('Gap between two token events.'),
    itlPerKilotokenMs: additionMs('itlMs'),
    itlShare: v.exactOptional(field.share("Share of a request's gaps that must be within itlMs; 0.95 unless given.")),
    tpotMs: boundMs('Time per output token.'),
    tpotPerKilotokenMs: additionMs('tpotMs'),
    e2eMs: boundMs("Request's last byte → last token; → end of an answer that is not streamed."),
    e2ePerKilotokenMs: additionMs('e2eMs'),
    percent: v.exactOptional(above0UpTo(100, 'Percentage of requests that must meet all bounds; 99 unless given.')),
    readTokenMs: v.exactOptional(
      above0UpTo(
        60_000,
        'Smooth goodput: what its reader takes for a token; itlMs unless given, else tpotMs, else 189 (reading speed).',
      ),
    ),
    waitCostTokensPerSecond: v.exactOptional(
      above0UpTo(
        1_000_000,
        'Smooth goodput: tokens that a second of waiting costs; what a second of reading gives unless given.',
      ),
    ),
  },
  'Bounds that a request must meet, all of them.',
);

const checks = field.section(
  {
    usable: v.optional(
      field.flag('Look whether answers were of use: tool arguments and response_format parse, not cut by length.'),
      false,
    ),
    // A quarter of a mebibyte is about 60,000 tokens: longer JSON is rare.
    maxTextBytes: v.optional(
      field.bytes(KiB, 64 * MiB, 'Text kept of one such answer while it runs; a longer one goes unchecked.'),
      256 * KiB,
    ),
    retries: v.optional(
      field.flag('Look for the same request of the same client after it failed, was left or brought nothing of use.'),
      false,
    ),
    // SDKs retry within seconds, people within half a minute.
    retryWithinMs: v.optional(
      field.milliseconds(1, 'End of the one → arrival of the other, for it to count as its repetition.'),
      30_000,
    ),
  },
  'What is looked for beside time. Off unless turned on.',
);

export const slo = v.pipe(
  field.section(
    {
      default: v.exactOptional(
        field.label(
          'Profile of generating requests that no route and no model below names one for; none unless given.',
        ),
      ),
      routes: v.nullish(
        v.pipe(
          v.record(route, field.label('Name of a profile.'), 'must be a map of route: profile'),
          v.description('route: profile; a path, or a kind of endpoint. Goes before models.'),
        ),
        {},
      ),
      models: v.nullish(
        v.pipe(
          v.record(model, field.label('Name of a profile.'), 'must be a map of model: profile'),
          v.description('model: profile.'),
        ),
        {},
      ),
      profiles: v.nullish(
        v.pipe(
          v.record(profileName, profile, 'must be a map of name: bounds'),
          v.description(
            `name: bounds. With warmlane come ${Object.keys(shippedProfiles).join(', ')}: keys given here change theirs.`,
          ),
        ),
        {},
      ),
      checks: v.nullish(checks, {}),
    },
    'Which answers count as fast enough, and as useful.',
  ),
  v.rawCheck(({ dataset, addIssue }) => {
    const { value } = dataset;
    if (!isMap(value)) return;
    // A profile that isn't there is told beside what is wrong with the rest of the section, not after it.
    const problems = [...unknownNames(value), ...(dataset.typed ? boundless(dataset.value.profiles) : [])];
    for (const { message, keys } of problems) addIssue({ message, path: issuePath(value, keys) });
  }),
);

interface Problem {
  readonly message: string;
  readonly keys: readonly [string, ...string[]];
}

/** @param section as it stands there: what is wrong with the values themselves is told elsewhere */
function unknownNames(section: Readonly<Record<string, unknown>>): Problem[] {
  const problems: Problem[] = [];
  const mapAt = (key: string) => (isMap(section[key]) ? section[key] : {});
  const known = new Set([...Object.keys(shippedProfiles), ...Object.keys(mapAt('profiles'))]);
  const refer = (name: unknown, keys: Problem['keys']) => {
    if (typeof name === 'string' && !known.has(name))
      problems.push({ message: `there is no profile "${name}"; there are ${[...known].join(', ')}`, keys });
  };
  refer(section['default'], ['default']);
  for (const group of ['routes', 'models'] as const)
    for (const [key, name] of Object.entries(mapAt(group))) refer(name, [group, key]);
  return problems;
}

/** What no key of a profile by itself can show: none of its bounds is there, or not the one that another adds to. */
function boundless(profiles: Readonly<Record<string, SloBounds>>): Problem[] {
  const problems: Problem[] = [];
  for (const [name, own] of Object.entries(profiles)) {
    const whole: SloBounds = { ...shippedProfiles[name], ...own };
    if (bounds.every((bound) => whole[`${bound}Ms`] === undefined))
      problems.push({
        message: `needs a bound: ${bounds.map((bound) => `${bound}Ms`).join(', ')}`,
        keys: ['profiles', name],
      });
    for (const bound of bounds) {
      if (whole[`${bound}PerKilotokenMs`] === undefined || whole[`${bound}Ms`] !== undefined) continue;
      const keys = ['profiles', name, `${bound}PerKilotokenMs`] as const;
      problems.push({ message: `is added to ${bound}Ms, which is not given`, keys });
    }
  }
  return problems;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
