import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createAccess } from '../../../src/access/access.ts';
import type { Caller, Stay } from '../../../src/access/port.ts';
import type { AccessSettings, AuthSettings, TenantLimits } from '../../../src/access/settings.ts';
import { isRefusal, type Refusal } from '../../../src/domain/refusal.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { sampleJob } from '../../support/sample.ts';

const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex');

function auth(over: Partial<AuthSettings> = {}): AuthSettings {
  return {
    keys: [
      { sha256: sha256('key-of-a'), tenant: 'a', lane: 'online' },
      { sha256: sha256('other-key-of-a'), tenant: 'a', lane: 'batch' },
      { sha256: sha256('key-of-b'), tenant: 'b', lane: 'online' },
    ],
    tenants: [
      { name: 'a', weight: 2, limits: {} },
      { name: 'b', weight: 1, limits: {}, models: ['qwen', 'fast'] },
    ],
    dropHeaders: ['cookie'],
    unknownIds: 'refuse',
    ...over,
  };
}

const headOf = (headers: Readonly<Record<string, string>> = {}, method = 'POST') => ({
  method,
  target: '/v1/chat/completions',
  header: (name: string) => headers[name],
});

const bearer = (key: string) => headOf({ authorization: `Bearer ${key}` });

function callerOf(given: Caller | Refusal): Caller {
  if (isRefusal(given)) throw new Error(`refused: ${given.code}`);
  return given;
}

function limited(limits: TenantLimits) {
  const clock = createFakeClock();
  const settings: AccessSettings = { auth: auth({ tenants: [{ name: 'a', weight: 1, limits }] }), rules: [] };
  const access = createAccess(settings, { clock });
  const caller = callerOf(access.caller(bearer('key-of-a')));
  const place = (job = sampleJob()) => access.place(caller, job);
  const placed = (job = sampleJob()): Stay => {
    const stay = place(job);
    if (isRefusal(stay)) throw new Error(`refused: ${stay.message}`);
    return stay;
  };
  return { clock, access, settings, place, placed };
}

function headersOf({ headers = [] }: { readonly headers?: readonly string[] }): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (let i = 0; i + 1 < headers.length; i += 2) found[headers[i] ?? ''] = headers[i + 1] ?? '';
  return found;
}

describe('without auth', () => {
  const access = createAccess({ rules: [{ model: 'bge', lane: 'batch' }] }, { clock: createFakeClock() });

  it('everybody is one tenant, and keys go on to the backends', () => {
    const caller = access.caller(bearer('anything'));
    expect(caller).toMatchObject({ tenant: 'anonymous', lane: 'online', weight: 1, keyIsOurs: false });
    expect(caller).not.toHaveProperty('dropped');
    expect(access.caller(headOf())).toBe(caller);
  });

  it('rules, body and header say the lane, and there are no limits', () => {
    const caller = callerOf(access.caller(headOf()));
    expect(access.lane(caller, headOf(), sampleJob())).toBe('online');
    expect(access.lane(caller, headOf(), sampleJob({ model: 'bge' }))).toBe('batch');
    expect(access.lane(caller, headOf({ 'x-warmlane-lane': 'batch' }), sampleJob())).toBe('batch');
    expect(access.place(caller, sampleJob())).toMatchObject({ headers: [] });
  });
});

describe('a limit that is left out and comes back', () => {
  const without = { auth: auth({ tenants: [{ name: 'a', weight: 1, limits: {} }] }), rules: [] };

  it.each<[string, AccessSettings]>([
    ['the limit', without],
    ['the key', { auth: auth({ keys: [], tenants: [] }), rules: [] }],
    ['auth', { rules: [] }],
  ])('finds all that was used: without %s meanwhile', (_, meanwhile) => {
    const { clock, access, settings, place, placed } = limited({
      requestsPerMinute: 2,
      tokensPerMinute: 1000,
      concurrent: 3,
    });
    const running = placed(sampleJob({ bodyBytes: 2000, maxOutputTokens: 1 }));
    placed().ended({});
    access.configure(meanwhile);
    // An answer that was longer than thought, and time, count meanwhile.
    running.ended({ prompt: 500, output: 801 });
    clock.advance(15_000);
    access.configure(settings);
    expect(place()).toMatchObject({ status: 429, reason: 'limit_requests' });
    clock.advance(15_000);
    expect(place(sampleJob({ bodyBytes: 4, maxOutputTokens: 900 }))).toMatchObject({ reason: 'limit_tokens' });
  });

  it('counts what runs since before, and what began meanwhile', () => {
    const { access, settings, place, placed } = limited({ concurrent: 2 });
    const before = placed();
    access.configure(without);
    placed();
    placed();
    access.configure(settings);
    expect(place()).toMatchObject({ reason: 'limit_concurrent' });
    before.ended({});
    expect(place()).toMatchObject({ reason: 'limit_concurrent' });
  });
});

describe('what warmlane answers itself', () => {
  it('is one of the requests at one time of its tenant, and counts in no rate', () => {
    const { access, place, placed } = limited({ concurrent: 2, requestsPerMinute: 2 });
    const claim = access.claim('a');
    if (isRefusal(claim)) throw new Error('refused');
    const stay = placed();
    expect(access.claim('a')).toMatchObject({ status: 429, reason: 'limit_concurrent', retryAfterSeconds: 1 });
    claim.ended();
    claim.ended();
    placed();
    expect(place()).toMatchObject({ reason: 'limit_concurrent' });
    stay.ended({});
    // Two were let in; the claim was none of them.
    expect(place()).toMatchObject({ reason: 'limit_requests' });
    expect(isRefusal(access.claim('nobody-with-limits'))).toBe(false);
  });
});

describe('with auth', () => {
  const access = createAccess({ auth: auth(), rules: [] }, { clock: createFakeClock() });

  it('a key belongs to its tenant, wherever the request shows it', () => {
    for (const head of [bearer('key-of-a'), headOf({ 'x-api-key': 'key-of-a' }), headOf({ 'api-key': 'key-of-a' })])
      expect(access.caller(head)).toMatchObject({ tenant: 'a', lane: 'online', weight: 2, keyIsOurs: true });
    expect(access.caller(bearer('other-key-of-a'))).toMatchObject({ tenant: 'a', lane: 'batch', weight: 2 });
  });

  it('one right key among several is enough', () => {
    const head = headOf({ authorization: 'Bearer left-over', 'x-api-key': 'key-of-b' });
    expect(access.caller(head)).toMatchObject({ tenant: 'b' });
  });

  it('R26 no key and a wrong one are refused, with a challenge and without a word of the key', () => {
    const none = access.caller(headOf());
    expect(none).toMatchObject({ status: 401, code: 'invalid_api_key', outcome: 'client_error', spokenBy: 'warmlane' });
    expect(headersOf(none as Refusal)).toEqual({ 'WWW-Authenticate': 'Bearer realm="warmlane"' });
    for (const key of ['secret-guess', sha256('key-of-a'), 'key-of-a ', 'KEY-OF-A', 'key-of']) {
      const wrong = access.caller(headOf({ 'x-api-key': `${key}x` }));
      expect(wrong).toMatchObject({ status: 401, code: 'invalid_api_key' });
      expect(JSON.stringify(wrong)).not.toContain(key);
    }
  });

  it('says which headers stay here', () => {
    const { dropped } = callerOf(access.caller(bearer('key-of-a')));
    expect([...(dropped ?? [])].toSorted()).toEqual(['api-key', 'authorization', 'cookie', 'x-api-key']);
  });

  it('C099 lets a preflight pass, which can show no key, and no other OPTIONS', () => {
    const preflight = headOf({ origin: 'https://app', 'access-control-request-method': 'POST' }, 'OPTIONS');
    expect(access.caller(preflight)).toMatchObject({ tenant: 'anonymous', keyIsOurs: true, preflight: true });
    expect(access.caller(headOf({ origin: 'https://app' }, 'OPTIONS'))).toMatchObject({ status: 401 });
    const post = headOf({ origin: 'https://app', 'access-control-request-method': 'POST' });
    expect(access.caller(post)).toMatchObject({ status: 401 });
  });

  it('a tenant with models gets those, by the name or by an alias of it, and no other', () => {
    const caller = callerOf(access.caller(bearer('key-of-b')));
    const placed = (job: Parameters<typeof sampleJob>[0]) => access.place(caller, sampleJob(job));
    expect(placed({ model: 'qwen' })).toMatchObject({ headers: [] });
    expect(placed({ model: 'fast', servedModel: 'big' })).toMatchObject({ headers: [] });
    expect(placed({ model: 'short', servedModel: 'qwen' })).toMatchObject({ headers: [] });
    expect(placed({ model: 'big' })).toMatchObject({ status: 403, code: 'model_not_allowed', param: 'model' });
    expect(placed({ model: 'toString' })).toMatchObject({ status: 403 });
  });

  it('and a request of it that names none gets none, but for the list and for what is known by its id', () => {
    const caller = callerOf(access.caller(bearer('key-of-b')));
    const { model: _none, ...unnamed } = sampleJob();
    const placed = (over: object) => access.place(caller, { ...unnamed, ...over });
    expect(placed({})).toMatchObject({ status: 403 });
    expect(placed({ endpoint: 'other', generates: false })).toMatchObject({ status: 403 });
    expect(placed({ stickyKey: 'resp_1' })).toMatchObject({ status: 403 });
    expect(placed({ endpoint: 'models', generates: false })).toMatchObject({ headers: [] });
    expect(placed({ endpoint: 'responses', generates: false, stickyKey: 'resp_1' })).toMatchObject({ headers: [] });
  });

  it('a line of a batch has the weight and the models of its tenant, and goes on where its tenant is gone', () => {
    expect(access.line('a', sampleJob())).toMatchObject({ weight: 2 });
    expect(access.line('b', sampleJob({ model: 'big' }))).toMatchObject({ status: 403, code: 'model_not_allowed' });
    expect(access.line('gone', sampleJob())).toMatchObject({ weight: 1 });
  });

  it('a new configuration counts from the next request on', () => {
    const changing = createAccess({ auth: auth(), rules: [] }, { clock: createFakeClock() });
    changing.configure({
      auth: auth({ keys: [{ sha256: sha256('new-key-of-a'), tenant: 'a', lane: 'online' }] }),
      rules: [{ tenant: 'a', lane: 'batch' }],
    });
    expect(changing.caller(bearer('key-of-a'))).toMatchObject({ status: 401 });
    const caller = callerOf(changing.caller(bearer('new-key-of-a')));
    expect(changing.lane(caller, bearer('new-key-of-a'), sampleJob())).toBe('batch');
    changing.configure({ rules: [] });
    expect(changing.caller(headOf())).toMatchObject({ tenant: 'anonymous', keyIsOurs: false });
  });
});

describe('the limits of a tenant', () => {
  it('so many requests at one time, whatever they do, and each leaves once', () => {
    const { place, placed } = limited({ concurrent: 2 });
    const first = placed();
    placed();
    expect(place()).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      reason: 'limit_concurrent',
      retryAfterSeconds: 1,
    });
    first.ended({});
    first.ended({});
    placed();
    expect(place()).toMatchObject({ status: 429 });
  });

  it('so many requests a minute, which come back with time', () => {
    const { clock, place, placed } = limited({ requestsPerMinute: 2 });
    expect(headersOf(placed())).toEqual({
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-reset-requests': '30s',
    });
    placed().ended({});
    const refusal = place() as Refusal;
    expect(refusal).toMatchObject({ status: 429, type: 'requests', reason: 'limit_requests', retryAfterSeconds: 30 });
    expect(headersOf(refusal)).toMatchObject({
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '1m0s',
    });
    clock.advance(30_000);
    placed();
    expect(place()).toMatchObject({ status: 429 });
  });

  it('tokens are charged as they are thought to be, and set right at the end', () => {
    const { place, placed } = limited({ tokensPerMinute: 1000 });
    // 400 bytes are about 100 tokens, and 300 may come.
    const job = sampleJob({ bodyBytes: 400, maxOutputTokens: 300 });
    const stay = placed(job);
    expect(headersOf(stay)).toMatchObject({
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': '600',
      'x-ratelimit-reset-tokens': '24s',
    });
    stay.ended({ prompt: 90, output: 10 });
    expect(headersOf(placed(job))['x-ratelimit-remaining-tokens']).toBe('500');
    // It turns out to be far more: the debt must be paid first.
    placed(job).ended({ prompt: 1000, output: 600 });
    expect(place(job)).toMatchObject({ status: 429, type: 'tokens', reason: 'limit_tokens', retryAfterSeconds: 90 });
  });

  it('what nobody counted stays as it was thought to be; what did no work costs nothing', () => {
    const { placed } = limited({ tokensPerMinute: 1000 });
    const job = sampleJob({ bodyBytes: 400, maxOutputTokens: 100 });
    placed(job).ended({});
    placed(job).ended({ prompt: 0, output: 0 });
    placed(job).ended({ output: 0 });
    expect(headersOf(placed(job))['x-ratelimit-remaining-tokens']).toBe('500');
  });

  it('a request that is larger than all tokens of a minute waits until they are all there', () => {
    const { clock, place, placed } = limited({ tokensPerMinute: 100 });
    const large = sampleJob({ bodyBytes: 4000, maxOutputTokens: 1 });
    placed(large).ended({ prompt: 150, output: 0 });
    expect(place(large)).toMatchObject({ status: 429, retryAfterSeconds: 90 });
    clock.advance(90_000);
    placed(large);
  });

  it('requests without tokens, such as the list of models, are not held back by tokens', () => {
    const { place, placed } = limited({ tokensPerMinute: 10 });
    placed(sampleJob({ maxOutputTokens: 1000 }));
    expect(place()).toMatchObject({ reason: 'limit_tokens' });
    const list = placed(sampleJob({ endpoint: 'models', generates: false, measured: false, readable: false }));
    expect(list.headers).toContain('x-ratelimit-limit-tokens');
  });

  it('what is only kept by a backend, such as a new conversation, is not charged as if it were a prompt', () => {
    const { placed } = limited({ tokensPerMinute: 1000 });
    const kept = placed(sampleJob({ endpoint: 'other', generates: false, stored: true, bodyBytes: 4000 }));
    expect(headersOf(kept)['x-ratelimit-remaining-tokens']).toBe('1000');
  });

  it('a refusal by one of them costs nothing of the others', () => {
    const { place, placed } = limited({ concurrent: 1, requestsPerMinute: 10, tokensPerMinute: 10_000 });
    const stay = placed();
    for (let round = 0; round < 20; round += 1) expect(place()).toMatchObject({ reason: 'limit_concurrent' });
    stay.ended({ prompt: 0, output: 0 });
    expect(headersOf(placed())['x-ratelimit-remaining-requests']).toBe('8');
  });

  it('are for the tenant, whichever of its keys comes', () => {
    const { access, placed } = limited({ concurrent: 1 });
    placed();
    const other = callerOf(access.caller(bearer('other-key-of-a')));
    expect(access.place(other, sampleJob())).toMatchObject({ status: 429 });
  });

  it('a reload is no way to a fresh minute, nor does it forget who is there', () => {
    const { access, settings, place, placed } = limited({ concurrent: 2, requestsPerMinute: 10 });
    placed();
    placed();
    access.configure(settings);
    expect(place()).toMatchObject({ reason: 'limit_concurrent' });
    const tenants = [{ name: 'a', weight: 1, limits: { requestsPerMinute: 4 } }];
    access.configure({ auth: auth({ tenants }), rules: [] });
    expect(headersOf(placed())['x-ratelimit-remaining-requests']).toBe('1');
  });
});
