/** The program itself on a log of 200,000 requests, in a heap that could not hold them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';

import { built } from '../support/built.ts';
import { at, requestLine } from '../support/log-rows.ts';

const requests = 200_000;
const heapMb = 64;

it('reads a long log in bounded memory, every request with names of its own', { timeout: 120_000 }, async () => {
  const program = await built();
  const child = spawn(process.execPath, [
    `--max-old-space-size=${heapMb}`,
    program,
    'report',
    '-',
    '--json',
    '--split',
    '2026-03-02',
  ]);
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  child.stdin.on('error', () => {});
  const exited = once(child, 'exit');
  const template = requestLine({
    ...at(0),
    requestId: 'request-#',
    model: 'model-#',
    backend: 'backend-@',
    reason: 'reason-#',
    stallMs: 5,
    stalledBy: 'stalling-#',
    itl: '6/-a0/0/15ot3k/5yc1s/hqx8w/1358(b)631d11',
  })
    .replace(/"time":"[^"]*"/, '"time":"!"')
    .replace(/"startedAt":"[^"]*"/, '"startedAt":"!"');
  let some = '';
  for (let i = 0; i < requests && child.exitCode === null; i += 1) {
    const { startedAt } = at(i * 900);
    some += template
      .replaceAll('#', String(i))
      .replace('@', String(i % 100))
      .replaceAll('!', startedAt);
    if (i % 100 !== 99) continue;
    if (!child.stdin.write(some)) await Promise.race([once(child.stdin, 'drain'), exited]);
    some = '';
  }
  child.stdin.end();
  await exited;
  expect([child.exitCode, err.slice(0, 500)]).toEqual([0, '']);
  const { input, requests: counts } = JSON.parse(out) as { input: { requests: number }; requests: { total: number } };
  expect(input.requests).toBe(requests);
  expect(counts.total).toBe(requests);
});
