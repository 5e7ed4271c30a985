import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

it('says what happens when no backend is named', () => {
  expect(check(undefined).said).toContain('usual places on this machine, else the demo');
  expect(check(undefined, { flags: { demo: true } }).said).toContain('simulated (demo)');
});

it('prints every problem with its place, and fails', () => {
  expect(check('listen: x\nqueue: { maxJob: 1 }\n', { env: { WARMLANE_X: '1' } })).toEqual({
    code: 1,
    said: `The configuration has 3 problems:
  w.yaml:1:9 listen: the port is missing; write host:port, [ipv6]:port, :port (every IPv4 address) or a bare port (127.0.0.1)
  w.yaml:2:10 queue.maxJob: unknown key; did you mean "maxJobs"?
  WARMLANE_X: unknown variable; known are WARMLANE_CONFIG, WARMLANE_BACKEND, WARMLANE_LISTEN, WARMLANE_ADMIN_LISTEN, WARMLANE_LOG_LEVEL, WARMLANE_LOG_FORMAT, WARMLANE_DEMO
`,
  });
  expect(check('queue: 1').said).toContain('has 1 problem:');
});
