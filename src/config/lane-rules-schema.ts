/** The part of the schema about rules that put requests into lanes: `lanes.rules`. */
import * as v from 'valibot';

import * as field from './field.ts';

const conditions = ['path', 'model', 'tenant', 'header'] as const;

const rule = v.pipe(
  field.section(
    {
      path: v.exactOptional(
        field.text(
          1024,
          'A path (/v1/embeddings; * at its end: whatever begins so), or a kind of endpoint: chat, completions, responses, messages, embeddings …',
        ),
      ),
      model: v.exactOptional(
        field.text(
          512,
          'Model as clients name it, or the one that an alias stands for; * at its end: whatever begins so.',
        ),
      ),
      tenant: v.exactOptional(field.label('Name of a tenant, as under auth.keys.')),
      header: v.exactOptional(
        field.section(
          {
            name: field.headerName('x-job', 'Name of a request header.'),
            value: v.exactOptional(field.text(1024, 'What it must say; unless given, it only has to be there.')),
          },
          'A request header. Whoever asks can send it, so such a rule can only lower: lane batch.',
          field.belongsTo('name'),
        ),
      ),
      lane: field.oneOf(['online', 'batch'], 'The lane; a request gets the lowest of this and of what its key allows.'),
    },
    'A rule; all of its conditions must hold.',
  ),
  v.check(
    (held) => conditions.some((key) => held[key] !== undefined),
    `must have one or more of ${conditions.join(', ')}`,
  ),
  v.check(
    (held) => held.header === undefined || held.lane === 'batch',
    'a rule with a header must have lane: batch, since whoever asks can send that header',
  ),
);

export const laneRules = field.list(
  rule,
  1000,
  'Which requests belong to which lane; the first rule that matches counts. Without one: the lane of the key, else online.',
);
