/** The part of the schema about prefill ahead of time: which prompts, how many at once, how long each may take. */
import * as v from 'valibot';

import * as field from './field.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

/** What one file of the config may hold. */
const longestText = 1024 * 1024;

const message = field.section(
  {
    role: field.text(64, 'system, user, assistant …'),
    content: field.text(longestText, 'Its text.'),
  },
  'A message.',
);

const kinds = ['messages', 'prompt', 'body', 'file'] as const;
const oneKind = `must have exactly one of ${kinds.join(', ')}`;

const prompt = v.pipe(
  field.section(
    {
      model: v.exactOptional(field.text(512, 'Model that messages or prompt are for, as clients name it.')),
      path: v.exactOptional(
        v.pipe(
          v.string('must be a path that begins with a slash'),
          v.regex(/^\/\S{0,1023}$/, 'must be a path that begins with a slash'),
          v.description('Route that it is sent to; unless given /v1/chat/completions, with prompt /v1/completions.'),
        ),
      ),
      messages: v.exactOptional(field.list(message, 1000, 'The beginning of a chat.')),
      prompt: v.exactOptional(field.text(longestText, 'The beginning of a text to complete.')),
      body: v.exactOptional(field.text(longestText, "A request's body as clients send it, as JSON text.")),
      file: v.exactOptional(field.text(4096, 'File with such a body; relative to this file.')),
    },
    'A prompt: one of messages, prompt, body and file.',
  ),
  v.check((held) => kinds.filter((kind) => held[kind] !== undefined).length === 1, oneKind),
  v.check(
    (held) => held.model === undefined || held.messages !== undefined || held.prompt !== undefined,
    'must name its model in the body itself',
  ),
);

const hottest = field.section(
  {
    enabled: v.optional(
      field.flag(
        "Remember what many prompts begin with, and warm that too. Keeps that part of clients' prompts in memory.",
      ),
      false,
    ),
    count: v.optional(
      field.wholeNumber(
        { unit: 'prompts', min: 1, max: 256 },
        'How many of them are sent to a backend that comes back.',
      ),
      8,
    ),
    // A beginning of 8,000 tokens is about 32 KiB.
    maxBytes: v.optional(field.bytes(4 * KiB, GiB, "Clients' text kept for it, all together."), 8 * MiB),
  },
  'What clients send most, by opt-in.',
);

export const warmUp = field.section(
  {
    prompts: v.nullish(field.list(prompt, 256, 'Sent to each backend that starts or comes back, while it idles.'), []),
    hottest: v.nullish(hottest, {}),
    maxConcurrentPerFleet: v.optional(
      field.wholeNumber(
        { unit: 'backends', min: 1, max: 1000 },
        'Backends that are warmed at once; one prompt at a time on each.',
      ),
      2,
    ),
    // As long as a first token may take.
    timeoutMs: v.optional(field.milliseconds(1, "One prompt's prefill; then it counts as failed."), 120_000),
  },
  'Prefill ahead of time; see deploy/warm-up.md.',
);
