import { afterEach, expect, it } from 'vitest';
import { createFleet, type Fleet } from '../../../src/fleet/fleet.ts';
import { createLog } from '../../../src/platform/log.ts';
import { createFakeClock, settle } from '../../support/fake-clock.ts';
import { createScriptedBackend, llamaAnswers } from './scripted-backend.ts';

let fleet: Fleet | undefined;
afterEach(() => fleet?.stop());

it('a bug in one round of probes is logged, and the next round comes as ever', async () => {
  const clock = createFakeClock();
  const backend = createScriptedBackend(clock, llamaAnswers());
  const lines: string[] = [];
  let broken = true;
  fleet = createFleet(
    {
      backends: [{ name: 'a', url: 'http://a' }],
      probeIntervalMs: 5000,
      probeDownIntervalMs: 1000,
      probeTimeoutMs: 800,
      engineMetrics: false,
    },
    {
      clock,
      log: createLog({ level: 'error', format: 'logfmt' }, (line) => lines.push(line)),
      probeFetch: () => backend.fetch,
      ownLoad() {
        if (broken) throw new Error('a bug');
        return { jobs: 0, slots: 0 };
      },
    },
  );
  await fleet.start();
  expect(lines.join('')).toMatch(/a round of probes failed.*backend=a.*a bug/);
  broken = false;
  for (let at = 0; at < 12; at += 1) {
    clock.advance(500);
    await settle();
  }
  expect(fleet.snapshot().backends[0]).toMatchObject({ health: 'up', engine: 'llama-server' });
});
