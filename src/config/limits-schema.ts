/**
 * The part of the schema that bounds one request: what clients may send, how long they wait, how long each step may take,
 * what is kept of a stream and read of an answer. Each default's reason stands above it.
 */
import * as v from 'valibot';

import * as field from './field.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

export const clients = v.pipe(
  field.section(
    {
      // 64 MiB: a dozen pictures in one chat; model servers take no more by default either.
      maxBodyBytes: v.optional(
        field.bytes(1, GiB, 'Largest request body; a larger one is refused with 413.'),
        64 * MiB,
      ),
      // Four of the largest at once, or thousands of ordinary ones.
      maxHeldBytes: v.optional(
        field.bytes(1, 1024 * GiB, 'All request bodies held at one time together; past it new ones get 503.'),
        256 * MiB,
      ),
      halfClose: v.optional(
        field.oneOf(
          ['abort', 'finish'],
          'When a client closes its sending side: abort (it is gone) or finish (it reads on).',
        ),
        'abort',
      ),
    },
    'What clients may send.',
  ),
  v.forward(
    v.partialCheck(
      [['maxBodyBytes'], ['maxHeldBytes']],
      ({ maxBodyBytes, maxHeldBytes }) => maxHeldBytes >= maxBodyBytes,
      'must be at least clients.maxBodyBytes, else the largest body never fits',
    ),
    ['maxHeldBytes'],
  ),
);

export const queue = field.section(
  {
    maxJobs: v.optional(
      field.wholeNumber(
        { unit: 'jobs', min: 0, max: 1_000_000, zero: 'none wait' },
        'Jobs that may wait for a place at a backend; one more is refused with 429.',
      ),
      1000,
    ),
    // As long as a first token may take: nobody waits longer for a place than for the answer's beginning.
    timeoutMs: v.optional(field.milliseconds(1, 'Longest wait for a place; then 503 with Retry-After.'), 120_000),
  },
  'The waiting room before full backends.',
);

export const deadlines = field.section(
  {
    // A minute for a head of a few KiB ends slow-header attacks and spares the slowest honest link.
    requestHeadMs: v.optional(field.milliseconds(1, 'A client must have sent its request head; then 408.'), 60_000),
    // Off: an audio file over a slow link may take its time; held bodies have their own bound.
    requestMs: v.optional(field.millisecondsOr('off', 'A client must have sent its whole request.'), 0),
    connectMs: v.optional(field.millisecondsOr('off', 'Connecting to a backend, TLS included.'), 5000),
    // Two minutes before the share for the prompt: an engine's own queue is in here too.
    headMs: v.optional(
      field.millisecondsOr(
        'off',
        "Request sent → response head of a stream; and, for every request, how long a backend may take no byte of its body. Plus the prompt's share.",
      ),
      120_000,
    ),
    firstTokenMs: v.optional(
      field.millisecondsOr('off', "Request sent → first token, plus the prompt's share."),
      120_000,
    ),
    // 1 KiB is about 256 tokens of prompt: a prefill as slow as 256 tokens/s is waited for.
    perBodyKibMs: v.optional(
      field.millisecondsOr('off', "The prompt's share: added to headMs and firstTokenMs for each KiB of request body."),
      1000,
    ),
    contentStallMs: v.optional(
      field.millisecondsOr('off', 'Silence between two tokens; comments and pings do not count.'),
      120_000,
    ),
    // A dying engine's port refuses while its open streams stay silent: no reason to wait for those two minutes.
    refusedStallMs: v.optional(
      field.millisecondsOr('off', "As contentStallMs, once the backend's port was seen to refuse."),
      2000,
    ),
    totalMs: v.optional(field.millisecondsOr('off', 'Request sent → end of the answer.'), 3_600_000),
    clientStallMs: v.optional(
      field.millisecondsOr(
        'off',
        'A client that takes no byte for so long is cut off. Coarse: the system tells of taken bytes in large steps (a third of its send buffer, which on Linux grows to 4 MiB), so a slow reader shows progress only that often.',
      ),
      60_000,
    ),
    drainMs: v.optional(field.millisecondsOr('at once', 'SIGTERM → streams that still run are ended.'), 30_000),
  },
  'How long each step may take.',
);

export const stream = field.section(
  {
    heartbeatMs: v.optional(
      field.millisecondsOr(
        'off',
        'A comment line to the client after so long a silence, for load balancers that cut idle connections.',
      ),
      0,
    ),
    // Long enough for an error that comes instead of a first event, too short to be felt.
    headHoldMs: v.optional(
      field.millisecondsOr(
        'off',
        'On engines that answer 200 and then an error: the head waits for the first event, at most so long.',
      ),
      250,
    ),
    maxBufferedBytes: v.optional(
      field.bytes(KiB, GiB, 'Bytes kept for a slow client, per stream, before its backend is paused.'),
      64 * KiB,
    ),
  },
  'Streamed answers.',
);

export const measure = field.section(
  {
    // 131,072 tokens at 8 bytes each: 1 MiB for the longest answers that models give.
    maxStamps: v.optional(
      field.wholeNumber(
        { unit: 'stamps', min: 0, max: 2 ** 24 },
        'Token times kept per request; later tokens are only counted.',
      ),
      131_072,
    ),
    maxEventBytes: v.optional(
      field.bytes(KiB, 256 * MiB, 'Largest event that is read; a larger one passes unread.'),
      MiB,
    ),
    maxAnswerValueBytes: v.optional(
      field.bytes(KiB, 256 * MiB, 'Largest value (usage, timings) kept of an answer that is not streamed.'),
      MiB,
    ),
    prefixHitShare: v.optional(field.share('Share of the prompt that must come from the cache for "prefix_hit".'), 0.5),
  },
  'What is read of an answer.',
);
