/**
 * The way to Postgres: a small pool, transactions with time limits, collisions tried again, errors as `StoreError`. A database
 * that went away fails the calls made meanwhile; later ones connect anew. Knows no table but that of the schema's version.
 */
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import type { Log } from '../../platform/log.ts';
import { StoreError } from './port.ts';
import { endsConnection, isCollision, postgresFault } from './postgres-fault.ts';
import { postgresSteps } from './postgres-schema.ts';

export type Parameter = string | number | boolean | null | Uint8Array | readonly (string | number | boolean)[];

/** One connection, within a transaction. */
export interface PostgresTurn {
  rows<Row>(sql: string, ...parameters: readonly Parameter[]): Promise<readonly Row[]>;
  /** @returns how many rows changed */
  run(sql: string, ...parameters: readonly Parameter[]): Promise<number>;
}

export interface PostgresLink {
  /** One statement by itself. */
  readonly once: PostgresTurn;
  /** All or nothing. `work` is run again after a collision with another transaction, so it must do nothing else. */
  transaction<Value>(work: (turn: PostgresTurn) => Promise<Value>): Promise<Value>;
  close(): Promise<void>;
}

const connections = 5;
const connectMs = 10_000;
/** The server ends a statement before the client gives up on it. */
const statementMs = 30_000;
const answerMs = statementMs + 5000;
const lockMs = 10_000;
/** A client that vanished holds its locks no longer than that. */
const idleMs = 15_000;
const mostTries = 4;
/** Any number, the same in all replicas. */
const schemaLock = 7_262_839_011;

// The limits come with each transaction: poolers between refuse them as settings of a connection.
const begin = `begin isolation level read committed; set local statement_timeout = ${statementMs};
  set local lock_timeout = ${lockMs}; set local idle_in_transaction_session_timeout = ${idleMs}`;

/**
 * Connects, and makes or updates the tables.
 * @throws StoreError `away`, `broken`
 */
export async function openPostgresLink(url: string, { log }: { readonly log: Log }): Promise<PostgresLink> {
  const target = targetOf(url);
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectMs,
    query_timeout: answerMs,
    keepAlive: true,
    application_name: 'warmlane',
    types: { getTypeParser: parserOf },
  });
  // An idle connection that breaks is nobody's error: the next call opens another.
  pool.on('error', (error) => log.debug('a connection to Postgres ended', { postgres: target, reason: error.message }));
  // So is one that breaks between two statements of a transaction: the next of them fails.
  pool.on('connect', (client) => client.on('error', () => undefined));
  let closed: Promise<void> | undefined;

  /** What the driver throws, as a fault; what else is thrown is a bug and stays one. */
  async function asked<Value>(answer: Promise<Value>): Promise<Value> {
    try {
      return await answer;
    } catch (error) {
      throw postgresFault(error, target);
    }
  }

  async function connection<Value>(work: (client: pg.PoolClient) => Promise<Value>): Promise<Value> {
    if (closed !== undefined) throw new StoreError('away', `the store at ${target} is closed`);
    const client = await asked(pool.connect());
    let broken = false;
    try {
      return await work(client);
    } catch (error) {
      broken = endsConnection(error);
      throw error;
    } finally {
      client.release(broken);
    }
  }

  const query = async (client: pg.PoolClient, sql: string, parameters: readonly Parameter[]) =>
    // Without parameters by the simple protocol, which takes several statements at once.
    await asked(parameters.length === 0 ? client.query(sql) : client.query(sql, [...parameters]));

  async function attempt<Value>(work: (turn: PostgresTurn) => Promise<Value>): Promise<Value> {
    return await connection(async (client) => {
      await query(client, begin, []);
      try {
        const value = await work(turnOn(async (sql, parameters) => await query(client, sql, parameters)));
        await query(client, 'commit', []);
        return value;
      } catch (error) {
        // Where the connection is gone, so is the transaction.
        if (!endsConnection(error)) await query(client, 'rollback', []);
        throw error;
      }
    });
  }

  const link: PostgresLink = {
    once: turnOn(async (sql, parameters) => await connection(async (client) => await query(client, sql, parameters))),
    async transaction(work) {
      for (let tries = 1; ; tries += 1) {
        try {
          return await attempt(work);
        } catch (error) {
          if (!isCollision(error) || tries >= mostTries) throw error;
          await wait(Math.random() * 20 * tries);
        }
      }
    },
    async close() {
      closed ??= pool.end();
      await closed;
    },
  };

  try {
    await link.transaction(async (turn) => await migrate(turn, target));
    return link;
  } catch (error) {
    await link.close();
    throw error;
  }
}

async function migrate(turn: PostgresTurn, target: string): Promise<void> {
  // Replicas that start together wait for the first.
  await turn.rows('select pg_advisory_xact_lock($1::bigint)', schemaLock);
  await turn.run('create table if not exists warmlane_schema_version (version integer not null)');
  const [row] = await turn.rows<{ version: number | null }>(
    'select max(version) as version from warmlane_schema_version',
  );
  const version = row?.version ?? 0;
  if (version > postgresSteps.length)
    throw new StoreError(
      'broken',
      `the tables at ${target} were made by a newer warmlane (schema ${version}; this one knows ${postgresSteps.length})`,
    );
  for (const [index, step] of postgresSteps.entries()) {
    if (index < version) continue;
    await turn.run(step);
    await turn.run('insert into warmlane_schema_version (version) values ($1)', index + 1);
  }
}

type Ask = (sql: string, parameters: readonly Parameter[]) => Promise<pg.QueryResult>;

function turnOn(ask: Ask): PostgresTurn {
  return {
    async rows<Row>(sql: string, ...parameters: readonly Parameter[]) {
      return (await ask(sql, parameters)).rows as readonly Row[];
    },
    run: async (sql, ...parameters) => (await ask(sql, parameters)).rowCount ?? 0,
  };
}

/** The type's number: https://www.postgresql.org/docs/current/catalog-pg-type.html */
const int8 = 20;

/** 64-bit integers as numbers: ours are below 2^53. */
const parserOf: typeof pg.types.getTypeParser = (oid: number, format?: unknown) =>
  oid === int8 ? Number : (pg.types.getTypeParser as (oid: number, format: unknown) => unknown)(oid, format);

/** Without the password. */
function targetOf(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return `${host}${pathname}`;
  } catch {
    return 'the configured address';
  }
}
