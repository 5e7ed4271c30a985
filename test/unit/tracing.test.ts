/** That tracing which is off loads nothing, in a process of its own: the tests' own process has it all loaded. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { systemClock } from '../../src/platform/clock.ts';
import { createLog } from '../../src/platform/log.ts';
import { startTracing } from '../../src/tracing.ts';
import { built } from '../support/built.ts';

const script = `
  import { createRequire } from 'node:module';
  const { startTracing } = await import(process.argv[1] + '/tracing.js');
  const { systemClock } = await import(process.argv[1] + '/platform/clock.js');
  const { silentLog: log } = await import(process.argv[1] + '/platform/log.js');
  const settings = { tokens: 'arrays', keep: [], maxQueueBytes: 1, ...JSON.parse(process.argv[3]) };
  const env = JSON.parse(process.argv[2]);
  const tracing = await startTracing(settings, { clock: systemClock, log, env, secure: false, backends: () => [] });
  const loaded = Object.keys(createRequire(import.meta.url).cache).filter((path) => path.includes('@opentelemetry'));
  console.log(JSON.stringify({ on: tracing !== undefined, loaded: loaded.length }));
`;

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' };

it.each([
  [{}, {}, false],
  [{}, { enabled: true }, true],
  [endpoint, {}, true],
  [endpoint, { enabled: false }, false],
  [{ ...endpoint, OTEL_SDK_DISABLED: 'true' }, { enabled: true }, false],
])('with %j and %j it is on, and OpenTelemetry is loaded: %s', { timeout: 90_000 }, async (env, settings, on) => {
  const dist = join(await built(), '..');
  const run = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', script, dist, ...[env, settings].map((each) => JSON.stringify(each))],
    {
      encoding: 'utf8',
    },
  );
  const told = JSON.parse(run.stdout) as { on: boolean; loaded: number };
  expect(told.on).toBe(on);
  expect(told.loaded > 0).toBe(on);
});

it.each(['%%%:::', 'http://'])(
  'an endpoint that the library throws at (%s) leaves tracing off, and says so',
  async (url) => {
    const lines: string[] = [];
    const tracing = await startTracing(
      { tokens: 'arrays', keep: [], maxQueueBytes: 1 },
      {
        clock: systemClock,
        log: createLog({ level: 'info', format: 'json' }, (line) => void lines.push(line)),
        env: { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: url },
        secure: false,
        backends: () => [],
      },
    );
    expect(tracing).toBeUndefined();
    expect(lines.join('')).toContain('traces are off: their exporter can not be made');
  },
);
