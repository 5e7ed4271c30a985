import { afterEach, describe, expect, it } from 'vitest';
import { createSimServer } from '../../src/sim/server.ts';
import { instantLlamaServer, instantVllmServer } from '../../src/sim/server-settings.ts';
import { startProxy } from '../support/proxy.ts';
import { postBytes, rawClient } from '../support/raw-http.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const ask = postBytes('/v1/chat/completions', {
  model: 'simulated',
  stream: true,
  max_tokens: 8,
  ignore_eos: true,
  messages: [{ role: 'user', content: 'hi' }],
});

describe('counts in every event (usage: per_event)', () => {
  for (const [name, settings, key] of [
    ['vLLM', instantVllmServer, '"usage":'],
    ['llama-server', instantLlamaServer, '"timings":'],
  ] as const) {
    it(`are asked of ${name}, seen by the client, and give the record its tokens per event`, async () => {
      const backend = await createSimServer(settings);
      const proxy = await startProxy([backend.url], { relay: { usage: 'per_event' } });
      open.push(proxy, backend);
      const client = await rawClient(proxy.port);
      client.send(ask);
      const answer = await client.answer();
      const tokens = answer.body
        .toString()
        .split('\n\n')
        .filter((event) => event.includes('"content":"'));
      expect(tokens.length).toBeGreaterThan(4);
      expect(tokens.filter((event) => event.includes(key)).length).toBeGreaterThan(4);
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({ outcome: 'ok', tokens: { output: { value: 8 } } });
      client.leave();
    });
  }
});
