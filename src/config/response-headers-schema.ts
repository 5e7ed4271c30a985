/** The part of the schema that says which headers of warmlane's own an answer has. */
import * as v from 'valibot';

import * as field from './field.ts';

export const responseHeaders = field.section(
  {
    routing: v.optional(
      field.flag('X-Warmlane-Backend, X-Warmlane-Reason, X-Warmlane-Predicted-Cached-Tokens: where it went, and why.'),
      true,
    ),
    serverTiming: v.optional(
      field.flag('Server-Timing: waiting in warmlane, connecting, its own work, the backend until its head.'),
      true,
    ),
  },
  'What answers tell of the way of their request.',
);
