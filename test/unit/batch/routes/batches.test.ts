/** `/v1/batches` over real sockets, on a real store, and what holds for all of the API's routes. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { batchObject } from '../../../../src/batch/routes/objects.ts';
import { StoreError } from '../../../../src/batch/store/port.ts';
import { shuttingDown } from '../../../../src/admit/refusals.ts';
import {
  askApi,
  type BatchApi,
  type BatchApiOptions,
  createBatch,
  startBatchApi,
  uploadText,
} from '../../../support/batch-api.ts';
import { sampleBatch } from '../../../support/batch-values.ts';
import { rawClient } from '../../../support/raw-http.ts';

let api: BatchApi;
let fileId: string;
const start = async (options: BatchApiOptions) => {
  await api.close();
  api = await startBatchApi(options);
  fileId = await uploadText(api, '{}\n');
};
beforeEach(async () => {
  api = await startBatchApi();
  fileId = await uploadText(api, '{}\n');
});
afterEach(() => api.close());

const asked = (change: object = {}) => ({
  input_file_id: fileId,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
  ...change,
});
const created = async (change: object = {}, tenant = 'anna') => {
  const { status, json } = await createBatch(api, asked(change), tenant);
  expect(status).toBe(200);
  return String(json['id']);
};

describe('POST /v1/batches', () => {
  it('enters a batch, shows every key that OpenAI shows, and wakes the runner', async () => {
    await start({ clock: { wallMs: () => 1_800_000_000_900 } });
    const { status, json } = await createBatch(api, asked({ metadata: { day: 'Mon' } }));
    expect([status, json]).toEqual([
      200,
      {
        id: expect.stringMatching(/^batch_[0-9A-Za-z]{24}$/) as unknown,
        object: 'batch',
        endpoint: '/v1/chat/completions',
        model: null,
        errors: null,
        input_file_id: fileId,
        completion_window: '24h',
        status: 'validating',
        output_file_id: null,
        error_file_id: null,
        created_at: 1_800_000_000,
        in_progress_at: null,
        expires_at: 1_800_086_400,
        finalizing_at: null,
        completed_at: null,
        failed_at: null,
        expired_at: null,
        cancelling_at: null,
        cancelled_at: null,
        request_counts: { total: 0, completed: 0, failed: 0 },
        usage: null,
        metadata: { day: 'Mon' },
      },
    ]);
    expect(api.changes()).toBe(1);
    expect((await askApi(api, `/v1/batches/${String(json['id'])}`)).json).toEqual(json);
  });

  it.each([
    ['1s', 1],
    ['90m', 5400],
    ['24h', 86_400],
    ['30d', 2_592_000],
  ])('takes a window of %s', async (window, seconds) => {
    const { json } = await createBatch(api, asked({ completion_window: window }));
    expect(json['completion_window']).toBe(window);
    expect(Number(json['expires_at']) - Number(json['created_at'])).toBe(seconds);
  });

  it.each([
    ['input_file_id', { input_file_id: undefined }, 'missing_required_parameter'],
    ['input_file_id', { input_file_id: 7 }, 'invalid_value'],
    ['endpoint', { endpoint: null }, 'missing_required_parameter'],
    ['endpoint', { endpoint: '/v1/images/generations' }, 'invalid_value'],
    ['endpoint', { endpoint: '/v1/chat/completions/' }, 'invalid_value'],
    ['completion_window', { completion_window: undefined }, 'missing_required_parameter'],
    ['completion_window', { completion_window: '0h' }, 'invalid_value'],
    ['completion_window', { completion_window: '31d' }, 'invalid_value'],
    ['completion_window', { completion_window: 24 }, 'invalid_value'],
    ['metadata', { metadata: ['x'] }, 'invalid_value'],
    ['metadata', { metadata: { x: 1 } }, 'invalid_value'],
    ['metadata', { metadata: { ['k'.repeat(65)]: '' } }, 'invalid_value'],
    ['metadata', { metadata: { k: 'v'.repeat(513) } }, 'invalid_value'],
    ['metadata', { metadata: { k: 'a\u0000' } }, 'invalid_value'],
    [
      'metadata',
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, ''])) },
      'invalid_value',
    ],
    ['output_expires_after', { output_expires_after: 'soon' }, 'invalid_value'],
    ['output_expires_after[seconds]', { output_expires_after: { anchor: 'created_at' } }, 'missing_required_parameter'],
    ['output_expires_after[seconds]', { output_expires_after: { anchor: 'created_at', seconds: 60 } }, 'invalid_value'],
    ['output_expires_after[anchor]', { output_expires_after: { anchor: 'now', seconds: 3600 } }, 'invalid_value'],
  ])('names %s in its refusal of %j', async (param, change, code) => {
    const { status, json } = await createBatch(api, asked(change));
    expect([status, json.error]).toMatchObject([400, { param, code, type: 'invalid_request_error' }]);
    expect(api.changes()).toBe(0);
  });

  it('keeps metadata of the largest size and when the results are to go', async () => {
    const metadata = Object.fromEntries(
      Array.from({ length: 16 }, (_, i) => [`${i}`.padEnd(64, 'ü'), '😀'.repeat(512)]),
    );
    const id = await created({ metadata, output_expires_after: { anchor: 'created_at', seconds: 3600 } });
    expect((await askApi(api, `/v1/batches/${id}`)).json['metadata']).toEqual(metadata);
    expect((await api.store.batch('anna', id))?.outputExpiresSeconds).toBe(3600);
  });

  it('refuses a body that is no JSON object, and one that is too large before it came', async () => {
    for (const body of ['', 'x', '[1]', '"x"', '{"a":']) {
      const { status, json } = await askApi(api, '/v1/batches', { method: 'POST', body });
      expect([status, json.error?.code]).toEqual([400, 'invalid_json']);
    }
    const large = await askApi(api, '/v1/batches', { method: 'POST', body: ' '.repeat(200_000) });
    expect([large.status, large.json.error?.code]).toEqual([413, 'body_too_large']);
    const client = await rawClient(api.port);
    client.send(
      'POST /v1/batches HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer anna\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    client.send(`30000\r\n${' '.repeat(0x30000)}\r\n`);
    expect((await client.answer()).status).toBe(413);
    client.leave();
  });

  it("C167 a file for another purpose is no input, an unknown, deleted or another tenant's is not there", async () => {
    for (const purpose of ['vision', 'assistants', 'user_data']) {
      const other = await uploadText(api, 'x', { purpose });
      const { status, json } = await createBatch(api, asked({ input_file_id: other }));
      expect([status, json.error]).toMatchObject([400, { param: 'input_file_id', code: 'invalid_value' }]);
    }
    const deleted = await uploadText(api, 'x');
    await askApi(api, `/v1/files/${deleted}`, { method: 'DELETE' });
    const others = await uploadText(api, 'x', { tenant: 'bert' });
    for (const gone of [deleted, others, 'file-unknown', 'x']) {
      const { status, json } = await createBatch(api, asked({ input_file_id: gone }));
      expect([status, json.error]).toMatchObject([404, { param: 'input_file_id', code: 'not_found' }]);
    }
  });

  it('C167 a file that goes while the batch is entered is not there either', async () => {
    await start({ store: (real) => ({ ...real, addBatch: () => Promise.resolve('no_file' as const) }) });
    const { status, json } = await createBatch(api, asked());
    expect([status, json.error?.param]).toEqual([404, 'input_file_id']);
    expect(api.changes()).toBe(0);
  });

  it('holds a tenant to its open batches, also those that are entered at once, and others not', async () => {
    await start({ settings: { maxOpenBatches: 3 } });
    const answers = await Promise.all(Array.from({ length: 10 }, () => createBatch(api, asked())));
    expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(3);
    while ((await createBatch(api, asked())).status === 200);
    const { status, json, headers } = await createBatch(api, asked());
    expect([status, json.error, headers.get('x-should-retry')]).toMatchObject([
      429,
      { code: 'too_many_batches', type: 'rate_limit_error' },
      'false',
    ]);
    const open = (await askApi(api, '/v1/batches')).json['data'] as readonly object[];
    expect(open).toHaveLength(3);
    const others = await uploadText(api, '{}\n', { tenant: 'bert' });
    await created({ input_file_id: others }, 'bert');
  });
});

describe('GET /v1/batches', () => {
  it("lists a tenant's own, newest first, page by page", async () => {
    const ids: string[] = [];
    for (let index = 0; index < 3; index += 1) ids.unshift(await created());
    const page = async (query: string, tenant = 'anna') => {
      const { json } = await askApi(api, `/v1/batches${query}`, {}, tenant);
      return { ...json, ids: (json['data'] as readonly { readonly id: string }[]).map(({ id }) => id) };
    };
    expect(await page('')).toMatchObject({ object: 'list', ids, first_id: ids[0], last_id: ids[2], has_more: false });
    expect(await page('?limit=2')).toMatchObject({ ids: ids.slice(0, 2), has_more: true });
    expect(await page(`?limit=2&after=${ids[1]}`)).toMatchObject({ ids: [ids[2]], has_more: false });
    expect(await page('', 'bert')).toMatchObject({ ids: [], first_id: null, last_id: null });
    for (const [query, param] of [
      ['?limit=101', 'limit'],
      ['?after=batch_x', 'after'],
    ]) {
      const { status, json } = await askApi(api, `/v1/batches${query}`);
      expect([status, json.error?.param]).toEqual([400, param]);
    }
  });

  it("shows nobody else's, nor what is no id", async () => {
    const id = await created();
    for (const [other, tenant] of [
      [id, 'bert'],
      ['batch_none', 'anna'],
      ['x', 'anna'],
    ] as const) {
      for (const [path, method] of [
        [`/v1/batches/${other}`, 'GET'],
        [`/v1/batches/${other}/cancel`, 'POST'],
      ] as const) {
        const { status, json } = await askApi(api, path, { method }, tenant);
        expect([status, json.error]).toMatchObject([404, { param: 'batch_id', code: 'not_found' }]);
      }
    }
    expect((await askApi(api, `/v1/batches/${id}`)).json['status']).toBe('validating');
  });
});

describe('POST /v1/batches/{id}/cancel', () => {
  it('C185 asks for the end once, and tells the same at every further time', async () => {
    const id = await created();
    const first = await askApi(api, `/v1/batches/${id}/cancel`, { method: 'POST' });
    expect([first.status, first.json['status']]).toEqual([200, 'cancelling']);
    expect(first.json['cancelling_at']).toEqual(expect.any(Number));
    expect(api.changes()).toBe(2);
    const second = await askApi(api, `/v1/batches/${id}/cancel`, { method: 'POST' });
    expect([second.status, second.json]).toEqual([200, first.json]);
  });

  it('C185 leaves a batch that is over as it is, its files with it', async () => {
    const id = await created();
    await askApi(api, `/v1/batches/${id}/cancel`, { method: 'POST' });
    const [leased] = await api.store.lease({ owner: 'me', ttlMs: 60_000, max: 1 });
    if (leased === undefined) throw new Error('nothing to lease');
    const writer = await api.shelf.create('file-out');
    await writer.write(Buffer.from('{"custom_id":"a"}\n'));
    await writer.commit();
    const output = {
      id: 'file-out',
      tenant: 'anna',
      purpose: 'batch_output',
      filename: 'o.jsonl',
      bytes: 18,
      createdAt: 1,
    };
    await api.store.finish(leased.lease, { status: 'cancelled', output, error: undefined, nowSeconds: 1 });
    const looks: unknown[] = [];
    for (let look = 0; look < 3; look += 1) looks.push((await askApi(api, `/v1/batches/${id}`)).json);
    looks.push((await askApi(api, `/v1/batches/${id}/cancel`, { method: 'POST' })).json);
    looks.push(((await askApi(api, '/v1/batches')).json['data'] as readonly object[])[0]);
    for (const look of looks)
      expect(look).toMatchObject({ status: 'cancelled', output_file_id: 'file-out', error_file_id: null });
    expect(looks.map((look) => JSON.stringify(look))).toEqual(looks.map(() => JSON.stringify(looks[0])));
    const headers = { authorization: 'Bearer anna' };
    const content = await fetch(`${api.url}/v1/files/file-out/content`, { headers });
    expect(await content.text()).toBe('{"custom_id":"a"}\n');
    const listed = (await askApi(api, '/v1/files?purpose=batch_output')).json['data'] as readonly object[];
    expect(listed).toMatchObject([{ id: 'file-out', expires_at: null }]);
  });
});

describe('the object of a batch', () => {
  it('has its errors as a list with their lines, and its usage once there is any', () => {
    const counts = { total: 3, completed: 2, failed: 1 };
    const usage = { inputTokens: 10, cachedTokens: 4, outputTokens: 5, reasoningTokens: 1 };
    const errors = [
      { code: 'duplicate_custom_id', message: 'twice', param: 'custom_id', line: 3 },
      { code: 'x', message: 'y' },
    ];
    expect(batchObject(sampleBatch('batch_1', { counts, usage, errors, model: 'm', failedAt: 7 }))).toMatchObject({
      model: 'm',
      failed_at: 7,
      request_counts: counts,
      errors: {
        object: 'list',
        data: [
          { code: 'duplicate_custom_id', message: 'twice', param: 'custom_id', line: 3 },
          { code: 'x', message: 'y', param: null, line: null },
        ],
      },
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 1 },
        total_tokens: 15,
      },
    });
  });
});

describe('all routes', () => {
  it('ask for a key, and pass on what its refusal says', async () => {
    for (const path of ['/v1/files', '/v1/batches', `/v1/files/${fileId}/content`]) {
      const answer = await fetch(`${api.url}${path}`);
      expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
      expect(await answer.json()).toMatchObject({ error: { code: 'invalid_api_key', source: 'warmlane' } });
    }
  });

  it('say which methods they take, and that others are no routes', async () => {
    for (const [method, path, allow] of [
      ['PUT', '/v1/files', 'GET, POST'],
      ['POST', `/v1/files/${fileId}`, 'GET, DELETE'],
      ['DELETE', '/v1/batches', 'GET, POST'],
      ['GET', '/v1/batches/batch_x/cancel', 'POST'],
    ] as const) {
      const { status, headers, json } = await askApi(api, path, { method });
      expect([status, headers.get('allow'), json.error?.code]).toEqual([405, allow, 'method_not_allowed']);
    }
    for (const path of ['/v1/files/a/b', '/v1/batches/a/b/c'])
      expect((await askApi(api, path)).json.error).toMatchObject({ code: 'not_found' });
  });

  it('are these alone: what only looks like them goes to the backends', async () => {
    for (const path of ['/v1/filesystem', '/v1/batches2', '/files', '/v1/uploads', '/v1/chat/completions'])
      expect((await askApi(api, path)).status).toBe(299);
    for (const path of ['/v1/files/', '/v1/batches?limit=1']) expect((await askApi(api, path)).status).toBe(200);
  });

  it('carry the request id, take several requests on one connection, and pipelined ones', async () => {
    const client = await rawClient(api.port);
    const get = (id: string) =>
      `GET /v1/files?limit=1 HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer anna\r\nX-Request-Id: ${id}\r\n\r\n`;
    client.send(get('one') + get('two'));
    await client.until(() => /X-Request-Id: one[^]*X-Request-Id: two/.test(client.received.toString()));
    client.send(get('three'));
    await client.until(() => client.received.includes('X-Request-Id: three'));
    expect(client.received.toString().match(/HTTP\/1.1 200 OK/g)).toHaveLength(3);
    client.leave();
  });

  it('can be read by the pages that may, and preflights are answered', async () => {
    await start({ origins: ['http://app.test'] });
    const answer = await askApi(api, '/v1/files', { headers: { origin: 'http://app.test' } });
    expect(answer.headers.get('access-control-allow-origin')).toBe('http://app.test');
    const preflight = await fetch(`${api.url}/v1/files`, {
      method: 'OPTIONS',
      headers: { origin: 'http://app.test', 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
  });

  it('refuse new requests while warmlane stops', async () => {
    api.closeWith(shuttingDown());
    const answer = await askApi(api, '/v1/files');
    expect([answer.status, answer.headers.get('connection')]).toEqual([503, 'close']);
  });

  it.each([
    ['away', 503],
    ['busy', 503],
    ['full', 507],
    ['broken', 500],
  ] as const)(
    'say when the store is %s, with a warning in the log and no secret in the answer',
    async (fault, status) => {
      const fails = () => Promise.reject(new StoreError(fault, 'postgres://user:secret@host'));
      await start({ store: (real) => ({ ...real, batches: fails, files: fails }) });
      for (const path of ['/v1/files', '/v1/batches']) {
        const answer = await askApi(api, path);
        expect([answer.status, answer.json.error?.type]).toEqual([status, 'api_error']);
        expect(JSON.stringify(answer.json)).not.toContain('secret');
      }
      expect(api.logged.filter(({ level }) => level === 'warn')).toHaveLength(2);
    },
  );

  it('end a bug of ours as 500, with the error in the log alone', async () => {
    await start({ store: (real) => ({ ...real, files: () => Promise.reject(new TypeError('our bug')) }) });
    const answer = await askApi(api, '/v1/files', { headers: { 'x-request-id': 'bug-1' } });
    expect([answer.status, answer.json.error?.code]).toEqual([500, 'internal']);
    expect(JSON.stringify(answer.json)).not.toContain('our bug');
    expect(api.logged.find(({ level }) => level === 'error')).toMatchObject({ requestId: 'bug-1' });
  });

  it('leave a line in the log: writes and refusals as information, looks for debugging only', async () => {
    await askApi(api, '/v1/batches');
    await askApi(api, '/v1/files/file-none');
    const lines = api.logged.filter(({ msg }) => msg === 'own route');
    expect(lines.map(({ level, method, path, status, tenant }) => [level, method, path, status, tenant])).toEqual([
      ['info', 'POST', '/v1/files', 200, 'anna'],
      ['debug', 'GET', '/v1/batches', 200, 'anna'],
      ['info', 'GET', '/v1/files/file-none', 404, 'anna'],
    ]);
  });
});
