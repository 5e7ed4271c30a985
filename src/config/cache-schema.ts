/** The part of the schema that tells how one backend's prefix cache works, where the engine doesn't say or says it wrongly. */
import * as v from 'valibot';

import * as field from './field.ts';

export const cachePolicy = field.section(
  {
    blockTokens: v.exactOptional(
      field.wholeNumber(
        { unit: 'tokens', min: 1, max: 65_536 },
        'Reuse is by whole blocks of so many tokens; 1: token by token.',
      ),
    ),
    reuse: v.exactOptional(
      field.oneOf(
        ['prefix', 'whole', 'session', 'none'],
        'prefix: any beginning that it holds; whole: only a held prompt that is continued as a whole; session: only within one session; none.',
      ),
    ),
    capacityTokens: v.exactOptional(
      field.wholeNumber(
        { unit: 'tokens', min: 1, max: 1_000_000_000_000 },
        'Tokens that it holds at most; where the estimate begins, which its answers correct.',
      ),
    ),
  },
  'How its prefix cache works; found out unless given. `warmlane doctor --cache` tells.',
);
