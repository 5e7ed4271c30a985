/**
 * The tables of the SQLite store, as steps: a file is brought from the version that it has to the newest one. A step that has
 * been released is never edited; a change is a new step.
 */

/** Step n makes version n + 1. */
export const sqliteSteps: readonly string[] = [
  `
  create table files (
    seq integer primary key autoincrement,
    id text not null unique,
    tenant text not null,
    purpose text not null,
    filename text not null,
    bytes integer not null,
    created_at integer not null,
    expires_at integer
  ) strict;
  create index files_of_tenant on files (tenant, seq);
  create index files_by_expiry on files (expires_at) where expires_at is not null;

  create table batches (
    seq integer primary key autoincrement,
    id text not null unique,
    tenant text not null,
    endpoint text not null,
    model text,
    input_file_id text not null,
    completion_window text not null,
    status text not null,
    errors text not null,
    created_at integer not null,
    in_progress_at integer,
    expires_at integer not null,
    finalizing_at integer,
    completed_at integer,
    failed_at integer,
    expired_at integer,
    cancelling_at integer,
    cancelled_at integer,
    total integer not null,
    completed integer not null,
    failed integer not null,
    -- of the failed ones those that were cancelled or expired
    unrun integer not null default 0,
    input_tokens integer not null,
    cached_tokens integer not null,
    output_tokens integer not null,
    reasoning_tokens integer not null,
    metadata text,
    output_file_id text,
    error_file_id text,
    output_expires_seconds integer,
    open integer not null default 1,
    -- its lines are to be removed
    leftover integer not null default 0,
    lease_owner text,
    lease_epoch integer not null default 0,
    -- by the clock of the process that has the file open
    lease_until_ms real
  ) strict;
  create index batches_of_tenant on batches (tenant, seq);
  create index batches_open on batches (expires_at, seq) where open = 1;
  create index batches_reading on batches (input_file_id) where open = 1;
  create index batches_left_over on batches (seq) where leftover = 1;

  create table lines (
    batch integer not null references batches (seq) on delete cascade,
    line integer not null,
    rank integer not null,
    custom_id text not null,
    at integer not null,
    bytes integer not null,
    attempts integer not null default 0,
    not_before_ms integer not null default 0,
    done integer not null default 0,
    primary key (batch, line)
  ) strict, without rowid;
  create index lines_pending on lines (batch, rank) where done = 0;

  -- One for each line that is done: written in the same transaction.
  create table results (
    seq integer primary key,
    batch integer not null references batches (seq) on delete cascade,
    line integer not null,
    ok integer not null,
    text text not null
  ) strict;
  create index results_of_batch on results (batch, ok, line);
  `,
];
