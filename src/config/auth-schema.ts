/** The part of the schema about keys that clients must show: whose they are, their lane, their limits. */
import * as v from 'valibot';

import * as field from './field.ts';

const sources = ['key', 'sha256', 'file'] as const;
const shortest = 8;
const keyMessage = `must be ${shortest} to 4096 characters of printable ASCII without blanks`;
const hashMessage = 'must be a SHA-256 as 64 hex digits: printf %s KEY | sha256sum';

const limits = field.section(
  {
    concurrent: v.exactOptional(
      field.wholeNumber(
        { unit: 'requests', min: 1, max: 1_000_000 },
        'Requests that run or wait at one time; one more gets 429.',
      ),
    ),
    requestsPerMinute: v.exactOptional(
      field.wholeNumber({ unit: 'requests', min: 1, max: 100_000_000 }, 'Requests a minute; past them 429.'),
    ),
    tokensPerMinute: v.exactOptional(
      field.wholeNumber(
        { unit: 'tokens', min: 1, max: 1_000_000_000_000 },
        'Tokens of prompts and answers a minute; past them 429.',
      ),
    ),
  },
  'What a tenant may do, all of its keys together, in each warmlane process.',
);

const key = v.pipe(
  field.section(
    {
      name: v.exactOptional(
        field.label('The tenant that it belongs to, for logs, metrics and rules. Several keys may be of one tenant.'),
      ),
      key: v.exactOptional(
        v.pipe(
          v.string(keyMessage),
          v.regex(new RegExp(`^[\\x21-\\x7e]{${shortest},4096}$`), keyMessage),
          v.description('The key itself, better as ${env:NAME}; only its hash is kept.'),
        ),
      ),
      sha256: v.exactOptional(
        v.pipe(
          v.string(hashMessage),
          v.regex(/^[0-9a-fA-F]{64}$/, hashMessage),
          v.description('Its SHA-256 in hex: printf %s KEY | sha256sum'),
        ),
      ),
      file: v.exactOptional(
        field.text(4096, 'File of many keys, a line "name sha256" for each; what stands here holds for all of them.'),
      ),
      lane: v.optional(
        field.oneOf(['online', 'batch'], 'The highest lane that its requests get; they may ask for a lower one.'),
        'online',
      ),
      weight: v.exactOptional(
        field.positive('shares', 1000, 'Share beside other tenants where all want more than there is; 1 unless given.'),
      ),
      models: v.exactOptional(
        field.list(
          field.text(512, 'A model name.'),
          1000,
          'Models that it may use, by the names that clients use; all unless given.',
        ),
      ),
      limits: v.exactOptional(limits),
    },
    'A key, or a file of keys.',
  ),
  v.check(
    (held) => sources.filter((source) => held[source] !== undefined).length === 1,
    `must have exactly one of ${sources.join(', ')}`,
  ),
  v.check(
    (held) => (held.name === undefined) === (held.file !== undefined),
    'must have a name, unless it is a file, whose lines have names',
  ),
);

export const auth = field.section(
  {
    keys: v.pipe(
      field.list(key, 10_000, 'Who may ask.'),
      v.nonEmpty('must hold a key; leave auth out to ask for none'),
    ),
    dropHeaders: v.nullish(
      field.list(
        field.headerName('cookie', 'A request header.'),
        64,
        'Headers besides Authorization, x-api-key and api-key that hold credentials and never go on to backends.',
      ),
      ['cookie', 'x-goog-api-key'],
    ),
    unknownIds: v.optional(
      field.oneOf(
        ['refuse', 'pass'],
        'Requests that name a response or conversation of which nobody knows here whose it is: 404, or on to a backend.',
      ),
      'refuse',
    ),
  },
  'Keys that clients must show, on every path but /livez, /readyz and /health; see deploy/auth.md. Without it none is asked for.',
);
