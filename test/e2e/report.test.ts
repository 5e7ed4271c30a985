/** The program's own log of real traffic on simulated servers, read by `warmlane report`, against the records. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import type { ConcurrencyView } from '../../src/account/concurrency-table.ts';
import { courseOf } from '../../src/account/report/course.ts';
import { figureNames } from '../../src/account/report/figures.ts';
import type { ReportResult } from '../../src/account/report/report.ts';
import { readRow } from '../../src/account/report/row.ts';
import { beginOf, courseSpent, timeSpent } from '../../src/account/slo/time-spent.ts';
import type { Process } from '../../src/cli/process.ts';
import { runReport } from '../../src/cli/report.ts';
import type { ReportInput } from '../../src/cli/report-text.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { logFields } from '../support/log-fields.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createLog } from '../../src/platform/log.ts';
import { createSimServer } from '../../src/sim/server.ts';
import { laptopLlamaServer, laptopVllmServer } from '../../src/sim/server-settings.ts';
import { lineText, parsed } from '../support/log-rows.ts';
import { startProxy } from '../support/proxy.ts';

function ask(url: string, body: object, leaveAfterMs?: number): Promise<void> {
  return new Promise((resolve) => {
    const sent = request(`${url}/v1/chat/completions`, { method: 'POST', agent: false }, (answer) => {
      answer.resume();
      answer.on('close', resolve);
    });
    sent.on('error', () => resolve());
    sent.setHeader('content-type', 'application/json');
    sent.end(JSON.stringify(body));
    if (leaveAfterMs !== undefined) setTimeout(() => sent.destroy(), leaveAfterMs);
  });
}

type Account = ReportResult & { readonly input: ReportInput };

async function report(path: string): Promise<Account> {
  let out = '';
  const process: Process = {
    argv: [],
    env: {},
    out: (text) => void (out += text),
    err: () => true,
    onSignal: () => () => {},
    onUncaught() {},
    exit() {},
  };
  expect(await runReport([path, '--json'], process, Date.now())).toBe(0);
  return JSON.parse(out) as Account;
}

const sum = (records: readonly RequestRecord[], of: (record: RequestRecord) => number | undefined) =>
  records.reduce((total, record) => total + (of(record) ?? 0), 0);

it('the report of the log agrees with the records, in both formats of the log', async () => {
  const deps = { clock: systemClock };
  const servers = await Promise.all([
    createSimServer(laptopVllmServer, deps),
    createSimServer(laptopLlamaServer, deps),
  ]);
  const proxy = await startProxy(servers.map(({ url }) => url));
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-report-'));
  try {
    const chat = (text: string, over: object = {}) => ({
      model: 'simulated',
      stream: true,
      max_tokens: 24,
      messages: [{ role: 'user', content: text }],
      ...over,
    });
    const long = 'The same long beginning of a prompt, so that a prefix can be hit. '.repeat(12);
    await Promise.all([ask(proxy.url, chat(long)), ask(proxy.url, chat(long))]);
    await Promise.all([0, 1, 2, 3].map((i) => ask(proxy.url, chat(`${long} ${i}`))));
    await ask(proxy.url, chat('not streamed', { stream: false }));
    await ask(proxy.url, chat('left alone', { max_tokens: 400 }), 400);
    await ask(proxy.url, { messages: 'wrong' });
    const records = await proxy.records(9);
    const lines = (format: 'json' | 'logfmt') => {
      const texts: string[] = [];
      const log = createLog({ level: 'info', format }, (line) => void texts.push(line));
      for (const record of records) log.info('request', logFields(record));
      return texts.join('');
    };
    const own = join(folder, 'own.log');
    writeFileSync(own, proxy.logged.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const logfmt = join(folder, 'logfmt.log');
    writeFileSync(logfmt, lines('logfmt'));

    const result = await report(own);
    expect(result.input).toMatchObject({ requests: records.length, malformed: 0, foreign: 0 });
    const outcomes = new Map<string, number>();
    for (const { outcome } of records) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    expect(result.requests.by.outcome).toEqual(Object.fromEntries(outcomes));
    expect(outcomes.get('client_abort')).toBe(1);
    expect(result.tokens.all).toMatchObject({
      prompt: sum(records, ({ tokens }) => tokens.prompt?.value),
      cached: sum(records, ({ tokens }) => tokens.cached?.value),
      output: sum(records, ({ tokens }) => tokens.output?.value),
    });
    const all = result.populations.find(({ by }) => by === 'all');
    for (const [name, key] of [
      ['ttft', 'ttftMs'],
      ['tpot', 'tpotMs'],
      ['e2e', 'e2eMs'],
      ['overhead', 'overheadMs'],
    ] as const) {
      const values = records.flatMap(({ figures }) => figures[key] ?? []).toSorted((a, b) => a - b);
      const { spread, values: n } = all?.figures[name] ?? {};
      expect(n, name).toBe(values.length);
      const exact = values[Math.ceil(values.length / 2) - 1] ?? 0;
      expect(Math.abs((spread?.p50 ?? 0) / exact - 1), name).toBeLessThan(0.006);
      expect(spread?.max, name).toBeCloseTo(values.at(-1) ?? 0, 1);
    }
    const gaps = sum(records, ({ itl }) => itl?.count);
    expect(gaps).toBeGreaterThan(50);
    expect(all?.figures.itl.values).toBe(gaps);
    // Two streams ran side by side on one backend at least.
    const levels = result.concurrency.flatMap(({ levels: of }) => of);
    expect(levels.some(({ from }) => from >= 2)).toBe(true);

    const same = await report(logfmt);
    for (const part of ['requests', 'tokens', 'populations', 'stalls', 'slo', 'useful'] as const)
      expect(same[part], part).toEqual(result[part]);
  } finally {
    await proxy.close();
    await Promise.all(servers.map((server) => server.close()));
    rmSync(folder, { recursive: true, force: true });
  }
});

interface LiveFigure {
  readonly requests: number;
  readonly gaps?: number;
  readonly [name: string]: unknown;
}
interface LiveStats {
  readonly all: { readonly requests: number; readonly figures: Readonly<Record<string, LiveFigure>> };
}
interface LiveConcurrency {
  readonly backends: readonly (ConcurrencyView & { readonly backend: string })[];
}

/** A bucket, and the microseconds in which a line gives times. */
function expectSame(read: number | undefined, live: number, name: string): void {
  expect(Math.abs((read ?? Number.NaN) - live), `${name}: ${read} and ${live}`).toBeLessThanOrEqual(
    0.012 * live + 0.002,
  );
}

it('the report, /concurrency and /stats tell the same of one run', async () => {
  const deps = { clock: systemClock };
  const servers = await Promise.all([
    createSimServer(laptopVllmServer, deps),
    createSimServer(laptopLlamaServer, deps),
  ]);
  const proxy = await startProxy(servers.map(({ url }) => url));
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-report-'));
  try {
    const chat = (text: string, over: object = {}) => ({
      model: 'simulated',
      stream: true,
      max_tokens: 24,
      messages: [{ role: 'user', content: text }],
      ...over,
    });
    await ask(proxy.url, chat('one after'));
    await ask(proxy.url, chat('another'));
    await Promise.all([1, 2, 3, 4, 5].map((i) => ask(proxy.url, chat(`side by side ${i}`, { max_tokens: 8 * i }))));
    await ask(proxy.url, chat('two choices', { n: 2 }));
    await ask(proxy.url, chat('left alone', { max_tokens: 400 }), 500);
    await ask(proxy.url, chat('not streamed', { stream: false }));
    const records = await proxy.records(10);
    const path = join(folder, 'own.log');
    writeFileSync(path, proxy.logged.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const result = await report(path);
    const page = async (name: string): Promise<unknown> => (await fetch(`${proxy.adminUrl}/${name}`)).json();
    const stats = (await page('stats?window=60m')) as LiveStats;
    const { backends } = (await page('concurrency?window=60m')) as LiveConcurrency;

    const all = result.populations.find(({ by }) => by === 'all');
    expect(all?.requests).toBe(stats.all.requests);
    for (const name of figureNames) {
      const live = stats.all.figures[name];
      const read = all?.figures[name];
      expect(live?.requests, name).toBeGreaterThan(0);
      expect(read?.requests, name).toBe(live?.requests);
      for (const at of ['p50', 'p90', 'p95', 'p99', 'p999', 'mean', 'min', 'max'] as const)
        expectSame(read?.spread?.[at], Number(live?.[`${at}Ms`]), `${name} ${at}`);
    }
    // The phases of a line are those of its record, but for the turn between admission and the attempt, which may be a long one.
    for (const record of records) {
      const row = readRow(parsed(lineText('request', logFields(record))));
      const untilMs = record.figures.durationMs;
      const read = row === undefined ? new Map<string, number>() : courseSpent(courseOf(row), untilMs);
      for (const [phase, ms] of timeSpent(record, beginOf(record) + untilMs))
        expect(Math.abs((read.get(phase) ?? 0) - ms), `${record.requestId} ${phase}`).toBeLessThan(20);
    }
    // All gaps came through the line as they were: no bucket is another.
    expect(all?.figures.itl.values).toBe(stats.all.figures['itl']?.gaps);
    for (const at of ['p50', 'p90', 'p95', 'p99', 'p999'] as const)
      expect(all?.figures.itl.spread?.[at], at).toBeCloseTo(Number(stats.all.figures['itl']?.[`${at}Ms`]), 2);

    expect(backends.map(({ backend }) => backend)).toEqual(result.concurrency.map(({ backend }) => backend));
    let levelsSeen = 0;
    for (const [i, live] of backends.entries()) {
      const read = result.concurrency[i];
      expect(read).toMatchObject({ coldStarts: live.coldStarts, levelFromMoments: 0 });
      const levels = read?.levels.filter(({ requests }) => requests > 0) ?? [];
      const counts = ({ from, to, requests, lagged }: (typeof levels)[number]) => ({ from, to, requests, lagged });
      expect(levels.map(counts)).toEqual(
        live.levels.map(({ from, to, requests, lagged }) => ({ from, to, requests, lagged })),
      );
      for (const [at, level] of live.levels.entries()) {
        levelsSeen += 1;
        const { tpot, itl, meanConcurrency, tokensPerSecond = 0, userTokensPerSecond = 0 } = levels[at] ?? {};
        expect(meanConcurrency).toBeCloseTo(level.meanConcurrency, 2);
        expect(tokensPerSecond / level.tokensPerSecond).toBeCloseTo(1, 4);
        expect(userTokensPerSecond / level.userTokensPerSecond).toBeCloseTo(1, 4);
        expectSame(tpot?.p50, level.tpotP50Ms, 'TPOT p50');
        expectSame(tpot?.p99, level.tpotP99Ms, 'TPOT p99');
        expect(itl?.p50).toBeCloseTo(level.itlP50Ms ?? -1, 2);
        expect(itl?.p99).toBeCloseTo(level.itlP99Ms ?? -1, 2);
      }
    }
    expect(levelsSeen).toBeGreaterThan(2);
  } finally {
    await proxy.close();
    await Promise.all(servers.map((server) => server.close()));
    rmSync(folder, { recursive: true, force: true });
  }
});
