import { describe, expect, it } from 'vitest';
import { resultFileId } from '../../../../src/batch/run/result-files.ts';
import { createBatchWorld, ids, runSettings, windowSeconds } from '../../../support/batch-world.ts';

describe('a batch', () => {
  it('is validated, sent line by line, and ends with its files', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(10));
    world.start();
    await world.rest();
    expect(world.open()).toHaveLength(runSettings.maxLinesInFlight);
    expect((await world.batch(id)).status).toBe('in_progress');
    while (world.open().length > 0) {
      world.open().forEach((line) => line.ok());
      await world.pass(100);
    }
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'completed', counts: { total: 10, completed: 10, failed: 0 }, model: 'm' });
    expect(batch.errorFileId).toBeUndefined();
    expect([...world.files(batch).keys()].toSorted()).toEqual(ids(10).toSorted());
    expect(world.files(batch).get('l0')).toMatchObject({
      file: 'output',
      response: { status_code: 200, request_id: `${id}-1`, body: { id: 'l0' } },
      error: null,
    });
    expect(await world.store.file('anonymous', batch.outputFileId ?? '')).toMatchObject({
      purpose: 'batch_output',
      filename: `${id}_output.jsonl`,
    });
  });

  it('that is wrong fails with every fault and sends nothing', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(['a', 'b', 'a']);
    world.start();
    await world.rest();
    expect(await world.batch(id)).toMatchObject({
      status: 'failed',
      errors: [{ code: 'duplicate_custom_id', line: 3 }],
    });
    expect(world.sent).toHaveLength(0);
  });

  it('whose input is gone fails and says so', async () => {
    const world = createBatchWorld();
    const { id, inputFileId } = await world.add(['a']);
    await world.shelf.remove(inputFileId);
    world.start();
    await world.rest();
    expect(await world.batch(id)).toMatchObject({ status: 'failed', errors: [{ code: 'input_unreadable' }] });
  });

  it('C173 goes on when single lines fail: they are in the error file, each with the answer that it got', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(5));
    world.start({ maxLinesInFlight: 8 });
    await world.rest();
    for (const line of world.open()) {
      if (line.id === 'l2') line.status(400);
      else if (line.id === 'l3') line.end({ kind: 'failed', code: 'answer_too_large', message: 'm', retryable: false });
      else line.ok();
    }
    await world.pass(200);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'completed', counts: { total: 5, completed: 3, failed: 2 } });
    const files = world.files(batch);
    expect(files.get('l2')).toMatchObject({ file: 'error', response: { status_code: 400 }, error: null });
    expect(files.get('l3')).toMatchObject({ file: 'error', response: null, error: { code: 'answer_too_large' } });
    expect(files.size).toBe(5);
  });
});

describe('a line that fails', () => {
  it('is tried again with backoff, so often and no more', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(['a']);
    world.start();
    await world.rest();
    world.open()[0]?.status(500);
    await world.pass(900);
    expect(world.sent).toHaveLength(1);
    await world.pass(200);
    expect(world.sent.map(({ requestId }) => requestId)).toEqual([`${id}-1`, `${id}-1.1`]);
    world.open()[0]?.status(500);
    await world.pass(1900);
    expect(world.sent).toHaveLength(2);
    await world.pass(200);
    world.open()[0]?.status(500);
    await world.pass(200);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'completed', counts: { failed: 1 } });
    expect(world.files(batch).get('a')).toMatchObject({ response: { status_code: 500 } });
  });

  it('waits as long as a busy backend says, and loses no attempt by it', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(['a']);
    world.start({ maxAttempts: 1 });
    await world.rest();
    for (let n = 1; n <= 5; n += 1) {
      world.open()[0]?.status(429, 120_000);
      await world.pass(119_000, 1000);
      expect(world.sent).toHaveLength(n);
      await world.pass(2000, 1000);
      expect(world.sent).toHaveLength(n + 1);
    }
    world.open()[0]?.ok();
    await world.pass(200);
    expect(await world.batch(id)).toMatchObject({ status: 'completed', counts: { completed: 1 } });
  });

  it('visits no third engine when two were gone without a word', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(['a']);
    world.start({ maxAttempts: 10 });
    await world.rest();
    const gone = { kind: 'failed', code: 'backend_closed_early', message: 'm', retryable: true } as const;
    world.open()[0]?.end(gone);
    await world.pass(2000);
    world.open()[0]?.end(gone);
    await world.pass(200);
    expect(world.sent).toHaveLength(2);
    expect(await world.batch(id)).toMatchObject({ status: 'completed', counts: { failed: 1 } });
  });

  it('keeps its attempts when another process goes on', async () => {
    const world = createBatchWorld();
    await world.add(['a']);
    const first = world.start();
    await world.rest();
    world.open()[0]?.status(500);
    await world.pass(1500);
    world.open()[0]?.status(500);
    await world.pass(200);
    await first.stop(0);
    world.start();
    await world.pass(5000);
    world.open()[0]?.status(500);
    await world.pass(200);
    expect(world.sent).toHaveLength(3);
    expect(await world.batch('batch_1')).toMatchObject({ status: 'completed', counts: { failed: 1 } });
  });
});

describe('a line that is taken back', () => {
  it('goes again before all others, and says how often', async () => {
    const world = createBatchWorld();
    await world.add(ids(10));
    const runner = world.start({ maxLinesInFlight: 2 });
    await world.rest();
    world.open()[1]?.end({ kind: 'reclaimed', inPrompt: true });
    await world.rest();
    world.open()[1]?.end({ kind: 'reclaimed', inPrompt: false });
    await world.rest();
    expect(world.sent.map(({ id, reclaimed, promptsTaken }) => [id, reclaimed, promptsTaken])).toEqual([
      ['l0', 0, 0],
      ['l1', 0, 0],
      ['l1', 1, 1],
      ['l1', 2, 1],
    ]);
    expect(runner.figures()).toMatchObject({ counts: { reclaimed: 2, retries: 0 }, inFlight: 2 });
  });
});

describe('lines whose prompts were taken back', () => {
  const taken = { kind: 'reclaimed', inPrompt: true } as const;

  it('leave half of the window to those that online leaves alone, while they wait for quiet', async () => {
    const world = createBatchWorld();
    await world.add(ids(12, 'a'), { tenant: 'ann' });
    const runner = world.start({ maxLinesInFlight: 8 });
    await world.rest();
    for (let n = 0; n < 12; n += 1) {
      world
        .open()
        .find(({ promptsTaken }) => promptsTaken === 0)
        ?.end(taken);
      await world.rest();
    }
    expect(world.open().map(({ promptsTaken }) => promptsTaken)).toEqual([1, 1, 1, 1]);
    const { id } = await world.add(ids(6, 'b'), { tenant: 'bob' });
    runner.wake();
    await world.rest();
    while (world.open().some(({ tenant }) => tenant === 'bob')) {
      world
        .open()
        .filter(({ tenant }) => tenant === 'bob')
        .forEach((line) => line.ok());
      await world.pass(100);
    }
    expect((await world.batch(id)).status).toBe('completed');
    const waiting = world.open();
    expect(waiting).toHaveLength(4);
    // As one has a place the next one follows.
    waiting[0]?.placed();
    waiting[0]?.placed();
    await world.rest();
    expect(world.open()).toHaveLength(5);
    waiting[1]?.ok();
    await world.rest();
    expect(world.open()).toHaveLength(5);
    while (world.open().length > 0) {
      world.open().forEach((line) => line.ok());
      await world.pass(100);
    }
    expect(await world.batch('batch_1')).toMatchObject({ status: 'completed', counts: { completed: 12 } });
  });

  it('wait for little quiet beside those that wait for much', async () => {
    const world = createBatchWorld();
    await world.add(ids(10));
    world.start({ maxLinesInFlight: 32 });
    await world.rest();
    const long = new Set(ids(6));
    for (let n = 0; n < 6 * 5; n += 1) {
      world
        .open()
        .find(({ id, promptsTaken }) => long.has(id) && promptsTaken < 5)
        ?.end(taken);
      await world.rest();
    }
    const waiting = () => world.open().filter(({ promptsTaken }) => promptsTaken > 0);
    expect(waiting().map(({ promptsTaken }) => promptsTaken)).toEqual([5, 5, 5, 5]);
    world
      .open()
      .find(({ id }) => id === 'l9')
      ?.end(taken);
    await world.rest();
    expect(waiting().map(({ promptsTaken }) => promptsTaken)).toEqual([5, 5, 5, 5, 1]);
  });
});

describe('a cancel', () => {
  it('C174 cuts what is under way, and every line is in one of the files', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(25));
    const runner = world.start({ maxLinesInFlight: 8 });
    await world.rest();
    world
      .open()
      .slice(0, 5)
      .forEach((line) => line.ok());
    await world.pass(100);
    const under = world.open();
    expect(under).toHaveLength(8);
    await world.store.cancel('anonymous', id, 1_800_000_001);
    runner.wake();
    await world.pass(100);
    expect(under.every(({ aborted }) => aborted)).toBe(true);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'cancelled', counts: { total: 25, completed: 5, failed: 20 } });
    const files = [...world.files(batch).values()];
    expect(files.filter(({ file }) => file === 'output')).toHaveLength(5);
    expect(files.filter(({ error }) => error?.code === 'batch_cancelled')).toHaveLength(20);
    expect(runner.figures().counts.results).toMatchObject({ completed: 5, cancelled: 20 });
  });

  it('is seen at the heartbeat where nobody tells of it', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(3));
    world.start();
    await world.rest();
    await world.store.cancel('anonymous', id, 1_800_000_001);
    await world.pass(runSettings.leaseMs / 3 + 200, 1000);
    expect((await world.batch(id)).status).toBe('cancelled');
  });

  it('keeps an answer that was whole in the very moment', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(2));
    const runner = world.start();
    await world.rest();
    world.open()[0]?.ok();
    await world.store.cancel('anonymous', id, 1_800_000_001);
    runner.wake();
    await world.pass(100);
    expect(await world.batch(id)).toMatchObject({ status: 'cancelled', counts: { completed: 1, failed: 1 } });
  });

  it('C185 leaves files whose ids stay what they are', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(3));
    const runner = world.start();
    await world.rest();
    world.open()[0]?.ok();
    await world.pass(100);
    await world.store.cancel('anonymous', id, 1_800_000_001);
    runner.wake();
    await world.pass(100);
    const batch = await world.batch(id);
    expect(batch.outputFileId).toBe(resultFileId(id, 'output'));
    expect(batch.errorFileId).toBe(resultFileId(id, 'error'));
    expect(await world.store.cancel('anonymous', id, 1_800_000_009)).toEqual(batch);
    for (const fileId of [batch.outputFileId, batch.errorFileId])
      expect(await world.store.file('anonymous', fileId ?? '')).toMatchObject({ purpose: 'batch_output' });
  });

  it('C177 that was begun by a process that died is brought to its end by the next', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(6));
    const dead = world.start({ maxLinesInFlight: 2 });
    await world.rest();
    world.open()[0]?.ok();
    await world.pass(100);
    await world.store.cancel('anonymous', id, 1_800_000_001);
    world.store.expireLeases();
    const next = world.start();
    await world.pass(1500);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'cancelled', counts: { total: 6, completed: 1, failed: 5 } });
    expect(world.files(batch).size).toBe(6);
    await Promise.all([dead.stop(0), next.stop(0)]);
  });

  it('before the lines are known ends without files', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(6));
    await world.store.cancel('anonymous', id, 1_800_000_001);
    world.start();
    await world.rest();
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'cancelled', counts: { total: 0 } });
    expect(batch.outputFileId ?? batch.errorFileId).toBeUndefined();
    expect(world.sent).toHaveLength(0);
  });
});

describe('the end of the window', () => {
  it('C181 keeps what is done; the rest is expired', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(10));
    const runner = world.start({ maxLinesInFlight: 1 });
    await world.rest();
    for (let n = 0; n < 4; n += 1) {
      world.open()[0]?.ok();
      await world.pass(100);
    }
    const [under] = world.open();
    await world.pass(windowSeconds * 1000, 20_000);
    expect(under?.aborted).toBe(true);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'expired', counts: { total: 10, completed: 4, failed: 6 } });
    const codes = [...world.files(batch).values()].map(({ error }) => error?.code);
    expect(codes.filter((code) => code === 'batch_expired')).toHaveLength(6);
    expect(runner.figures().counts.results).toMatchObject({ completed: 4, expired: 6 });
  });

  it('that passed while nobody worked on it is the end all the same, also where a crash came between', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(3), { expiresAt: Math.floor(world.clock.wallMs() / 1000) + 1 });
    await world.pass(2000, 1000);
    world.shelf.fault = 'full';
    const first = world.start();
    await world.pass(3000);
    expect((await world.batch(id)).counts).toMatchObject({ total: 3, failed: 3 });
    await first.stop(0);
    world.shelf.fault = undefined;
    world.start();
    await world.pass(1500);
    expect(await world.batch(id)).toMatchObject({ status: 'expired', counts: { failed: 3 } });
    expect(world.sent).toHaveLength(0);
  });
});

describe('a process that dies', () => {
  it('C176 leaves what is written: the next one sends only what is missing', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(20));
    const dead = world.start({ maxLinesInFlight: 4 });
    await world.rest();
    for (let n = 0; n < 2; n += 1) {
      world.open().forEach((line) => line.ok());
      await world.pass(100);
    }
    const lost = world.open().map((line) => line.id);
    world.store.expireLeases();
    const next = world.start({ maxLinesInFlight: 100 });
    await world.pass(1500);
    world.open().forEach((line) => line.ok());
    await world.pass(300);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'completed', counts: { total: 20, completed: 20, failed: 0 } });
    expect(world.files(batch).size).toBe(20);
    for (const line of ids(20)) {
      const times = world.sent.filter((sent) => sent.id === line).length;
      expect(times, line).toBeLessThanOrEqual(lost.includes(line) ? 2 : 1);
    }
    await Promise.all([dead.stop(0), next.stop(0)]);
  });

  it('C176 in the very moment after an answer has that answer in the store, however many came with it', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(30));
    const runner = world.start({ maxLinesInFlight: 20 });
    await world.rest();
    world.open().forEach((line) => line.ok());
    await world.rest();
    expect(world.store.resultsOf(id)).toHaveLength(20);
    expect(world.store.calls['addResults']).toBeLessThanOrEqual(2);
    await runner.stop(0);
  });

  it('C176 while it writes files leaves nothing that the next one can not write again', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(3));
    world.store.failOn('finish', 'away');
    const dead = world.start();
    await world.rest();
    world.open().forEach((line) => line.ok());
    await world.pass(300);
    expect((await world.batch(id)).status).toBe('finalizing');
    world.store.expireLeases();
    world.store.failOn('finish', undefined);
    const next = world.start();
    await world.pass(1500);
    const batch = await world.batch(id);
    expect(batch).toMatchObject({ status: 'completed', outputFileId: resultFileId(id, 'output') });
    expect(world.files(batch).size).toBe(3);
    expect(world.sent).toHaveLength(3);
    await Promise.all([dead.stop(0), next.stop(0)]);
  });

  it("and comes back to life writes nothing into what is now another one's", async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(2));
    const slow = world.start();
    await world.rest();
    const [first, second] = world.open();
    world.store.expireLeases();
    const next = world.start();
    await world.pass(1500);
    first?.ok();
    second?.status(400);
    await world.pass(runSettings.leaseMs / 3 + 500, 1000);
    expect(world.store.resultsOf(id)).toHaveLength(0);
    expect(world.logged.filter(({ level }) => level === 'error')).toHaveLength(0);
    world.open().forEach((line) => line.ok());
    await world.pass(200);
    expect(await world.batch(id)).toMatchObject({ status: 'completed', counts: { completed: 2 } });
    await Promise.all([slow.stop(0), next.stop(0)]);
  });
});

describe('storage that fails', () => {
  it('is told once, and the batch waits: no line is lost and none is sent meanwhile', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(12));
    world.start({ maxLinesInFlight: 4 });
    await world.rest();
    world.store.failOn('all', 'full');
    world.open().forEach((line) => line.ok());
    await world.pass(20_000, 500);
    expect(world.sent).toHaveLength(4);
    expect(world.logged.filter(({ level }) => level === 'warn')).toHaveLength(1);
    world.store.failOn('all', undefined);
    await world.pass(6000, 500);
    while (world.open().length > 0) {
      world.open().forEach((line) => line.ok());
      await world.pass(200);
    }
    expect(world.logged.filter(({ msg }) => msg === 'the storage of batches works again')).toHaveLength(1);
    expect(await world.batch(id)).toMatchObject({ status: 'completed', counts: { completed: 12 } });
    expect(world.sent).toHaveLength(12);
  });

  it('C177 full at the end: the batch ends as soon as there is room', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(2));
    world.start();
    await world.rest();
    world.shelf.fault = 'full';
    world.open().forEach((line) => line.ok());
    await world.pass(30_000, 1000);
    expect((await world.batch(id)).status).toBe('finalizing');
    world.shelf.fault = undefined;
    await world.pass(6000, 500);
    expect((await world.batch(id)).status).toBe('completed');
  });
});

describe('several batches', () => {
  it('of two tenants get lines in turn, and so do the batches of one, the one that ends first before the other', async () => {
    const world = createBatchWorld();
    await world.add(ids(50, 'a'), { tenant: 'anna' });
    const soon = Math.floor(world.clock.wallMs() / 1000) + 600;
    await world.add(ids(50, 'b'), { tenant: 'anna', expiresAt: soon });
    await world.add(ids(50, 'c'), { tenant: 'carl' });
    world.start({ maxLinesInFlight: 1 });
    await world.rest();
    for (let n = 0; n < 9; n += 1) {
      world.open()[0]?.ok();
      await world.pass(100);
    }
    expect(
      world.sent
        .slice(1)
        .map(({ id }) => id[0])
        .join(''),
    ).toMatch(/^c?(bcac){2}b?$/);
  });

  it('never have more lines under way than may be, results that are not written among them', async () => {
    const world = createBatchWorld();
    await world.add(ids(50, 'a'), { tenant: 'anna' });
    await world.add(ids(50, 'b'), { tenant: 'bert' });
    world.start({ maxLinesInFlight: 6 });
    await world.rest();
    expect(world.open()).toHaveLength(6);
    world.store.failOn('addResults', 'busy');
    world
      .open()
      .slice(0, 3)
      .forEach((line) => line.ok());
    await world.pass(2000);
    expect(world.open()).toHaveLength(3);
    world.store.failOn('addResults', undefined);
    await world.pass(6000, 500);
    expect(world.open()).toHaveLength(6);
  });
});

describe('a stop', () => {
  it('lets lines that are nearly done end, aborts the others without a result, and gives all back', async () => {
    const world = createBatchWorld();
    const { id } = await world.add(ids(10));
    const runner = world.start();
    await world.rest();
    const [quick, ...slow] = world.open();
    const stopped = runner.stop(2000);
    await world.pass(1000);
    quick?.ok();
    await world.pass(1500);
    await stopped;
    expect(slow.every(({ aborted }) => aborted)).toBe(true);
    expect(world.sent).toHaveLength(4);
    expect(world.store.resultsOf(id)).toHaveLength(1);
    expect(world.store.calls['release']).toBe(1);
    const next = world.start({ maxLinesInFlight: 100 });
    await world.rest();
    expect(world.open()).toHaveLength(9);
    await next.stop(0);
  });
});

describe('the progress of a batch', () => {
  it('tells its pace and whether that does for its window', async () => {
    const world = createBatchWorld();
    await world.add(ids(100));
    const runner = world.start({ maxLinesInFlight: 1 });
    await world.rest();
    expect(runner.progress()).toMatchObject([{ inFlight: 1, running: 0 }]);
    world.open()[0]?.placed();
    world.open()[0]?.placed();
    expect(runner.progress()).toMatchObject([{ inFlight: 1, running: 1 }]);
    expect(runner.progress()[0]).not.toHaveProperty('linesPerSecond');
    for (let n = 0; n < 20; n += 1) {
      world.open()[0]?.ok();
      await world.pass(1000, 500);
    }
    const [progress] = runner.progress();
    expect(progress?.linesPerSecond).toBeCloseTo(1, 0);
    expect(progress?.secondsLeft).toBeGreaterThan(60);
    expect(progress?.isLate).toBe(false);
  });
});
