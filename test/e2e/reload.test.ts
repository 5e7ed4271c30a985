/** A running warmlane whose config file changes: `serve` in this process, over real files and sockets. */
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Process } from '../../src/cli/process.ts';
import { serve } from '../../src/cli/serve.ts';
import { type Script, until } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer, wholeStream } from '../../src/sim/sse-script.ts';
import { parseAnswer, postBytes, R0, rawClient, type RawClient } from '../support/raw-http.ts';
import { createStage, eventually, sleep, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
let folder: string;
let file: string;
let running: Running | undefined;
beforeEach(() => {
  stage = createStage();
  folder = mkdtempSync(join(tmpdir(), 'warmlane-reload-'));
  file = join(folder, 'warmlane.yaml');
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await stage.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Running {
  readonly port: number;
  readonly adminUrl: string;
  readonly logged: readonly Record<string, unknown>[];
  signal(name: 'SIGHUP'): void;
  stop(): Promise<void>;
}

const base = `listen: 127.0.0.1:0
admin: { listen: "127.0.0.1:0" }
log: { format: json }
routing: { policy: least-load }
`;
const backends = (...urls: readonly string[]) =>
  `backends:\n${urls.map((url, index) => `  - { url: "${url}", name: b${index}, maxInFlight: 1 }\n`).join('')}`;

/** As editors do it. */
function replaceFile(text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

async function started(text: string): Promise<Running> {
  writeFileSync(file, text);
  const listeners = new Map<string, () => void>();
  const logged: Record<string, unknown>[] = [];
  const process: Process = {
    argv: [],
    env: {},
    out: () => {},
    err(lines) {
      for (const line of lines.split('\n')) if (line !== '') logged.push(JSON.parse(line) as Record<string, unknown>);
    },
    onSignal(name, listener) {
      listeners.set(name, listener);
      return () => listeners.delete(name);
    },
    onUncaught() {},
    exit() {},
  };
  const code = serve({ env: {}, flags: {}, file }, process);
  await eventually(() => logged.some(({ msg }) => msg === 'listening'), 'it listens');
  const urls = logged.find(({ msg }) => msg === 'listening') as { data: string; admin: string };
  running = {
    port: Number(new URL(urls.data).port),
    adminUrl: urls.admin,
    logged,
    signal: (name) => listeners.get(name)?.(),
    async stop() {
      listeners.get('SIGTERM')?.();
      expect(await code).toBe(0);
    },
  };
  return running;
}

const clients: RawClient[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.leave();
});

async function connected({ port }: Running): Promise<RawClient> {
  const made = await rawClient(port);
  clients.push(made);
  return made;
}

async function ask(warmlane: Running, request: string | Uint8Array = R0) {
  const one = await connected(warmlane);
  one.send(request);
  const answer = await one.answer();
  one.leave();
  return answer;
}

interface ConfigPage {
  readonly from: string;
  readonly loadedAt: string;
  readonly reloads: { readonly ok: number; readonly failed: number };
  readonly needsRestart: readonly string[];
  readonly lastProblem?: { readonly problems: readonly string[] };
}

async function page<T>({ adminUrl }: Running, path: string): Promise<T> {
  return (await (await fetch(`${adminUrl}${path}`)).json()) as T;
}

const config = (warmlane: Running) => page<ConfigPage>(warmlane, '/config');
const urls = async (warmlane: Running) =>
  (await page<{ backends: { url: string }[] }>(warmlane, '/backends')).backends.map(({ url }) => url);
const reloaded = (warmlane: Running, times: number) =>
  eventually(async () => (await config(warmlane)).reloads.ok >= times, `reload ${times}`);
const failed = (warmlane: Running, times: number) =>
  eventually(async () => (await config(warmlane)).reloads.failed >= times, `failure ${times}`);

const says = (text: string) => async () =>
  stage.backend({ onRequest: (): Script => [wholeStream(ROLE, T(text), FIN('stop'), DONE)] });

describe('a config file that changes', () => {
  it('takes effect on its own, and on SIGHUP, without losing a stream', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const a = await stage.backend({
      onRequest: (): Script => [
        sseHead(),
        chunk(ROLE, T('a')),
        until(gate),
        chunk(T('z'), FIN('stop'), DONE),
        lastChunk,
      ],
    });
    const b = await says('from b')();
    const warmlane = await started(base + backends(a.url));
    const streaming = await connected(warmlane);
    streaming.send(R0);
    await streaming.until(() => streaming.received.includes('"a"'));
    replaceFile(base + backends(b.url));
    await reloaded(warmlane, 1);
    expect(await urls(warmlane)).toEqual([b.url]);
    expect((await ask(warmlane)).body.toString()).toContain('from b');
    warmlane.signal('SIGHUP');
    expect((await config(warmlane)).reloads).toEqual({ ok: 2, failed: 0 });
    go();
    const answer = await streaming.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toContain('"z"');
    const { from, loadedAt } = await config(warmlane);
    expect(from).toBe(file);
    expect(Date.parse(loadedAt)).toBeGreaterThan(Date.now() - 60_000);
  });

  it('C207 is taken as a whole or not at all, and says what is wrong with it', async () => {
    const [a, b] = [await says('A')(), await says('B')()];
    const old = `${base}${backends(a.url)}models: { aliases: { old: m } }\n`;
    const warmlane = await started(old);
    const bad: readonly [string, string][] = [
      [`${base}backends: [\n`, 'warmlane.yaml'],
      [base, 'names no backends'],
      [`${base}backends: []\n`, 'names no backends'],
      [
        `${base}models: { aliases: { new: m } }\nbackends: [{ url: "${b.url}" }, { url: "nonsense" }]\n`,
        'backends[1].url',
      ],
      // Half written: it breaks off in the middle of a backend.
      [`${base}models: { aliases: { new: m } }\nbackends:\n  - { url: "${b.url}", na`, 'warmlane.yaml'],
    ];
    for (const [index, [text, problem]] of bad.entries()) {
      writeFileSync(file, text);
      await failed(warmlane, index + 1);
      expect((await config(warmlane)).lastProblem?.problems.join('\n')).toContain(problem);
      expect(await urls(warmlane)).toEqual([a.url]);
      const { data } = JSON.parse(
        (await ask(warmlane, 'GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n')).body.toString(),
      ) as { data: { id: string }[] };
      expect(data.map(({ id }) => id)).toEqual(['m', 'old']);
    }
    expect(
      warmlane.logged.filter(({ msg }) => msg === 'the new configuration is wrong; the old one holds'),
    ).toHaveLength(5);
    writeFileSync(file, `${base}models: { aliases: { new: m } }\n${backends(b.url)}`);
    await reloaded(warmlane, 1);
    expect(await config(warmlane)).not.toHaveProperty('lastProblem');
    expect(
      (
        await ask(warmlane, postBytes('/v1/chat/completions', { model: 'new', stream: true, messages: [] }))
      ).body.toString(),
    ).toContain('B');
    const metrics = await (await fetch(`${warmlane.adminUrl}/metrics`)).text();
    expect(metrics).toContain('warmlane_config_reloads_total{result="failed"} 5');
    expect(metrics).toContain('warmlane_config_reloads_total{result="ok"} 1');
  });

  it('C208 a request that waits meanwhile keeps to its own settings, and fails over without an error', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const asked: string[] = [];
    const noting = (name: string, script: () => Script) =>
      stage.backend({
        onRequest(request) {
          asked.push(`${name} ${(JSON.parse(request.body.toString()) as { model: string }).model}`);
          return script();
        },
      });
    const first = await noting('first', () => [until(gate), wholeStream(ROLE, T('1'), FIN('stop'), DONE)]);
    const busy = await noting('busy', () => [wholeAnswer(503, { error: { message: 'busy' } })]);
    const second = await noting('second', () => [wholeStream(ROLE, T('2'), FIN('stop'), DONE)]);
    const with_ = (alias: string, ...rest: readonly string[]) =>
      `${base}models: { aliases: { nick: ${alias} } }\n${rest.join('')}`;
    const warmlane = await started(with_('m', backends(first.url)));
    const [runs, waits] = [await connected(warmlane), await connected(warmlane)];
    runs.send(R0);
    await eventually(() => usersOf(first).length === 1, 'the first one runs');
    waits.send(postBytes('/v1/chat/completions', { model: 'nick', stream: true, messages: [] }));
    await eventually(async () => (await page<{ waiting: number }>(warmlane, '/running')).waiting === 1, 'one waits');
    // The alias stands for something that nobody serves now; there are more backends, and other limits.
    const more = backends(first.url, busy.url, second.url);
    writeFileSync(file, with_('nobody', more, 'queue: { maxJobs: 0 }\nusage: passive\n'));
    await reloaded(warmlane, 1);
    const answer = await waits.answer();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toContain('"2"');
    expect(asked).toEqual(['first m', 'busy m', 'second m']);
    go();
    expect((await runs.answer()).complete).toBe(true);
    expect((await ask(warmlane, postBytes('/v1/chat/completions', { model: 'nick', messages: [] }))).status).toBe(404);
    expect(warmlane.logged.filter(({ msg }) => msg === 'internal error')).toEqual([]);
  });

  it('C208 a deleted file wipes nothing, and twenty changes in a second end with the last', async () => {
    const [a, b] = [await says('A')(), await says('B')()];
    const warmlane = await started(base + backends(a.url));
    rmSync(file);
    await failed(warmlane, 1);
    expect((await config(warmlane)).lastProblem?.problems.join()).toContain('the file is not there');
    expect((await ask(warmlane)).body.toString()).toContain('A');
    // A pipe in its place would hold everybody up until somebody wrote into it.
    symlinkSync('/dev/null', file);
    await failed(warmlane, 2);
    expect((await config(warmlane)).lastProblem?.problems.join()).toContain('this is no regular file');
    rmSync(file);
    const streams: RawClient[] = [];
    for (let i = 0; i < 20; i += 1) {
      replaceFile(base + backends(...(i % 2 === 0 ? [a.url] : [a.url, b.url])));
      if (i % 3 === 0) warmlane.signal('SIGHUP');
      const one = await connected(warmlane);
      one.send(R0);
      streams.push(one);
      await sleep(50);
    }
    replaceFile(base + backends(b.url));
    await eventually(async () => (await urls(warmlane)).join() === b.url, 'the last one holds');
    for (const one of streams) {
      await one.until(() => parseAnswer(one.received)?.complete === true);
      expect(parseAnswer(one.received)?.status).toBe(200);
    }
    expect((await ask(warmlane)).body.toString()).toContain('B');
  });

  it('names what has to wait for a restart, and takes the rest', async () => {
    const a = await says('A')();
    const warmlane = await started(base + backends(a.url));
    writeFileSync(
      file,
      `${base.replace('127.0.0.1:0', '127.0.0.1:1').replace('format: json', 'format: json, level: debug')}cors: { origins: ["*"] }\n${backends(a.url)}`,
    );
    await reloaded(warmlane, 1);
    expect(await config(warmlane)).toMatchObject({ needsRestart: ['listen', 'cors'] });
    expect(warmlane.logged.some(({ msg }) => String(msg).startsWith('needs a restart: listen, cors'))).toBe(true);
    expect(
      warmlane.logged.some(({ msg, changed }) => msg === 'configuration reloaded' && changed === 'log.level'),
    ).toBe(true);
    expect((await ask(warmlane)).headers).not.toHaveProperty('access-control-allow-origin');
  });
});
