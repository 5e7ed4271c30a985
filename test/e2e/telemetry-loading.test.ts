/** What of OpenTelemetry is in memory, and when. A file of its own: modules stay loaded for as long as a process lives. */
import { createRequire } from 'node:module';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { send } from '../../src/sim/fault-steps.ts';
import { DONE, FIN, ROLE, T, wholeStream } from '../../src/sim/sse-script.ts';
import { pass } from '../support/exchange.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const { cache } = createRequire(import.meta.url);
const loaded = () => Object.keys(cache).filter((file) => file.includes('@opentelemetry'));

it('none of it is loaded by requests; the first scrape loads what it needs', async () => {
  const { proxy } = await pass(stage, () => [send(wholeStream(ROLE, T('a'), FIN('stop'), DONE))]);
  await fetch(`${proxy.adminUrl}/stats`);
  expect(loaded()).toEqual([]);
  const answer = await fetch(`${proxy.adminUrl}/metrics`);
  expect(await answer.text()).toContain('warmlane_requests_total');
  expect(loaded().length).toBeGreaterThan(0);
  expect(loaded().filter((file) => file.includes('otlp'))).toEqual([]);
});
