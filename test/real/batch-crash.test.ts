/**
 * `kill -9` at twenty seeded moments of a batch, on SQLite and on Postgres, and two replicas on one Postgres of which the one
 * that works is killed. The program as it is built, in processes of its own; `CRASH_SEED=n` begins at other moments,
 * `CRASH_CASES=n` takes more of them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { crashCases, crashLeaseMs, crashOnce, type CrashCase, type CrashOutcome } from '../support/batch-crash.ts';
import { killTheWorker } from '../support/batch-replicas.ts';
import { hasPostgres, startPostgres, type PostgresServer } from '../support/postgres.ts';
import { known } from './reading.ts';

const cases = crashCases(Number(process.env['CRASH_CASES'] ?? 20), Number(process.env['CRASH_SEED'] ?? 1));
/** Each takes a core at times. */
const atOnce = 2;

describe('kill -9', () => {
  let folder = '';
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'warmlane-crash-'));
    if (hasPostgres()) server = await startPostgres();
  });
  afterAll(async () => {
    await server?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('at every moment on SQLite: nothing is lost, nothing is doubled', async () => {
    const outcomes = await runAll((crash) =>
      Promise.resolve({ directory: join(folder, `sqlite-${crash.seed}`), leaseMs: crashLeaseMs }),
    );
    expectClean('SQLite', outcomes);
  }, 600_000);

  it.runIf(hasPostgres())(
    'at every moment on Postgres: nothing is lost, nothing is doubled',
    async () => {
      const outcomes = await runAll(async (crash) => ({
        postgres: { url: await known(server, 'Postgres').database() },
        // Files of every other one are in Postgres too.
        ...(crash.seed % 2 === 0 ? { directory: join(folder, `postgres-${crash.seed}`) } : {}),
        leaseMs: crashLeaseMs,
      }));
      expectClean('Postgres', outcomes);
    },
    600_000,
  );

  it.runIf(hasPostgres()).each([
    { signal: 'SIGKILL' as const, files: 'in a shared folder' },
    { signal: 'SIGKILL' as const, files: 'in Postgres' },
    { signal: 'SIGTERM' as const, files: 'in a shared folder' },
  ])(
    'of two replicas on one Postgres, files $files, the one that works gets $signal: the other ends it',
    async ({ signal, files }) => {
      const url = await known(server, 'Postgres').database();
      const outcome = await killTheWorker(signal, {
        postgres: { url },
        ...(files === 'in Postgres' ? {} : { directory: mkdtempSync(join(folder, 'shared-')) }),
        leaseMs: crashLeaseMs,
      });
      console.info(
        `two replicas, ${signal}, files ${files}: the other sent its first line ${Math.round(outcome.takenOverMs)} ms after, ` +
          `${outcome.sentTwice} lines were sent again`,
      );
      expect(outcome.problems).toEqual([]);
    },
    120_000,
  );
});

interface Ran {
  readonly crash: CrashCase;
  readonly outcome: CrashOutcome;
}

async function runAll(configFor: (crash: CrashCase) => Promise<object>): Promise<readonly Ran[]> {
  const waiting = [...cases];
  const ran: Ran[] = [];
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let crash = waiting.shift(); crash !== undefined; crash = waiting.shift())
        ran.push({ crash, outcome: await crashOnce(crash, await configFor(crash)) });
    }),
  );
  return ran.toSorted((one, other) => one.crash.seed - other.crash.seed);
}

function expectClean(store: string, ran: readonly Ran[]): void {
  const total = (figure: (outcome: CrashOutcome) => number) =>
    ran.reduce((sum, { outcome }) => sum + figure(outcome), 0);
  const slowestMs = Math.max(...ran.map(({ outcome }) => outcome.endMs));
  console.info(
    `${store}: ${ran.length} batches, ${total(({ kills }) => kills)} kills, at ${JSON.stringify(statusesOf(ran))}; ` +
      `${total(({ sentAgain }) => sentAgain)} lines sent again (${Math.max(...ran.map(({ outcome }) => outcome.sentAgain))} at most in one batch), the slowest was over ${Math.round(slowestMs)} ms after its last start`,
  );
  const wrong = ran.filter(({ outcome }) => outcome.problems.length > 0);
  expect(wrong.map(({ crash, outcome }) => ({ ...crash, problems: outcome.problems }))).toEqual([]);
}

function statusesOf(ran: readonly Ran[]): Readonly<Record<string, number>> {
  const counts = new Map<string, number>();
  for (const { outcome } of ran) counts.set(outcome.statusAtKill, (counts.get(outcome.statusAtKill) ?? 0) + 1);
  return Object.fromEntries(counts);
}
