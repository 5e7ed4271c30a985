import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ReportResult } from '../../../src/account/report/report.ts';
import type { Process } from '../../../src/cli/process.ts';
import { runReport } from '../../../src/cli/report.ts';
import type { ReportInput } from '../../../src/cli/report-text.ts';
import { at, lineText, requestLine } from '../../support/log-rows.ts';

let folder = '';
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'warmlane-report-'))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, content: string | Buffer): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

type Account = ReportResult & { readonly input: ReportInput };

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function run(argv: readonly string[], stdin = '', terminal = false): Promise<Ran> {
  let out = '';
  let err = '';
  const process: Process = {
    argv: [],
    env: {},
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    onSignal: () => () => {},
    onUncaught() {},
    exit() {},
    terminal,
    async *input() {
      // In pieces that end within a line and within a character.
      const bytes = Buffer.from(stdin);
      for (let from = 0; from < bytes.length; from += 7) yield bytes.subarray(from, from + 7);
    },
  };
  const code = await runReport(argv, process, Date.parse('2026-03-02T00:00:00Z'));
  return { code, out, err };
}

async function json(...argv: string[]): Promise<{ code: number; result: Account }> {
  const { code, out } = await run([...argv, '--json']);
  return { code, result: JSON.parse(out) as Account };
}

const lines = (count: number, fromMs: number) =>
  Array.from({ length: count }, (_, i) => requestLine({ ...at(fromMs + i * 1000), requestId: `r${fromMs}-${i}` })).join(
    '',
  );

describe('warmlane report', () => {
  it('reads JSON and logfmt, plain and packed, from files and from stdin, to the same account', async () => {
    const jsonLines = lines(50, 0);
    const logfmt = Array.from({ length: 50 }, (_, i) =>
      requestLine({ ...at(i * 1000), requestId: `r0-${i}` }, 'logfmt'),
    ).join('');
    const from = async (path: string, stdin = '') => {
      const { code, out } = await run([path, '--json'], stdin);
      expect(code).toBe(0);
      const { input: _files, ...rest } = JSON.parse(out) as Record<string, unknown>;
      return rest;
    };
    const plain = await from(file('plain.log', jsonLines));
    expect(plain['requests']).toMatchObject({ total: 50, ok: 50 });
    expect(await from(file('packed.log.gz', gzipSync(jsonLines)))).toEqual(plain);
    expect(await from(file('packed-without-its-name', gzipSync(jsonLines)))).toEqual(plain);
    const halves = Buffer.concat([jsonLines.slice(0, 5000), jsonLines.slice(5000)].map((half) => gzipSync(half)));
    expect(await from(file('appended.gz', halves))).toEqual(plain);
    expect(await from(file('logfmt.log', logfmt))).toEqual(plain);
    expect(await from('-', jsonLines)).toEqual(plain);
  });

  it('explains a star where one is printed, and only there', async () => {
    const footnote = '* Of the requests that have a value';
    const failed = requestLine({
      ...at(9000),
      requestId: 'f',
      outcome: 'upstream_error',
      status: 502,
      ttftMs: undefined,
      tpotMs: undefined,
      e2eMs: undefined,
    });
    const few = await run(['-'], lines(3, 0) + failed);
    // The median is reached; what the other percentiles would be is not printed of three values.
    expect(few.out).toMatch(/TTFT.*800 +– +– +–/);
    expect(few.out).not.toContain('*');
    const most = await run(['-'], lines(1, 0) + failed.repeat(2));
    expect(most.out).toMatch(/TTFT.* 800\* /);
    expect(most.out).toContain(footnote);
  });

  it('counts one as one', async () => {
    const { out } = await run(['-'], lines(1, 0));
    expect(out).toContain('1 line: 1 request, 0 other lines.');
  });

  it('passes over other lines and counts what it can’t read', async () => {
    const path = file(
      'mixed.log',
      [
        lineText('listening', { data: 'http://x' }),
        'npm warn something\n',
        lines(3, 0),
        '\n',
        requestLine().slice(0, 100),
        '\n',
        lineText('request', { requestId: 'r' }),
        `{"time":"${'x'.repeat(3 * 1024 * 1024)}\n`,
        lines(2, 10_000),
        requestLine().slice(0, 200),
      ].join(''),
    );
    const { code, result } = await json(path);
    expect(code).toBe(0);
    expect(result.input).toMatchObject({ lines: 11, requests: 5, others: 1, foreign: 1, malformed: 4 });
    expect(result.requests.total).toBe(5);
  });

  it('puts rotated files in order, whatever order they are named in', async () => {
    const parts = [0, 1, 2, 3].map((part) => lines(400, part * 400_000));
    const paths = parts.map((text, i) =>
      i % 2 === 0 ? file(`rotated.${i}.gz`, gzipSync(text)) : file(`rotated.${i}`, text),
    );
    const { result: right } = await json(...paths);
    const { result: wrong } = await json(...paths.toReversed());
    const { result: whole } = await json(file('whole.log', parts.join('')));
    expect(right.concurrency).toEqual(whole.concurrency);
    expect(wrong).toEqual(right);
    expect(right.concurrency[0]?.clipped).toBe(0);
  });

  it('reads logs of several processes side by side', async () => {
    // Each alone: two streams at once. Both on one backend: four.
    const one = file('one.log', lines(300, 0));
    const other = file('other.log', lines(300, 0));
    const { result } = await json(one, other);
    const [backend] = result.concurrency;
    expect(backend?.streams).toBe(600);
    expect(backend?.levels.find(({ from }) => from === 4)?.share).toBeGreaterThan(0.9);
  });

  it('reads a file once that is named twice', async () => {
    const path = file('same.log', lines(4, 0));
    symlinkSync(path, join(folder, 'link.log'));
    const { result } = await json(path, path, join(folder, 'link.log'));
    expect(result.requests.total).toBe(4);
  });

  it('says what it could not read, and goes on with the rest', async () => {
    const packed = gzipSync(lines(3000, 0));
    const cut = file('cut.gz', packed.subarray(0, packed.length / 2));
    const { code, out, err } = await run([cut, join(folder, 'absent.log'), folder]);
    expect(code).toBe(0);
    expect(err).toContain('absent.log: there is no such file');
    expect(err).toContain('it is a directory; name the files in it');
    expect(err).toContain('cut.gz: its compressed data ends too soon');
    expect(out).toContain('Not read to its end');
  });

  it.each([
    ['absent', undefined, 'there is no such file'],
    ['empty', '', 'there is not one line in it'],
    ['prose', 'hello\nworld\n', 'that is no request log: 2 lines, none of them warmlane'],
    ['quiet', lineText('listening', {}), 'no request in 1 lines of warmlane'],
    ['zstd', Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0]), 'zstdcat FILE | warmlane report -'],
  ])('ends with 1 and says how to get a log: %s', async (name, content, says) => {
    const path = content === undefined ? join(folder, name) : file(name, content);
    const { code, out, err } = await run([path]);
    expect(code).toBe(1);
    expect(out).toBe('');
    expect(err).toContain(says);
    if (name !== 'quiet') expect(err).toContain('--log-format json');
  });

  it('ends with 2 when it is used wrongly', async () => {
    expect(await run(['--nonsense'])).toMatchObject({ code: 2, out: '' });
  });

  it('fits a hundred columns, whatever things are called, and colours only a terminal', async () => {
    const hostile = `\u001b[31mred\u202e ${'long'.repeat(60)}`;
    const text = Array.from({ length: 200 }, (_, i) =>
      requestLine({
        ...at(i * 700),
        requestId: `${hostile}${i}`,
        model: `${hostile}${i % 3}`,
        backend: `${hostile}${i % 2}`,
        warmth: i % 2 === 0 ? 'prefix_hit' : 'resident',
        outcome: i % 9 === 0 ? 'timeout' : 'ok',
        reason: i % 9 === 0 ? hostile : undefined,
        stallMs: i % 5 === 0 ? 123_456.789 : undefined,
        stalledBy: hostile,
        slo: hostile,
        sloMet: i % 2 === 0,
        sloBroke: ['ttft:prefill:1230.5/200'],
        ttftMs: 123_456.789 + i,
        e2eMs: 234_567.891 + i,
        durationMs: 345_678.912,
        promptTokens: 123_456_789,
      }),
    ).join('');
    const path = file('hostile.log', text);
    const { out } = await run([path, '--split', '2026-03-01T12:01:00Z']);
    const widest = out.split('\n').reduce((a, b) => (b.length > a.length ? b : a));
    expect(widest.length, widest).toBeLessThanOrEqual(100);
    // eslint-disable-next-line no-control-regex -- control characters are what must not get through
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
    expect((await run([path], '', true)).out).toContain('\u001b[1mRequests\u001b[0m');
  });

  it('prints ids whole, however long: what a line of a batch ends with is its number', async () => {
    const ids = ['batch_mYFHNoQ7T58aBcDeFgHiJkLm-1234567.2', `mine-${'x'.repeat(122)}7`];
    const text = ids.map((requestId, i) => requestLine({ ...at(i), requestId, stallMs: 50, stalledBy: requestId }));
    const { out } = await run([file('long-ids.log', text.join(''))]);
    for (const id of ids) expect(out.split(id).length - 1, id).toBe(3);
    const [, row = '', note = ''] = out.slice(out.indexOf('Longest until the end\n')).split('\n').slice(1);
    expect(row).toMatch(/^ {2}batch_mYFHNoQ7T58aBcDeFgHiJkLm-1234567\.2 +2,810 +800 /);
    expect(note).toMatch(/^ {4}decode 1,950, prefill 79\d/);
  });

  it('shows online and batch apart where both occur, and one of them as ever with --lane', async () => {
    const online = { lane: 'online', ttftMs: 100, e2eMs: 300, durationMs: 310 };
    const batch = { lane: 'batch', ttftMs: 90_000, e2eMs: 95_000, durationMs: 95_000, outcome: 'ok' };
    const text = Array.from({ length: 30 }, (_, i) =>
      requestLine({ ...at(i * 10), ...(i % 3 === 0 ? online : batch), requestId: `${i % 3 === 0 ? 'on' : 'ba'}-${i}` }),
    );
    const path = file('both-lanes.log', text.join(''));
    const { out } = await run([path]);
    const sections = out.split(/\n\n(?=\S)/);
    const section = (title: string) => sections.find((each) => each.startsWith(`${title}\n`)) ?? '';
    expect(section('Requests')).toContain('By lane: online 10 of 10 ok; batch 20 of 20 ok.');
    expect(section('Times in ms, online')).toMatch(/TTFT, TTFA +\S+ +10 +100 /);
    expect(section('Times in ms, online')).not.toContain('90,0');
    expect(section('Tokens, online')).toMatch(/all +10,000 /);
    for (const title of ['Longest until the first token, online', 'Longest until the end, online']) {
      expect(section(title)).toContain('on-0');
      expect(section(title)).not.toContain('ba-');
    }
    expect(section('Lane batch: times in ms')).toMatch(/TTFT +20 +90,/);
    expect(section('Lane batch: tokens')).toMatch(/all +20,000 /);
    expect(section('Lane batch: longest until the end')).toContain('ba-1');
    const only = (await run([path, '--lane', 'batch'])).out;
    expect(only).toMatch(/\nTimes in ms\n/);
    expect(only).not.toMatch(/Lane batch|, online|By lane/);
    const lanes = (await json(path)).result.lanes ?? [];
    expect(lanes.map(({ lane, requests }) => [lane, requests.total])).toEqual([
      ['online', 10],
      ['batch', 20],
    ]);
    expect((await json(path, '--lane', 'online')).result.lanes).toBeUndefined();
  });

  it('compares what came before a time with what came after', async () => {
    const half = (fromMs: number, factor: number) =>
      Array.from({ length: 300 }, (_, i) =>
        requestLine({ ...at(fromMs + i * 1000), ttftMs: (300 + ((i * 37) % 200)) * factor }),
      ).join('');
    const path = file('change.log', half(0, 1) + half(300_000, 0.5));
    const { out } = await run([path, '--split', '2026-03-01T12:05:00Z']);
    expect(out).toMatch(/TTFT p50 +resident .* lower /);
    expect(out).toMatch(/TPOT p50 +resident .* no difference /);
    const sides = await run(['--before', file('b', half(0, 1)), '--after', file('a', half(0, 1)), '--json']);
    const { comparison } = JSON.parse(sides.out) as { comparison: { differences: { verdict: string }[] } };
    expect(new Set(comparison.differences.map(({ verdict }) => verdict))).toEqual(new Set(['no_difference_seen']));
  });
});
