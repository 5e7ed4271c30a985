/** The Batch API with keys: tenants see their own only, its lines have their tenant's models and count against no limit. */
import OpenAI, { toFile } from 'openai';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import { accessOf, keyOf } from '../support/keys.ts';
import { postBytes, requestBytes } from '../support/raw-http.ts';
import { createStage, eventually, type Stage } from '../support/stage.ts';

let stage: Stage;
let directory: string;
beforeEach(() => {
  stage = createStage();
  directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-tenants-'));
});
afterEach(async () => {
  await stage.close();
  rmSync(directory, { recursive: true, force: true });
});

const answer = {
  id: 'c',
  object: 'chat.completion',
  model: 'qwen',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
};

async function opened() {
  // Lines come from warmlane itself, as probes do.
  const override = ({ method }: { readonly method: string }) =>
    method === 'POST' ? [wholeAnswer(200, answer)] : undefined;
  const backend = await stage.backend({ probes: { override } });
  const access = accessOf([
    { name: 'a', limits: { requestsPerMinute: 1, tokensPerMinute: 10, concurrent: 1 } },
    { name: 'b', models: ['qwen'] },
  ]);
  const store = { kind: 'sqlite' as const, directory };
  const proxy = await stage.proxy(backend, { change: { access, batch: { store } } });
  const clientOf = (tenant: string) => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: keyOf(tenant), maxRetries: 0 });
  return { backend, proxy, clientOf };
}

async function submitted(client: OpenAI, model: string, lines: number): Promise<OpenAI.Batch> {
  const text = Array.from({ length: lines }, (_, index) =>
    JSON.stringify({
      custom_id: `l${index}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model, messages: [{ role: 'user', content: `say ${index}` }] },
    }),
  ).join('\n');
  const file = await client.files.create({ file: await toFile(Buffer.from(text), 'in.jsonl'), purpose: 'batch' });
  const created = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  let batch = created;
  await eventually(
    async () => {
      batch = await client.batches.retrieve(created.id);
      return ['completed', 'failed', 'cancelled', 'expired'].includes(batch.status);
    },
    'the end of the batch',
    15_000,
  );
  return batch;
}

describe('files and batches with keys', () => {
  it('R26 nobody gets at them without one', async () => {
    const { proxy } = await opened();
    for (const request of [
      requestBytes('GET /v1/files'),
      postBytes('/v1/batches', { input_file_id: 'x' }),
      requestBytes('GET /v1/batches/batch_1', { Authorization: 'Bearer wrong' }),
    ]) {
      const client = await stage.client(proxy);
      client.send(request);
      const refused = await client.answer();
      expect(refused.status).toBe(401);
      expect(refused.headers['www-authenticate']).toContain('Bearer');
      client.leave();
    }
    await expect(clientWithout(proxy.url).files.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  });

  it('are their tenant’s own; lines are in its name, in lane batch, without its key, and past no limit of it', async () => {
    const { backend, proxy, clientOf } = await opened();
    const done = await submitted(clientOf('a'), 'm', 5);
    expect(done).toMatchObject({ status: 'completed', request_counts: { total: 5, completed: 5, failed: 0 } });
    await expect(clientOf('b').batches.retrieve(done.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(clientOf('b').files.content(done.output_file_id ?? '')).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    expect((await clientOf('b').batches.list()).data).toEqual([]);
    expect((await clientOf('a').batches.list()).data).toHaveLength(1);
    const records = await proxy.records(5);
    expect(records.map(({ tenant, lane }) => `${tenant} ${lane}`)).toEqual(Array.from({ length: 5 }, () => 'a batch'));
    for (const { headers } of backend.probes) expect(JSON.stringify(headers)).not.toContain(keyOf('a'));
  });

  it('a line for a model that isn’t the tenant’s fails, and reaches no backend', async () => {
    const { backend, clientOf } = await opened();
    const done = await submitted(clientOf('b'), 'big', 2);
    const failed = done.status === 'failed' || done.request_counts?.failed === 2;
    expect(failed, JSON.stringify(done)).toBe(true);
    expect(backend.probes.filter(({ method }) => method === 'POST')).toEqual([]);
    const well = await submitted(clientOf('b'), 'qwen', 2);
    expect(well.request_counts).toMatchObject({ completed: 2 });
  });
});

function clientWithout(url: string): OpenAI {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unknown', maxRetries: 0 });
}
