/** `/v1/files` over real sockets, on a real store and shelf. */
import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { overLimit } from '../../../../src/access/refusals.ts';
import { StoreError } from '../../../../src/batch/store/port.ts';
import {
  askApi,
  type BatchApi,
  type BatchApiOptions,
  boundary,
  createBatch,
  fileOf,
  type FormPart,
  formBody,
  formType,
  purposeOf,
  startBatchApi,
  uploadParts,
  uploadText,
} from '../../../support/batch-api.ts';
import { rawClient } from '../../../support/raw-http.ts';
import { eventually } from '../../../support/stage.ts';

let api: BatchApi;
const start = async (options: BatchApiOptions) => {
  await api.close();
  api = await startBatchApi(options);
};
beforeEach(async () => {
  api = await startBatchApi();
});
afterEach(() => api.close());

const line = (customId: string) =>
  `{"custom_id":"${customId}","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}\n`;
const createOf = (inputFileId: string) => ({
  input_file_id: inputFileId,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
});

/** Bytes of a request's head for an upload. */
const uploadHead = (headers: Readonly<Record<string, string | number>>) =>
  [
    'POST /v1/files HTTP/1.1',
    'Host: test',
    'Authorization: Bearer anna',
    `Content-Type: ${formType}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '',
    '',
  ].join('\r\n');

describe('uploads at one time', () => {
  const begun = async (tenant: string) => {
    const client = await rawClient(api.port);
    const head = uploadHead({ 'Content-Length': 1e6 }).replace('anna', tenant);
    client.send(Buffer.concat([Buffer.from(head), formBody([purposeOf(), fileOf('half of')]).subarray(0, -20)]));
    return client;
  };
  const refusedTo = async (tenant: string, key: string) => {
    const client = await begun(tenant);
    const answer = await client.answer();
    expect([answer.status, answer.headers['retry-after']]).toEqual([429, '5']);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { type: 'rate_limit_error', code: 'too_many_uploads', message: expect.stringContaining(key) as string },
    });
    client.leave();
  };

  it('are bounded, of a tenant and in all; one that ends, or whose client leaves, makes room', async () => {
    await start({ settings: { maxTenantUploads: 2, maxUploads: 3 } });
    const first = [await begun('anna'), await begun('anna')];
    await eventually(() => api.onShelf().length === 2, 'two half-written files');
    await refusedTo('anna', 'batch.maxTenantUploads');
    first.push(await begun('bert'));
    await eventually(() => api.onShelf().length === 3, 'three half-written files');
    await refusedTo('bert', 'batch.maxUploads');
    first.shift()?.leave();
    await eventually(() => api.onShelf().length === 2, 'one is removed');
    expect(await uploadParts(api, [purposeOf(), fileOf(line('a'))])).toMatchObject({ status: 200 });
    expect(await uploadParts(api, [purposeOf(), fileOf(line('a'))])).toMatchObject({ status: 200 });
    for (const client of first) client.leave();
  });

  it('are bounded in all alone where no key is asked for: then everybody is one tenant', async () => {
    await start({ settings: { maxTenantUploads: 1, maxUploads: 3 } });
    const clients = [await begun('anonymous'), await begun('anonymous'), await begun('anonymous')];
    await eventually(() => api.onShelf().length === 3, 'three half-written files');
    await refusedTo('anonymous', 'batch.maxUploads');
    for (const client of clients) client.leave();
  });

  it('are among the requests that their tenant may have at one time, until they are answered', async () => {
    let under = 0;
    await start({
      claim() {
        if (under >= 1) return overLimit('concurrent', { allowed: 1, waitMs: 0, headers: ['x-ratelimit-x', '1'] });
        under += 1;
        return { ended: () => void (under -= 1) };
      },
    });
    const client = await begun('anna');
    await eventually(() => api.onShelf().length === 1, 'a half-written file');
    const refused = await uploadParts(api, [purposeOf(), fileOf(line('a'))]);
    expect(refused).toMatchObject({ status: 429, json: { error: { code: 'rate_limit_exceeded' } } });
    client.leave();
    await eventually(() => under === 0, 'the end of the first');
    for (let i = 0; i < 3; i += 1)
      expect(await uploadParts(api, [purposeOf(), fileOf(line('a'))])).toMatchObject({ status: 200 });
    expect(under).toBe(0);
  });
});

describe('POST /v1/files', () => {
  it('keeps a file and shows all that OpenAI shows', async () => {
    await start({ clock: { wallMs: () => 1_800_000_000_500 } });
    const { status, json } = await uploadParts(api, [purposeOf(), fileOf('ä\n', 'über/täglich.jsonl')]);
    expect([status, json]).toEqual([
      200,
      {
        id: expect.stringMatching(/^file-[0-9A-Za-z]{24}$/) as unknown,
        object: 'file',
        bytes: 3,
        created_at: 1_800_000_000,
        expires_at: 1_802_592_000,
        filename: 'täglich.jsonl',
        purpose: 'batch',
        status: 'processed',
        status_details: null,
      },
    ]);
    expect(api.onShelf()).toEqual([json['id']]);
  });

  it('takes the fields in any order, behind the file too, and passes over those that it does not know', async () => {
    const expiry = [
      { name: 'expires_after[anchor]', value: 'created_at' },
      { name: 'expires_after[seconds]', value: '3600' },
    ];
    const parts: FormPart[] = [{ name: 'something', value: 'x' }, fileOf(line('a')), ...expiry, purposeOf('vision')];
    const { json } = await uploadParts(api, parts);
    expect(json).toMatchObject({ purpose: 'vision' });
    expect(Number(json['expires_at']) - Number(json['created_at'])).toBe(3600);
  });

  it.each([
    ['no file', [purposeOf()], 400, 'missing_required_parameter', 'file'],
    ['no purpose', [fileOf('x')], 400, 'missing_required_parameter', 'purpose'],
    ['neither', [], 400, 'missing_required_parameter', 'file'],
    ['a purpose of ours alone', [purposeOf('batch_output'), fileOf('x')], 400, 'invalid_value', 'purpose'],
    ['two files', [purposeOf(), fileOf('x'), fileOf('y')], 400, 'too_many_files', 'file'],
    ['a file in another field', [purposeOf(), { ...fileOf('x'), name: 'upload' }], 400, 'unknown_parameter', 'file'],
    ['a field that is too long', [purposeOf('b'.repeat(5000)), fileOf('x')], 400, 'invalid_value', 'purpose'],
    [
      'an expiry of no length',
      [purposeOf(), { name: 'expires_after[anchor]', value: 'created_at' }, fileOf('x')],
      400,
      'missing_required_parameter',
      'expires_after[seconds]',
    ],
    [
      'an expiry that is too short',
      [
        purposeOf(),
        { name: 'expires_after[anchor]', value: 'created_at' },
        { name: 'expires_after[seconds]', value: '3599' },
        fileOf('x'),
      ],
      400,
      'invalid_value',
      'expires_after[seconds]',
    ],
  ])('refuses %s, and keeps nothing of it', async (_what, parts: readonly FormPart[], status, code, param) => {
    const answer = await uploadParts(api, parts);
    expect([answer.status, answer.json.error]).toMatchObject([status, { code, param, type: 'invalid_request_error' }]);
    expect(api.onShelf()).toEqual([]);
    expect((await askApi(api, '/v1/files')).json['data']).toEqual([]);
  });

  it('refuses what is no form, one without a boundary, and one that ends too early', async () => {
    const bodies: readonly [string, string | Buffer, string][] = [
      ['application/json', '{}', 'invalid_content_type'],
      ['multipart/form-data', formBody([purposeOf()]), 'invalid_content_type'],
      [formType, formBody([purposeOf(), fileOf('half of')], { closed: false }), 'invalid_form'],
      [formType, 'nothing of a form', 'invalid_form'],
    ];
    for (const [type, body, code] of bodies) {
      const { status, json } = await askApi(api, '/v1/files', {
        method: 'POST',
        headers: { 'content-type': type },
        body,
      });
      expect([status, json.error?.code]).toEqual([400, code]);
    }
    expect(api.onShelf()).toEqual([]);
  });

  it('answers a form wherever it is cut, and keeps nothing of it', async () => {
    const whole = formBody([purposeOf(), fileOf(line('a')), { name: 'z', value: 'z' }]);
    // Before its last dashes the form is not over.
    const last = whole.length - 4;
    for (let length = 0; length < last; length += 7) {
      const { status, json } = await askApi(api, '/v1/files', {
        method: 'POST',
        headers: { 'content-type': formType },
        body: whole.subarray(0, length),
      });
      expect([length, status, json.error?.code]).toEqual([length, 400, 'invalid_form']);
    }
    expect(api.onShelf()).toEqual([]);
  });

  it('C179 refuses a file that is announced as too large before any of it came, and one that turns out to be while it comes', async () => {
    await start({ settings: { maxFileBytes: 1000 } });
    const announced = await rawClient(api.port);
    announced.send(uploadHead({ 'Content-Length': 1e9, Expect: '100-continue' }));
    const early = await announced.answer();
    expect([early.status, early.body.toString()]).toEqual([413, expect.stringContaining('file_too_large')]);
    announced.leave();

    const chunked = await rawClient(api.port);
    chunked.send(uploadHead({ 'Transfer-Encoding': 'chunked' }));
    const piece = formBody([purposeOf(), fileOf('x'.repeat(1001))], { closed: false });
    chunked.send(`${piece.length.toString(16)}\r\n`);
    chunked.send(piece);
    // The form is never ended.
    const late = await chunked.answer();
    expect([late.status, late.body.toString()]).toEqual([413, expect.stringContaining('file_too_large')]);
    chunked.leave();
    expect(api.onShelf()).toEqual([]);
    expect((await uploadParts(api, [purposeOf(), fileOf('x'.repeat(1000))])).status).toBe(200);
  });

  it('tells a client that waits for it to go on, once', async () => {
    const body = formBody([purposeOf(), fileOf('x')]);
    const client = await rawClient(api.port);
    client.send(uploadHead({ 'Content-Length': body.length, Expect: '100-continue' }));
    await client.until(() => client.received.includes('100 Continue'));
    client.send(body);
    await client.until(() => client.received.includes('"status":"processed"'));
    expect(client.received.toString().match(/100 Continue/g)).toHaveLength(1);
    client.leave();
  });

  it('leaves nothing behind when its client leaves midway', async () => {
    const client = await rawClient(api.port);
    client.send(uploadHead({ 'Content-Length': 1e6 }));
    client.send(formBody([purposeOf(), fileOf('x'.repeat(200_000))], { closed: false }));
    await eventually(() => api.onShelf().length === 1, 'a half-written file');
    client.reset();
    await eventually(() => api.onShelf().length === 0, 'nothing left');
    await api.server.idle();
    expect(api.logged.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
  });

  it('drops a client that sends no more', async () => {
    await start({ stallMs: 60 });
    const client = await rawClient(api.port);
    client.send(uploadHead({ 'Content-Length': 1e6 }));
    client.send(formBody([purposeOf(), fileOf('x')], { closed: false }));
    await client.until(() => client.ended !== 'no');
    await api.server.idle();
    expect(api.onShelf()).toEqual([]);
  });

  it('C179 keeps a file of more than memory would be given for it, byte for byte, whatever the cuts', async () => {
    const content = Buffer.alloc(3_000_001, 'every byte counts\r\n--a-boundary-of\n');
    const body = formBody([fileOf(content), purposeOf()]);
    const client = await rawClient(api.port);
    client.send(uploadHead({ 'Content-Length': body.length }));
    for (let at = 0; at < body.length; at += 100_003) client.send(body.subarray(at, at + 100_003));
    const { status, body: told } = await client.answer();
    client.leave();
    expect(status).toBe(200);
    const { id } = JSON.parse(told.toString()) as { id: string };
    const got = await fetch(`${api.url}/v1/files/${id}/content`, { headers: { authorization: 'Bearer anna' } });
    const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
    expect(digest(new Uint8Array(await got.arrayBuffer()))).toBe(digest(content));
  });

  it("holds a tenant's files to its limit, others' not, and counts those that are coming in", async () => {
    await start({ settings: { maxTenantBytes: 1000 } });
    await uploadText(api, 'x'.repeat(600));
    const { status, json } = await uploadParts(api, [purposeOf(), fileOf('x'.repeat(401))]);
    expect([status, json.error]).toMatchObject([413, { code: 'storage_quota_exceeded', param: 'file' }]);
    expect((await uploadParts(api, [purposeOf(), fileOf('x'.repeat(401))], 'bert')).status).toBe(200);

    const client = await rawClient(api.port);
    client.send(uploadHead({ 'Transfer-Encoding': 'chunked' }));
    const piece = formBody([purposeOf(), fileOf('x'.repeat(300))], { closed: false });
    client.send(`${piece.length.toString(16)}\r\n${piece.toString()}\r\n`);
    await eventually(() => api.onShelf().some((name) => name.startsWith('.')), 'bytes on the shelf');
    await eventually(
      async () => (await uploadParts(api, [purposeOf(), fileOf('x'.repeat(200))])).status === 413,
      'the other upload counts',
    );
    client.reset();
    await eventually(
      async () => (await uploadParts(api, [purposeOf(), fileOf('x'.repeat(400))])).status === 200,
      'room again',
    );
    expect((await uploadParts(api, [purposeOf(), fileOf('x')])).status).toBe(413);
  });

  it('says when the disk is full, while the file comes and at its end, and keeps nothing', async () => {
    let failAt: 'write' | 'commit' = 'write';
    const full = () => Promise.reject(new StoreError('full', 'ENOSPC'));
    await start({
      shelf: (real) => ({
        ...real,
        async create(id) {
          const writer = await real.create(id);
          return {
            ...writer,
            get bytes() {
              return writer.bytes;
            },
            ...(failAt === 'write' ? { write: full } : { commit: full }),
          };
        },
      }),
    });
    for (failAt of ['write', 'commit'] as const) {
      const { status, headers, json } = await uploadParts(api, [purposeOf(), fileOf('x')]);
      expect([status, json.error?.code, headers.get('x-should-retry')]).toEqual([507, 'storage_full', 'false']);
      expect(json.error?.message).not.toContain('ENOSPC');
      expect(api.onShelf()).toEqual([]);
    }
  });

  it('takes a file off the shelf again that could not be entered, and says whether to come again', async () => {
    await start({
      store: (real) => ({ ...real, addFile: () => Promise.reject(new StoreError('away', 'connection lost')) }),
    });
    const { status, headers, json } = await uploadParts(api, [purposeOf(), fileOf('x')]);
    expect([status, json.error?.code, headers.get('retry-after')]).toEqual([503, 'storage_unavailable', '5']);
    expect(api.onShelf()).toEqual([]);
  });

  it('ends an upload that is in the way of a shutdown', async () => {
    const client = await rawClient(api.port);
    client.send(uploadHead({ 'Content-Length': 1e6 }));
    client.send(formBody([purposeOf(), fileOf('x'.repeat(100_000))], { closed: false }));
    await eventually(() => api.onShelf().length === 1, 'a half-written file');
    api.server.endAll();
    await api.server.idle();
    expect(api.onShelf()).toEqual([]);
  });
});

describe('GET /v1/files', () => {
  const idsOf = async (query: string, tenant = 'anna') => {
    const { json } = await askApi(api, `/v1/files${query}`, {}, tenant);
    return { ...json, ids: (json['data'] as readonly { readonly id: string }[]).map(({ id }) => id) };
  };

  it("lists a tenant's own files, newest first, page by page, by purpose", async () => {
    const ids: string[] = [];
    for (let index = 0; index < 5; index += 1)
      ids.push(await uploadText(api, 'x', { purpose: index === 2 ? 'evals' : 'batch' }));
    const others = await uploadText(api, 'x', { tenant: 'bert' });
    const all = await idsOf('');
    expect(all.ids).toEqual(ids.toReversed());
    expect(all).toMatchObject({ object: 'list', first_id: ids[4], last_id: ids[0], has_more: false });
    expect(await idsOf('?limit=2')).toMatchObject({ ids: [ids[4], ids[3]], has_more: true });
    expect(await idsOf(`?limit=2&after=${ids[3]}`)).toMatchObject({ ids: [ids[2], ids[1]], has_more: true });
    expect((await idsOf('?order=asc')).ids).toEqual(ids);
    expect((await idsOf('?purpose=evals')).ids).toEqual([ids[2]]);
    expect((await idsOf('', 'bert')).ids).toEqual([others]);
    expect(await idsOf('', 'carl')).toMatchObject({ ids: [], first_id: null, last_id: null, has_more: false });
  });

  it.each([
    ['limit=0', 'limit'],
    ['limit=10001', 'limit'],
    ['limit=x', 'limit'],
    ['order=up', 'order'],
    ['after=file-unknown', 'after'],
  ])('refuses %s', async (query, param) => {
    const { status, json } = await askApi(api, `/v1/files?${query}`);
    expect([status, json.error]).toMatchObject([400, { code: 'invalid_value', param }]);
  });
});

describe('GET /v1/files/{id} and its content', () => {
  it("shows a tenant's own file alone: another's, an unknown and a malformed id are not there", async () => {
    const id = await uploadText(api, 'x');
    expect((await askApi(api, `/v1/files/${id}`)).json).toMatchObject({ id, bytes: 1 });
    const ids = [`${id}0`, 'file-', 'batch_x', `file-${'x'.repeat(300)}`, 'file-..%2f..%2fetc'];
    const looks = [...ids.map((other) => [other, 'anna'] as const), [id, 'bert'] as const];
    for (const [other, tenant] of looks) {
      for (const [method, path] of [
        ['GET', `/v1/files/${other}`],
        ['GET', `/v1/files/${other}/content`],
        ['DELETE', `/v1/files/${other}`],
      ] as const) {
        const { status, json } = await askApi(api, path, { method }, tenant);
        expect([path, status, json.error]).toMatchObject([
          path,
          404,
          { type: 'invalid_request_error', param: 'id', code: 'not_found' },
        ]);
      }
    }
    expect((await askApi(api, `/v1/files/${id}`)).status).toBe(200);
  });

  it('gives the bytes with their length, type and name, to GET and to HEAD', async () => {
    const { json } = await uploadParts(api, [purposeOf(), fileOf('ab\r\nc', "mein 'ä'.jsonl")]);
    const url = `${api.url}/v1/files/${String(json['id'])}/content`;
    const headers = { authorization: 'Bearer anna', 'x-request-id': 'mine' };
    const whole = await fetch(url, { headers });
    expect(Object.fromEntries(whole.headers)).toMatchObject({
      'content-length': '5',
      'content-type': 'application/octet-stream',
      'accept-ranges': 'bytes',
      'x-request-id': 'mine',
    });
    expect(whole.headers.get('content-disposition')).toBe(
      `attachment; filename="mein '_'.jsonl"; filename*=UTF-8''mein%20%27%C3%A4%27.jsonl`,
    );
    expect(await whole.text()).toBe('ab\r\nc');
    const head = await fetch(url, { headers, method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '5', '']);
  });

  it('gives an empty file, too', async () => {
    const id = await uploadText(api, '');
    const got = await fetch(`${api.url}/v1/files/${id}/content`, { headers: { authorization: 'Bearer anna' } });
    expect([got.status, got.headers.get('content-length'), await got.text()]).toEqual([200, '0', '']);
  });

  it('goes on with a download that broke off', async () => {
    const id = await uploadText(api, '0123456789');
    const get = async (range: string) => {
      const got = await fetch(`${api.url}/v1/files/${id}/content`, {
        headers: { authorization: 'Bearer anna', range },
      });
      return [got.status, got.headers.get('content-range'), await got.text()];
    };
    expect(await get('bytes=4-')).toEqual([206, 'bytes 4-9/10', '456789']);
    expect(await get('bytes=0-0')).toEqual([206, 'bytes 0-0/10', '0']);
    expect(await get('bytes=-3')).toEqual([206, 'bytes 7-9/10', '789']);
    expect(await get('bytes=8-99')).toEqual([206, 'bytes 8-9/10', '89']);
    expect(await get('bytes=10-')).toEqual([416, 'bytes */10', '']);
    expect(await get('bytes=5-2')).toEqual([200, null, '0123456789']);
    expect(await get('bytes=0-1,3-4')).toEqual([200, null, '0123456789']);
  });

  it('does not show a file whose time is over, nor lets it be used', async () => {
    let nowMs = 1_800_000_000_000;
    await start({ clock: { wallMs: () => nowMs }, settings: { fileLifeSeconds: 3600 } });
    const id = await uploadText(api, line('a'));
    nowMs += 3_599_000;
    expect((await askApi(api, `/v1/files/${id}`)).status).toBe(200);
    nowMs += 1000;
    expect((await askApi(api, `/v1/files/${id}`)).status).toBe(404);
    expect((await createBatch(api, createOf(id))).json.error).toMatchObject({ param: 'input_file_id' });
  });

  it('ends a download visibly when its bytes break off, and stops reading when its client leaves', async () => {
    const reads: { destroyed: boolean }[] = [];
    await start({
      shelf: (real) => ({
        ...real,
        read(id, range) {
          const stream = real.read(id, range);
          reads.push(stream);
          return stream;
        },
      }),
    });
    const id = await uploadText(api, 'x'.repeat(8_000_000));
    const client = await rawClient(api.port);
    client.socket.pause();
    client.send(`GET /v1/files/${id}/content HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer anna\r\n\r\n`);
    await eventually(() => reads.length === 1, 'a read');
    client.reset();
    await eventually(() => reads[0]?.destroyed === true, 'its end');
    await api.server.idle();
  });
});

describe('DELETE /v1/files/{id}', () => {
  it('removes entry and bytes', async () => {
    const id = await uploadText(api, 'x');
    const { status, json } = await askApi(api, `/v1/files/${id}`, { method: 'DELETE' });
    expect([status, json]).toEqual([200, { id, object: 'file', deleted: true }]);
    expect(api.onShelf()).toEqual([]);
    expect((await askApi(api, `/v1/files/${id}`, { method: 'DELETE' })).status).toBe(404);
  });

  it('refuses while a batch that is not over reads it', async () => {
    const id = await uploadText(api, line('a'));
    await createBatch(api, createOf(id));
    const { status, json, headers } = await askApi(api, `/v1/files/${id}`, { method: 'DELETE' });
    expect([status, json.error?.code, headers.get('x-should-retry')]).toEqual([409, 'file_in_use', 'false']);
    expect(api.onShelf()).toEqual([id]);
  });
});

describe('the boundary', () => {
  it('may look like anything that RFC 2046 allows', async () => {
    const odd = "0'()+_,-./:=?";
    const body = formBody([purposeOf(), fileOf('x')])
      .toString()
      .replaceAll(boundary, odd);
    const answer = await askApi(api, '/v1/files', {
      method: 'POST',
      headers: { 'content-type': `multipart/form-data; charset=utf-8; boundary="${odd}"` },
      body,
    });
    expect(answer.status).toBe(200);
  });
});
