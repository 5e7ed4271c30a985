import { describe, expect, it } from 'vitest';
import {
  createMergedModels,
  mergeModels,
  type BackendModels,
  type ModelSource,
} from '../../../src/fleet/merged-models.ts';
import type { ProbeOptions, ProbeResult } from '../../../src/fleet/probe-port.ts';
import { sampleBackend } from '../../support/sample.ts';

const options = { aliases: {}, anyModel: false, epochSeconds: 7 };

function models(objects: Readonly<Record<string, string>>, ids: readonly string[] = []): BackendModels {
  return { ids, objects: new Map(Object.entries(objects)) };
}

function list(...objects: string[]): ProbeResult {
  return { status: 200, headers: {}, body: `{"object":"list","data":[${objects.join(', ')}]}` };
}

/** A source that answers this, and notes how it was asked. */
function source(name: string, answer: ProbeResult, more: Partial<ModelSource> = {}) {
  const asked: ProbeOptions[] = [];
  const fetch = (_path: string, how: ProbeOptions) => {
    asked.push(how);
    return Promise.resolve(answer);
  };
  return { name, fetch, asked, ...more };
}

function merged(
  sources: readonly ReturnType<typeof source>[],
  over: {
    aliases?: Record<string, string>;
    views?: ReturnType<typeof sampleBackend>[];
    headers?: Record<string, string>;
    only?: readonly string[];
  } = {},
) {
  const read = createMergedModels({
    sources: () => sources,
    snapshot: () => ({ atMs: 1, backends: over.views ?? sources.map(({ name }) => sampleBackend(name)) }),
    aliases: () => over.aliases ?? {},
    timeoutMs: 100,
    epochSeconds: () => 7,
    nowMs: () => 1,
  });
  return read((name) => over.headers?.[name], over.only === undefined ? undefined : new Set(over.only));
}

describe('the merged list of models', () => {
  it('holds for a client of few models those alone, each as it came, one backend or several', async () => {
    const one = source('a', list('{"id":"m", "x":1.0}', '{"id":"n"}'));
    expect(await merged([one], { only: ['m', 'gone'] })).toBe('{"object":"list","data":[{"id":"m", "x":1.0}]}');
    const two = source('b', list('{"id":"o"}'));
    const aliases = { short: 'm', long: 'o' };
    expect(await merged([one, two], { only: ['m', 'long'], aliases })).toBe(
      '{"object":"list","data":[{"id":"m", "x":1.0},{"id":"short", "x":1.0},{"id":"long"}]}',
    );
  });

  it('is empty for it, and not left to a backend, where nothing is known', async () => {
    const silent = source('a', { status: 500, headers: {}, body: '' });
    expect(await merged([silent], { only: ['m'] })).toBe('{"object":"list","data":[]}');
  });

  it('is the union by id, in the order of the backends, each object as the first one wrote it', () => {
    const a = '{"id":"m", "created":1.0,"big":12345678901234567890}';
    const b = '{"created":2,"id":"m"}';
    const c = '{"id":"x\\u002dy"}';
    expect(mergeModels([models({ m: a }), models({ m: b, 'x-y': c })], options)).toBe(
      `{"object":"list","data":[${a},${c}]}`,
    );
  });

  it('adds each alias as the object that it stands for under its own name, and no alias of what nobody serves', () => {
    const object = '{"object":"model","id" : "m","owned_by":"vllm","note":"id: m"}';
    const aliases = { 'gpt-4o': 'm', lost: 'nobody', m: 'm', 'quo"te': 'm' };
    expect(mergeModels([models({ m: object })], { ...options, aliases })).toBe(
      `{"object":"list","data":[${[object, object.replace('"m"', '"gpt-4o"'), object.replace('"m"', '"quo\\"te"')].join(',')}]}`,
    );
  });

  it('names an alias of a model that the one backend does not list, since it takes any name', () => {
    const text = mergeModels([models({ 'smol.gguf': '{"id":"smol.gguf"}' })], {
      aliases: { gpt: 'smol' },
      anyModel: true,
      epochSeconds: 7,
    });
    expect(JSON.parse(text)).toEqual({
      object: 'list',
      data: [{ id: 'smol.gguf' }, { id: 'gpt', object: 'model', created: 7, owned_by: 'warmlane' }],
    });
  });

  it('cuts objects out of the answer byte for byte, whatever stands in their strings', async () => {
    const odd = '{"id":"a","x":"}],{\\"id\\":\\"no\\"\\\\","deep":[[{"id":"inner"}],{}],"n":1e5}';
    const text = await merged([
      source('a', list(odd, '{"id":"b"}')),
      source('b', list('{"id":"b","late":1}', '{"id":"c"}')),
    ]);
    expect(text).toBe(`{"object":"list","data":[${odd},{"id":"b"},{"id":"c"}]}`);
  });

  it('leaves out a backend that is down without asking it, and names from memory what a silent one serves', async () => {
    const down = source('a', list('{"id":"gone"}'));
    const silent = source('b', { failure: 'timeout', detail: '' });
    const views = [
      sampleBackend('a', { health: 'down', models: ['gone'] }),
      sampleBackend('b', { models: ['known'] }),
      sampleBackend('c'),
    ];
    const text = await merged([down, silent, source('c', list('{"id":"c"}'))], { views });
    expect(down.asked).toEqual([]);
    expect(JSON.parse(text ?? '')).toEqual({
      object: 'list',
      data: [{ id: 'c' }, { id: 'known', object: 'model', created: 7, owned_by: 'warmlane' }],
    });
  });

  it('holds no model of a backend but those that the config names for it', async () => {
    const text = await merged([
      source('a', list('{"id":"x"}', '{"id":"y"}'), { models: ['y', 'z'] }),
      source('b', list('{"id":"b"}')),
    ]);
    expect((JSON.parse(text ?? '') as { data: { id: string }[] }).data.map(({ id }) => id)).toEqual(['y', 'b', 'z']);
  });

  it('is asked for with the credentials of the client, and only with them', async () => {
    const [a, b] = [source('a', list('{"id":"a"}')), source('b', list('{"id":"b"}'))];
    await merged([a, b], { headers: { authorization: 'Bearer user-7', cookie: 'c=1' } });
    expect(a.asked).toEqual([{ timeoutMs: 100, credentials: { authorization: 'Bearer user-7' } }]);
    await merged([a, b]);
    expect(b.asked.at(-1)).toEqual({ timeoutMs: 100 });
  });

  it('is nothing with one backend and no alias, and where no backend names a model', async () => {
    const only = source('a', list('{"id":"a"}'));
    expect(await merged([only])).toBeUndefined();
    expect(only.asked).toEqual([]);
    const refusing: ProbeResult = { status: 401, headers: {}, body: '{"error":"Unauthorized"}' };
    expect(await merged([source('a', refusing), source('b', { failure: 'refused', detail: '' })])).toBeUndefined();
    expect(await merged([only], { aliases: { b: 'a' } })).toBe('{"object":"list","data":[{"id":"a"},{"id":"b"}]}');
  });

  it.each(['{"data":[{"id":3}]}', '{"data":{}}', 'no', '{"data":[{"id":"x"}],"data":[]}'])(
    'takes nothing from an answer that is no list of models: %s',
    async (body) => {
      const text = await merged([source('a', { status: 200, headers: {}, body }), source('b', list('{"id":"b"}'))]);
      expect(text).toBe('{"object":"list","data":[{"id":"b"}]}');
    },
  );
});

const noAliases = {};

describe('clients that ask for the list often', () => {
  function often() {
    const world = { nowMs: 1, snapshot: { atMs: 1, backends: [sampleBackend('a'), sampleBackend('b')] } };
    const a = source('a', list('{"id":"m"}'));
    const b = source('b', list('{"id":"n"}'));
    const read = createMergedModels({
      sources: () => [a, b],
      snapshot: () => world.snapshot,
      aliases: () => noAliases,
      timeoutMs: 100,
      epochSeconds: () => 7,
      nowMs: () => world.nowMs,
    });
    return { world, a, ask: (key?: string) => read((name) => (name === 'authorization' ? key : undefined)) };
  }

  it('share the call that is under way, and what it gave for a second', async () => {
    const { world, a, ask } = often();
    const [first, second] = await Promise.all([ask(), ask()]);
    expect(second).toBe(first);
    world.nowMs += 999;
    expect(await ask()).toBe(first);
    expect(a.asked.length).toBe(1);
    world.nowMs += 1;
    await ask();
    expect(a.asked.length).toBe(2);
  });

  it('share nothing with clients of other credentials', async () => {
    const { a, ask } = often();
    await Promise.all([ask('Bearer 1'), ask('Bearer 2'), ask(), ask('Bearer 1')]);
    expect(a.asked.map(({ credentials }) => credentials?.['authorization'])).toEqual([
      'Bearer 1',
      'Bearer 2',
      undefined,
    ]);
  });

  it('hear of it at once when a backend changes', async () => {
    const { world, a, ask } = often();
    await ask();
    world.snapshot = { ...world.snapshot };
    await ask();
    expect(a.asked.length).toBe(2);
  });

  it('with ever new credentials fill no memory, and lose no answer', async () => {
    const { a, ask } = often();
    for (let at = 0; at < 100; at += 1) expect(await ask(`Bearer ${at}`)).toContain('"m"');
    await ask('Bearer 0');
    expect(a.asked.length).toBe(101);
  });
});
