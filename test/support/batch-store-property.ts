/** Random calls on a store and on the model of it: every answer must be the same, and so must what is left in the end. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { BatchStatus } from '../../src/batch/batch.ts';
import { StoreError, type Lease } from '../../src/batch/store/port.ts';
import { createBatchStoreModel, type BatchStoreModel } from './batch-store-model.ts';
import type { StoreWorld } from './batch-store-suite.ts';
import { sampleBatch, sampleFile, sampleLines, sampleResult } from './batch-values.ts';

type CallName = Exclude<keyof BatchStoreModel, 'passMs'>;
type Step =
  | { readonly passMs: number }
  | { readonly name: CallName; readonly given: readonly unknown[]; readonly lease?: number };

const tenant = fc.constantFrom('anna', 'bert');
const fileId = fc.constantFrom('f0', 'f1', 'f2', 'f3');
const batchId = fc.constantFrom('b0', 'b1', 'b2');
const seconds = fc.integer({ min: 1, max: 60 });
const line = fc.integer({ min: 1, max: 9 });
const limit = fc.integer({ min: 1, max: 4 });
const order = fc.constantFrom('asc' as const, 'desc' as const);
const statuses: readonly BatchStatus[] = ['in_progress', 'finalizing', 'cancelling'];
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });

const file = fc
  .record({ id: fileId, tenant, purpose: fc.constantFrom('batch', 'vision'), expiresAt: seconds, bytes: fc.nat(99) })
  .map(({ id, expiresAt, ...rest }) => sampleFile(id, { ...rest, ...(expiresAt % 2 === 0 && { expiresAt }) }));
const result = fc
  .record({ line, ok: fc.boolean(), text: fc.constantFrom('{}', '{"é":1}') })
  .map(({ line: which, ...rest }) => sampleResult(which, rest));

function call(name: CallName, ...given: readonly fc.Arbitrary<unknown>[]): fc.Arbitrary<Step> {
  return fc.tuple(...given).map((values) => ({ name, given: values }));
}
function write(name: CallName, ...given: readonly fc.Arbitrary<unknown>[]): fc.Arbitrary<Step> {
  return fc.tuple(fc.nat(99), ...given).map(([lease, ...values]) => ({ name, given: values, lease }));
}

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: call('addFile', file) },
  {
    weight: 3,
    arbitrary: call(
      'addBatch',
      fc.tuple(batchId, tenant, fileId).map(([id, whose, inputFileId]) =>
        // Deadlines of their own, so that the order of leases is one.
        sampleBatch(id, { tenant: whose, inputFileId, expiresAt: 1000 - Number(id.slice(1)) }),
      ),
    ),
  },
  call('file', tenant, fileId),
  call(
    'files',
    tenant,
    fc.record({ limit, order, after: maybe(fileId), purpose: maybe(fc.constant('vision')) }).map(withoutAbsent),
  ),
  call('fileBytes', tenant),
  call('removeFile', tenant, fileId),
  call('dropExpiredFiles', seconds, fc.constant(9)),
  call('unknownFiles', fc.uniqueArray(fileId)),
  call('batch', tenant, batchId),
  call(
    'batches',
    maybe(tenant),
    fc.record({ limit, order, after: maybe(batchId), open: maybe(fc.boolean()) }).map(withoutAbsent),
  ),
  call('cancel', tenant, batchId, seconds),
  {
    weight: 4,
    arbitrary: call(
      'lease',
      fc.record({ owner: fc.constantFrom('x', 'y'), ttlMs: fc.constantFrom(1000, 60_000), max: limit }),
    ),
  },
  { weight: 2, arbitrary: write('renew', fc.constant(60_000)) },
  write('release'),
  { weight: 4, arbitrary: write('addLines', fc.nat(9).map(sampleLines), fc.boolean()) },
  {
    weight: 3,
    arbitrary: write('begin', fc.record({ total: fc.nat(9), model: maybe(fc.constant('m')), nowSeconds: seconds })),
  },
  write('fail', fc.constant([{ code: 'c', message: 'm', line: 1 }]), seconds),
  { weight: 2, arbitrary: write('pending', fc.record({ afterRank: fc.integer({ min: -1, max: 9 }), limit })) },
  write(
    'noteRetries',
    fc.array(fc.record({ line, attempts: fc.nat(5), notBeforeMs: fc.nat(99) }), { maxLength: 3 }).map(onePerLine),
  ),
  { weight: 4, arbitrary: write('addResults', fc.array(result, { maxLength: 5 })) },
  write('move', fc.constantFrom(...statuses), seconds),
  { weight: 2, arbitrary: write('results', fc.record({ ok: fc.boolean(), afterLine: fc.nat(9), limit })) },
  write(
    'finish',
    fc.record({
      status: fc.constantFrom('completed', 'expired', 'cancelled', 'failed'),
      output: maybe(fc.constant(sampleFile('out'))),
      error: fc.constant(undefined),
      nowSeconds: seconds,
    }),
  ),
  { weight: 2, arbitrary: fc.constantFrom(500, 5000, 100_000).map((passMs) => ({ passMs })) },
);

export function itBehavesLikeTheModel(name: string, open: () => Promise<StoreWorld>, runs: number): void {
  it(`the batch store on ${name} answers random calls as the model does`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 80 }), async (steps) => {
        const world = await open();
        try {
          await compare(world, steps);
        } finally {
          await world.close();
        }
      }),
      { numRuns: runs },
    );
  }, 120_000);
}

async function compare({ store, passMs }: StoreWorld, steps: readonly Step[]): Promise<void> {
  const model = createBatchStoreModel();
  const leases: Lease[] = [{ batchId: 'b0', owner: 'nobody', epoch: 0 }];
  for (const each of steps) {
    if ('passMs' in each) {
      model.passMs(each.passMs);
      await passMs(each.passMs);
      continue;
    }
    // Old leases too, but mostly the latest.
    const lease =
      each.lease === undefined ? undefined : leases.at(each.lease % 3 === 0 ? each.lease % leases.length : -1);
    const given = lease === undefined ? each.given : [each.name === 'renew' ? [lease] : lease, ...each.given];
    const wanted = await outcome(() => (model[each.name] as (...values: readonly unknown[]) => unknown)(...given));
    const seen = await outcome(() => (store[each.name] as (...values: readonly unknown[]) => unknown)(...given));
    expect(seen, `${each.name} ${JSON.stringify(given)}`).toStrictEqual(wanted);
    if (each.name === 'lease') for (const taken of wanted as readonly { lease: Lease }[]) leases.push(taken.lease);
  }
  for (const whose of ['anna', 'bert']) {
    const all = { limit: 99, order: 'asc' } as const;
    expect(await store.batches(whose, all)).toStrictEqual(model.batches(whose, all));
    expect(await store.files(whose, all)).toStrictEqual(model.files(whose, all));
  }
}

async function outcome(work: () => unknown): Promise<unknown> {
  try {
    const found = await work();
    // Ids alone are in no order.
    return Array.isArray(found) && found.every((each) => typeof each === 'string') ? found.toSorted() : found;
  } catch (error) {
    if (error instanceof StoreError) return { fault: error.fault };
    throw error;
  }
}

function withoutAbsent(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined));
}

function onePerLine<T extends { readonly line: number }>(all: readonly T[]): readonly T[] {
  return [...new Map(all.map((each) => [each.line, each])).values()];
}
