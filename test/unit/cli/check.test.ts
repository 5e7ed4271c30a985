import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { runCheck } from '../../../src/cli/check.ts';
import type { LoadRequest } from '../../../src/config/load.ts';

const folder = mkdtempSync(join(tmpdir(), 'warmlane-check-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function check(text: string | undefined, request: Partial<LoadRequest> = {}): { code: number; said: string } {
  const file = join(folder, 'w.yaml');
  if (text !== undefined) writeFileSync(file, text);
  let said = '';
  const code = runCheck(
    { env: {}, flags: {}, ...(text === undefined ? {} : { file }), ...request },
    (part) => (said += part),
  );
  return { code, said: said.replaceAll(`${folder}/`, '') };
}

it('says OK and what would be served', () => {
  const text =
    'backends:\n  - { url: "http://h:1", apiKey: hunter2, maxInFlight: 4, engine: vllm, models: [a, b] }\n  - { url: "https://longer.example/x" }\nadmin: { listen: "[::]:1" }\n';
  const { code, said } = check(text);
  expect(code).toBe(0);
  expect(said).toBe(`OK  w.yaml
  clients   http://127.0.0.1:8484
  admin     http://[::]:1
  backends  h:1                 http://h:1  (vllm, a b, at most 4 jobs, with a key)
            longer.example:443  https://longer.example/x
  note      admin.listen is ::: whoever reaches that port sees all requests, and it asks for no password
`);
});

it('says who may ask, and nothing of their keys', () => {
  const key = 'a-secret-that-nobody-guesses';
  const text = `backends: [{ url: "http://h:1" }]
auth:
  keys:
    - { name: chat, key: ${key}, models: [m], limits: { concurrent: 3, tokensPerMinute: 500 } }
    - { name: chat, sha256: ${'AB'.repeat(32)} }
    - { file: keys.txt, lane: batch, limits: { requestsPerMinute: 60 } }
`;
  writeFileSync(join(folder, 'keys.txt'), `# of the night\nnight ${'cd'.repeat(32)}  -\n\n`);
  const { code, said } = check(text);
  expect(code).toBe(0);
  expect(said).toContain(
    '  tenants   chat  (2 keys, online, m, 3 at once, 500 tokens a minute)\n            night  (1 key, batch, 60 requests a minute)\n',
  );
  for (const secret of [key, 'abab', 'ABAB', 'cdcd']) expect(said).not.toContain(secret);
});

it('says what happens when no backend is named', () => {
  expect(check(undefined).said).toContain('usual places on this machine, else the demo');
  expect(check(undefined, { flags: { demo: true } }).said).toContain('simulated (demo)');
});

it('says where else backends come from, and what is wrong with a file of them', () => {
  const text = 'discovery:\n  dns: [{ name: llm.svc, port: 8000 }]\n  file: { path: more.yaml }\n';
  writeFileSync(join(folder, 'more.yaml'), '- url: http://a\n');
  expect(check(text)).toMatchObject({ code: 0 });
  expect(check(text).said).toContain('  by DNS    http://llm.svc:8000\n  by file   more.yaml\n');
  expect(check(text).said).not.toContain('demo');
  writeFileSync(join(folder, 'more.yaml'), '- url: nonsense\n');
  expect(check(text)).toEqual({
    code: 1,
    said: 'The configuration has 1 problem:\n  more.yaml:1:8 backends[0].url: the URL must begin with http:// or https://\n',
  });
});

it('says where batches are kept, without what a database is reached by', () => {
  const batches = (text: string) => /^ {2}batches.*$/m.exec(check(text).said)?.[0];
  expect(batches('batch: { directory: kept }\n')).toBe('  batches   /v1/batches, kept in kept (SQLite)');
  const url = 'postgres://u:hunter2@h/d';
  expect(batches(`batch: { postgres: { url: "${url}" } }\n`)).toBe('  batches   /v1/batches, kept in Postgres');
  expect(batches(`batch: { directory: kept, postgres: { url: "${url}" } }\n`)).toBe(
    '  batches   /v1/batches, kept in Postgres, files in kept',
  );
  expect(batches('')).toBeUndefined();
});

it('says whether the prompt trace could be written, without writing it', () => {
  const traced = (file: string) => check(`telemetry: { promptTrace: { file: ${file} } }\n`);
  expect(traced('p.jsonl').code).toBe(0);
  expect(existsSync(join(folder, 'p.jsonl'))).toBe(false);
  const problem = (says: string) => `The configuration has 1 problem:\n  w.yaml telemetry.promptTrace.file: ${says}\n`;
  expect(traced('no/p.jsonl')).toEqual({ code: 1, said: problem('the folder no is not there') });
  expect(traced('w.yaml/p.jsonl').said).toBe(problem('w.yaml is no folder'));
  mkdirSync(join(folder, 'logs'), { recursive: true });
  expect(traced('logs').said).toBe(problem('this is a folder, not a file'));
});

it('prints every problem with its place, and fails', () => {
  expect(check('listen: x\nqueue: { maxJob: 1 }\n', { env: { WARMLANE_X: '1' } })).toEqual({
    code: 1,
    said: `The configuration has 3 problems:
  w.yaml:1:9 listen: the port is missing; write host:port, [ipv6]:port, :port (every IPv4 address) or a bare port (127.0.0.1)
  w.yaml:2:10 queue.maxJob: unknown key; did you mean "maxJobs"?
  WARMLANE_X: unknown variable; known are WARMLANE_CONFIG, WARMLANE_BACKEND, WARMLANE_LISTEN, WARMLANE_ADMIN_LISTEN, WARMLANE_LOG_LEVEL, WARMLANE_LOG_FORMAT, WARMLANE_BATCH_DIR, WARMLANE_DEMO
`,
  });
  expect(check('queue: 1').said).toContain('has 1 problem:');
});
