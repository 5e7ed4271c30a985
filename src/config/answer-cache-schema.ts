/** The part of the schema about the exact-answer cache: whether it is there, how much it keeps, and for how long. */
import * as v from 'valibot';

import * as field from './field.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

/** Written into answers: a name that means something already (Content-Length) would break them. */
function ownHeaderName(says: string) {
  const message = "must be a header's name that begins with x-, of 3 to 64 characters, such as x-warmlane-cache";
  return v.pipe(v.string(message), v.regex(/^[Xx]-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,62}$/, message), v.description(says));
}

export const answerCache = field.section(
  {
    enabled: v.optional(
      field.flag('Give an earlier answer to the very same request of the same tenant. Keeps answers in memory.'),
      false,
    ),
    // Some tens of thousands of ordinary answers.
    maxBytes: v.optional(
      field.bytes(64 * KiB, 1024 * GiB, 'Answers kept in memory, all together; the longest unused makes room.'),
      64 * MiB,
    ),
    // Long enough for a test suite run again, short enough that a changed model is soon seen.
    ttlMs: v.optional(field.milliseconds(1, 'An answer is given again for so long after it came.'), 600_000),
    // 1 MiB of stream is some 5,000 tokens.
    maxAnswerBytes: v.optional(field.bytes(1, GiB, 'A longer answer is not kept.'), MiB),
    header: v.optional(
      ownHeaderName('Request header: allow, bypass or refresh; and response header: hit or miss.'),
      'x-warmlane-cache',
    ),
    tenantHeaders: v.nullish(
      field.list(
        field.headerName('x-tenant', 'A request header that tells whose request it is.'),
        16,
        'Headers that tell tenants apart beside Authorization, x-api-key, api-key and cookies, such as one that a gateway sets.',
      ),
      [],
    ),
  },
  'The exact-answer cache, off unless enabled; see deploy/answer-cache.md.',
);
