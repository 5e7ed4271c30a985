/**
 * The tables of the Postgres store, as steps: a schema is brought from the version that it has to the newest one. A step that has been
 * released is never edited; a change is a new step. They stand in the schema that the connection's `search_path` names first.
 */

/** Step n makes version n + 1. */
export const postgresSteps: readonly string[] = [
  `
  create table warmlane_files (
    seq bigserial primary key,
    id text not null unique,
    tenant text not null,
    purpose text not null,
    filename text not null,
    bytes bigint not null,
    created_at bigint not null,
    expires_at bigint
  );
  create index warmlane_files_of_tenant on warmlane_files (tenant, seq);
  create index warmlane_files_by_expiry on warmlane_files (expires_at) where expires_at is not null;

  create table warmlane_batches (
    seq bigserial primary key,
    id text not null unique,
    tenant text not null,
    endpoint text not null,
    model text,
    input_file_id text not null,
    completion_window text not null,
    status text not null,
    errors text not null,
    created_at bigint not null,
    in_progress_at bigint,
    expires_at bigint not null,
    finalizing_at bigint,
    completed_at bigint,
    failed_at bigint,
    expired_at bigint,
    cancelling_at bigint,
    cancelled_at bigint,
    total integer not null,
    completed integer not null,
    failed integer not null,
    -- of the failed ones those that were cancelled or expired
    unrun integer not null default 0,
    input_tokens bigint not null,
    cached_tokens bigint not null,
    output_tokens bigint not null,
    reasoning_tokens bigint not null,
    metadata text,
    output_file_id text,
    error_file_id text,
    output_expires_seconds bigint,
    open boolean not null default true,
    lease_owner text,
    lease_epoch integer not null default 0,
    lease_until timestamptz
  );
  create index warmlane_batches_of_tenant on warmlane_batches (tenant, seq);
  create index warmlane_batches_open on warmlane_batches (expires_at, seq) where open;
  create index warmlane_batches_reading on warmlane_batches (input_file_id) where open;

  create table warmlane_lines (
    batch bigint not null,
    line integer not null,
    rank integer not null,
    custom_id text not null,
    at bigint not null,
    bytes bigint not null,
    attempts integer not null default 0,
    not_before_ms bigint not null default 0,
    done boolean not null default false,
    primary key (batch, line)
  );
  create index warmlane_lines_pending on warmlane_lines (batch, rank) where not done;

  -- One for each line that is done: written in the same transaction.
  create table warmlane_results (
    batch bigint not null,
    ok boolean not null,
    line integer not null,
    text text not null,
    primary key (batch, ok, line)
  -- Most answers fit a page: as they are, rather than squeezed and kept apart from 2 KB on.
  ) with (toast_tuple_target = 8160);

  create table warmlane_shelf_files (
    seq bigserial primary key,
    id text not null,
    bytes bigint not null default 0,
    committed boolean not null default false,
    touched_at timestamptz not null default clock_timestamp()
  );
  create unique index warmlane_shelf_files_committed on warmlane_shelf_files (id) where committed;

  create table warmlane_shelf_chunks (
    file bigint not null references warmlane_shelf_files (seq) on delete cascade,
    number integer not null,
    body bytea not null,
    primary key (file, number)
  );
  -- Uncompressed, so that a part of a chunk is read without the rest.
  alter table warmlane_shelf_chunks alter column body set storage external;
  `,
];
