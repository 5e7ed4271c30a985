/** The part of the schema about the Files and Batch API: where batches are kept, and what is accepted. */
import * as v from 'valibot';

import * as field from './field.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const TiB = 1024 * GiB;
const daySeconds = 86_400;

const postgresUrl = v.pipe(
  v.string('must be a URL such as postgres://user@host/database'),
  v.regex(/^postgres(ql)?:\/\/\S{1,2000}$/, 'must be a URL such as postgres://user@host/database'),
  v.description('Where it is, as libpq writes it; a password is best an environment variable: ${env:NAME}.'),
);

export const batch = field.section(
  {
    directory: v.exactOptional(
      field.text(
        4096,
        "Folder for files and batches (SQLite), or beside Postgres for the files' bytes alone; relative to this file. Made if it is not there.",
      ),
    ),
    postgres: v.exactOptional(
      field.section(
        { url: postgresUrl },
        "For several replicas: they share batches, each being worked on by one at a time. The files' bytes are there, too, unless a directory is named, which all replicas must have.",
      ),
    ),
    // OpenAI's own limits.
    maxLines: v.optional(
      field.wholeNumber({ unit: 'lines', min: 1, max: 1_000_000 }, 'Requests of one batch.'),
      50_000,
    ),
    maxFileBytes: v.optional(field.bytes(KiB, 64 * GiB, 'A larger file is refused while it is uploaded.'), 200_000_000),
    // An image or two; one line is held in memory at a time.
    maxLineBytes: v.optional(
      field.bytes(KiB, GiB, 'One request of a file; a larger one makes its batch fail.'),
      8 * MiB,
    ),
    // Fifty of the largest input files.
    maxTenantBytes: v.optional(field.bytes(MiB, 1024 * TiB, "All of a tenant's files together."), 10 * GiB),
    // Each holds some hundred KiB, and a file or a connection to the database.
    maxUploads: v.optional(
      field.wholeNumber(
        { unit: 'uploads', min: 1, max: 10_000 },
        'Files that are uploaded at one time; one more gets 429.',
      ),
      64,
    ),
    // So that nobody takes all of them.
    maxTenantUploads: v.optional(
      field.wholeNumber(
        { unit: 'uploads', min: 1, max: 10_000 },
        "Of these a tenant's, where auth tells tenants apart; one more gets 429.",
      ),
      16,
    ),
    maxOpenBatches: v.optional(
      field.wholeNumber({ unit: 'batches', min: 1, max: 10_000 }, "A tenant's batches that are not over."),
      100,
    ),
    // More than most fleets have places; those that wait hold their bodies in memory.
    maxLinesInFlight: v.optional(
      field.wholeNumber(
        { unit: 'lines', min: 1, max: 100_000 },
        'Requests that run or wait for a place, of all batches together.',
      ),
      256,
    ),
    // With back-off these span a restart of a model server.
    maxAttempts: v.optional(
      field.wholeNumber({ unit: 'attempts', min: 1, max: 100 }, 'Times that one request is tried in all.'),
      5,
    ),
    // As OpenAI keeps them.
    fileLifeSeconds: v.optional(
      field.wholeNumber(
        { unit: 'seconds', min: 3600, max: 3650 * daySeconds },
        'Files that name no expiry of their own go after so long.',
      ),
      30 * daySeconds,
    ),
    // Long enough for a stalled disk, short enough that a dead replica's batches go on within a minute.
    leaseMs: v.optional(field.milliseconds(1000, "After so long a dead replica's batches are another's."), 30_000),
    // Some 50,000 tokens with everything that chunks repeat; embeddings of a few hundred inputs.
    maxAnswerBytes: v.optional(field.bytes(KiB, GiB, 'A longer answer to one request fails it.'), 16 * MiB),
  },
  'Files and Batch API of OpenAI, off unless a directory or Postgres is named; see deploy/batch.md.',
);
