/**
 * The part of the schema about the choice of backends: policies and pools, the weights of the cost, sessions, the index of
 * what backends hold, and what is told of one backend's cache. Each default's reason stands above it.
 */
import * as v from 'valibot';

import { policyNames } from '../domain/routing.ts';
import { costDefaults, routeDefaults } from '../route/settings.ts';
import { modelName } from './backend-schema.ts';
import * as field from './field.ts';

const dayMs = 86_400_000;

const policy = field.oneOf(
  policyNames,
  'warm: least cost in seconds, by prefix, load and pace; the others are there to compare with.',
);

function atLeastZero(says: string, most = 100) {
  const message = `must be a number from 0 to ${most}`;
  return v.pipe(v.number(message), v.minValue(0, message), v.maxValue(most, message), v.description(says));
}

const pool = field.section(
  {
    models: v.pipe(
      field.list(modelName, 1000, 'Models as the backends know them.'),
      v.nonEmpty('must name at least one model'),
    ),
    policy,
  },
  'Models whose backends are chosen by a policy of their own.',
);

const pools = v.pipe(
  field.list(pool, 1000, 'A policy for some of the models; all others have routing.policy.'),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const named = new Set<string>();
    for (const [index, { models }] of dataset.value.entries()) {
      for (const [at, model] of models.entries()) {
        if (!named.has(model)) {
          named.add(model);
          continue;
        }
        addIssue({
          message: 'this model is named by a pool already; each has one policy',
          path: [
            { type: 'array', origin: 'value', input: [...dataset.value], key: index, value: models },
            { type: 'object', origin: 'value', input: { models }, key: 'models', value: models },
            { type: 'array', origin: 'value', input: [...models], key: at, value: model },
          ],
        });
      }
    }
  }),
);

export const routing = field.section(
  {
    policy: v.optional(policy, routeDefaults.policy),
    pools: v.nullish(pools, []),
    lambda: v.optional(
      atLeastZero('What a prefill takes from each stream that decodes beside it, as a share of the prefill.'),
      costDefaults.lambda,
    ),
    nu: v.optional(
      atLeastZero('What time per further token counts against time to the first one: one bound over the other.', 1000),
      costDefaults.nu,
    ),
    rho: v.optional(
      atLeastZero('What computing a token evicts where the cache is full, as a multiple of computing it.'),
      costDefaults.rho,
    ),
    kappa: v.optional(
      atLeastZero(
        'What computing a token again that another backend holds costs beside that, where the cache is full, as a multiple of computing it.',
      ),
      costDefaults.kappa,
    ),
    // Its default is filled in by `build.ts`: it depends on what counts as fast enough.
    holdMs: v.exactOptional(
      field.milliseconds(
        0,
        `Nobody is given a prompt while the backlog of every backend takes longer than this; unless given a quarter of the ttftMs of slo.default, without one ${costDefaults.holdMs}.`,
      ),
    ),
    sessionBonusMs: v.optional(
      field.wholeNumber(
        { unit: 'milliseconds', min: 0, max: 60_000 },
        'What a session gains by the backend that served it last.',
      ),
      costDefaults.sessionBonusMs,
    ),
    sessionHeaders: v.nullish(
      field.list(
        field.headerName('x-session-id', 'A header.'),
        16,
        'Request headers that name a session, the first of most weight; prompt_cache_key comes before them.',
      ),
      ['x-session-id'],
    ),
    // An hour: no cache holds a conversation for longer under load.
    sessionTtlMs: v.optional(
      field.wholeNumber({ unit: 'milliseconds', min: 1000, max: dayMs }, 'A session is remembered for so long.'),
      routeDefaults.sessionTtlMs,
    ),
    maxSessions: v.optional(
      field.wholeNumber({ unit: 'sessions', min: 1, max: 1_000_000 }, 'Sessions that are remembered.'),
      routeDefaults.maxSessions,
    ),
    slowStartMs: v.optional(
      field.millisecondsOr('at once', 'A backend that comes back takes its full share after so long.'),
      routeDefaults.slowStartMs,
    ),
    index: v.nullish(
      field.section(
        {
          // About 64 bytes each: 64 MB, the prompts of 30 million tokens of cache.
          maxEntries: v.optional(
            field.wholeNumber(
              { unit: 'entries', min: 1000, max: 100_000_000 },
              'Chunks of prompts (256 bytes to 1 KiB), times backends that hold them.',
            ),
            routeDefaults.index.maxEntries,
          ),
        },
        'What the backends are believed to hold.',
      ),
      {},
    ),
  },
  'Which backend gets a request.',
);

/** A pool's names are those that backends know: an alias among them would be without effect. */
export function aliasesInPools(
  named: readonly { readonly models: readonly string[] }[],
  aliases: Readonly<Record<string, string>>,
) {
  const targets = new Set(Object.values(aliases));
  return named.flatMap(({ models }, index) =>
    models.flatMap((name, at) => {
      if (!Object.hasOwn(aliases, name) || targets.has(name)) return [];
      const keys = ['routing', 'pools', index, 'models', at] as const;
      return [{ message: `${name} is an alias; name ${aliases[name]}`, keys }];
    }),
  );
}
