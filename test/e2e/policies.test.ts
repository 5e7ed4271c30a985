/** The policies of routing over real sockets: whose turn it is, and that only users' requests move it. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { policyNames } from '../../src/domain/routing.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import { severalBackends } from '../support/several-backends.ts';
import { createStage, type Stage } from '../support/stage.ts';

const answer = { choices: [{ message: { content: 'yes' } }], usage: { prompt_tokens: 300, completion_tokens: 1 } };

function request(text: string): string {
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: text }] });
  const head = ['POST /v1/chat/completions HTTP/1.1', 'Host: x', 'Content-Type: application/json'];
  return [...head, `Content-Length: ${Buffer.byteLength(body)}`, '', body].join('\r\n');
}

function probesOf(backends: readonly ScriptedServer[]): number {
  return backends.reduce((sum, { probes }) => sum + probes.length, 0);
}

describe('the policy that the config names', () => {
  let stage: Stage;
  beforeEach(() => {
    stage = createStage();
  });
  afterEach(() => stage.close());

  it('C075 round-robin gives each its turn though probes come all the time', async () => {
    const change = { route: { policy: 'round-robin' }, fleet: { probeIntervalMs: 20 } } as const;
    const fleet = await severalBackends(stage, { count: 2, change }, () => [wholeAnswer(200, answer)]);
    const probesBefore = probesOf(fleet.backends);
    for (let nth = 0; nth < 100; nth += 1) {
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: `question ${nth}` }] });
      const headers = { 'Content-Type': 'application/json' };
      const got = await fetch(`${fleet.proxy.url}/v1/chat/completions`, { method: 'POST', headers, body });
      await got.arrayBuffer();
      expect(got.status).toBe(200);
    }
    expect(probesOf(fleet.backends) - probesBefore).toBeGreaterThan(4);
    expect(fleet.asked.filter((number) => number === 0)).toHaveLength(50);
  });

  it.each(policyNames)('%s answers, and says on the record what it chose by', async (policy) => {
    const fleet = await severalBackends(stage, { count: 3, change: { route: { policy } } }, () => [
      wholeAnswer(200, answer),
    ]);
    const text = 'the same beginning for all of them '.repeat(60);
    for (let nth = 0; nth < 6; nth += 1) {
      const { answer: got, record } = await fleet.send(request(`${text} ${nth}`));
      expect(got.status).toBe(200);
      expect(record.routing).toMatchObject({ policy, promptTokens: expect.any(Number) as number });
    }
    const backends = new Set(fleet.asked).size;
    if (policy === 'round-robin' || policy === 'least-load') expect(backends).toBe(3);
    else expect(backends).toBe(1);
  });
});
