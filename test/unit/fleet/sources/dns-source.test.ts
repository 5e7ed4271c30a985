import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDnsSource, type Source } from '../../../../src/fleet/sources/dns-source.ts';
import type { BackendSettings, DnsSource } from '../../../../src/fleet/settings.ts';
import { createLog } from '../../../../src/platform/log.ts';
import type { HostAddress, Resolver, SrvRecord } from '../../../../src/platform/resolver.ts';
import { createFakeClock, settle, type FakeClock } from '../../../support/fake-clock.ts';

interface World {
  clock: FakeClock;
  /** What each host has; an error is thrown, `hang` never answers. */
  hosts: Record<string, readonly string[] | Error | 'hang'>;
  services: Record<string, readonly SrvRecord[]>;
  asked: string[];
  found: (readonly BackendSettings[])[];
  logged: string[];
  source: Source | undefined;
}

let world: World;
beforeEach(() => {
  world = { clock: createFakeClock(), hosts: {}, services: {}, asked: [], found: [], logged: [], source: undefined };
});
afterEach(() => {
  world.source?.stop();
  if (world.clock.pending() > 0) throw new Error('the source left a timer behind');
});

function resolver(): Resolver {
  return {
    addresses(host) {
      world.asked.push(host);
      const answer =
        world.hosts[host] ?? Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' });
      if (answer === 'hang') return new Promise<readonly HostAddress[]>(() => {});
      if (answer instanceof Error) return Promise.reject(answer);
      return Promise.resolve(answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));
    },
    services: (name) => Promise.resolve(world.services[name] ?? []),
  };
}

async function start(change: Partial<DnsSource> = {}): Promise<Source> {
  const { clock, found, logged } = world;
  const settings: DnsSource = {
    name: 'llm',
    port: 8000,
    scheme: 'http',
    intervalMs: 1000,
    family: 'auto',
    path: '',
    each: {},
    ...change,
  };
  const source = createDnsSource(settings, {
    clock,
    log: createLog({ level: 'info', format: 'logfmt' }, (line) => void logged.push(line)),
    resolver: resolver(),
    found: (backends) => void found.push(backends),
  });
  world.source = source;
  await source.start();
  return source;
}

async function pass(ms: number): Promise<void> {
  world.clock.advance(ms);
  await settle();
}

const latest = () => world.found.at(-1)?.map(({ name, url }) => [name, url]);

describe('backends by DNS', () => {
  it('are one for each address, named by both, with what is said of all of them', async () => {
    world.hosts['llm'] = ['10.0.0.2', '10.0.0.1', 'fd00::1'];
    await start({ path: '/vllm', each: { engine: 'vllm', weight: 2 } });
    expect(world.found).toEqual([
      [
        { name: 'llm/10.0.0.1', url: 'http://10.0.0.1:8000/vllm', engine: 'vllm', weight: 2 },
        { name: 'llm/10.0.0.2', url: 'http://10.0.0.2:8000/vllm', engine: 'vllm', weight: 2 },
      ],
    ]);
  });

  it.each([
    ['auto', ['fd00::1'], ['llm/fd00::1']],
    ['ipv4', ['10.0.0.1', 'fd00::1'], ['llm/10.0.0.1']],
    ['ipv6', ['10.0.0.1', 'fd00::1'], ['llm/fd00::1']],
    ['both', ['10.0.0.1', 'fd00::1'], ['llm/10.0.0.1', 'llm/fd00::1']],
  ] as const)('of family %s from %j are %j', async (family, addresses, expected) => {
    world.hosts['llm'] = addresses;
    await start({ family });
    expect(latest()?.map(([name]) => name)).toEqual(expected);
    expect(latest()?.every(([, url]) => url?.endsWith(':8000'))).toBe(true);
  });

  it('by SRV records have the ports that these bring', async () => {
    world.services['_http._tcp.llm'] = [
      { host: 'a.llm', port: 8001 },
      { host: 'b.llm', port: 8002 },
    ];
    world.hosts = { 'a.llm': ['10.0.0.1'], 'b.llm': ['10.0.0.1'] };
    await start({ name: '_http._tcp.llm' });
    expect(latest()).toEqual([
      ['_http._tcp.llm/10.0.0.1:8001', 'http://10.0.0.1:8001'],
      ['_http._tcp.llm/10.0.0.1:8002', 'http://10.0.0.1:8002'],
    ]);
  });

  it('are held to the name in their certificate, not to the address', async () => {
    world.hosts['llm'] = ['10.0.0.1'];
    await start({ scheme: 'https', each: { tls: { verify: true, ca: 'pem' } } });
    expect(world.found[0]?.[0]).toMatchObject({
      url: 'https://10.0.0.1:8000',
      tls: { verify: true, ca: 'pem', serverName: 'llm' },
    });
  });

  it('come and go as the name is resolved again; an answer in another order changes nothing', async () => {
    world.hosts['llm'] = ['10.0.0.1', '10.0.0.2'];
    await start();
    world.hosts['llm'] = ['10.0.0.2', '10.0.0.1'];
    await pass(1000);
    expect(world.found).toHaveLength(1);
    world.hosts['llm'] = ['10.0.0.2', '10.0.0.3'];
    await pass(1000);
    expect(latest()?.map(([name]) => name)).toEqual(['llm/10.0.0.2', 'llm/10.0.0.3']);
  });

  it('stay while the name does not resolve, which the log says once', async () => {
    world.hosts['llm'] = ['10.0.0.1'];
    const source = await start();
    world.hosts['llm'] = Object.assign(new Error('getaddrinfo EAI_AGAIN llm'), { code: 'EAI_AGAIN' });
    for (let i = 0; i < 3; i += 1) await pass(1000);
    world.hosts['llm'] = [];
    expect(world.found).toHaveLength(1);
    expect(world.logged.filter((line) => line.includes('does not resolve'))).toHaveLength(1);
    expect(world.logged.join('')).toContain('its last backend stays');
    expect(source.state()).toMatchObject({ backends: 1, problem: 'getaddrinfo EAI_AGAIN llm' });
    await pass(1000);
    expect(source.state().problem).toBe('it has no address');
    world.hosts['llm'] = ['10.0.0.1'];
    await pass(1000);
    expect(source.state()).not.toHaveProperty('problem');
    expect(world.found).toHaveLength(1);
    expect(world.logged.join('')).toContain('resolves again');
  });

  it('stay while the name server is silent, and it is not asked a second time meanwhile', async () => {
    world.hosts['llm'] = ['10.0.0.1'];
    const source = await start();
    world.hosts['llm'] = 'hang';
    for (let i = 0; i < 12; i += 1) await pass(1000);
    expect(world.asked).toHaveLength(2);
    expect(source.state().problem).toBe('no answer within 5000 ms');
    expect(world.found).toHaveLength(1);
  });

  it('a first answer that fails does not hold the start up, and the next one is taken', async () => {
    await start();
    expect(world.found).toEqual([]);
    expect(world.logged.join('')).toContain('no backends come from there');
    world.hosts['llm'] = ['10.0.0.1'];
    await pass(1000);
    expect(latest()).toEqual([['llm/10.0.0.1', 'http://10.0.0.1:8000']]);
  });
});
