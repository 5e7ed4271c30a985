/**
 * The store on Postgres, for several replicas: each works on the batches that it leased, and the fence in every write keeps out one
 * that was thought dead. All state is the database's; a replica may be killed at any moment.
 */
import type { BatchStore } from './port.ts';
import { createPostgresBatches } from './postgres-batches.ts';
import { createPostgresFiles } from './postgres-files.ts';
import { createPostgresLines } from './postgres-lines.ts';
import type { PostgresLink } from './postgres-link.ts';

/** @param link is closed with the store */
export function createPostgresStore(link: PostgresLink): BatchStore {
  return {
    kind: 'postgres',
    ...createPostgresFiles(link),
    ...createPostgresBatches(link),
    ...createPostgresLines(link),
    close: async () => await link.close(),
  };
}
