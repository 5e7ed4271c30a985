import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import type { AdminAnswer } from '../../src/http/admin-page.ts';
import { createLiveConfig } from '../../src/live-config.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { configOf } from './config/load-text.ts';

async function fromOf(file: string | undefined): Promise<unknown> {
  const live = createLiveConfig(configOf(''), { clock: createFakeClock(), file });
  const answer: AdminAnswer = await live.page(() => ({})).answer(new URLSearchParams(), '');
  return answer.kind === 'json' ? answer.value : answer;
}

it('the page of the configuration names its file so that it can be found from anywhere', async () => {
  expect(await fromOf('../wl.yaml')).toMatchObject({ from: resolve('../wl.yaml') });
  expect(await fromOf(undefined)).toMatchObject({ from: 'flags, environment and defaults' });
});
