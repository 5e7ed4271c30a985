import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRoster, maxBackends, type Named } from '../../../../src/fleet/sources/roster.ts';

const at = (name: string, url = `http://${name}`): Named<string> => ({ settings: { name, url } });
const names = (roster: { list(): readonly Named<string>[] }) => roster.list().map(({ settings }) => settings.name);

describe('the roster', () => {
  it('joins its sources in a fixed order, each URL once, and says where each was named', () => {
    const roster = createRoster<string>();
    roster.put('dns', 'd', [at('d/1', 'http://1'), at('d/2', 'http://2')]);
    roster.put('config', '', [at('a'), at('one', 'http://1')]);
    roster.put('file', 'f', [at('f'), at('b', 'http://a')]);
    expect(roster.list().map(({ settings }) => [settings.name, settings.source])).toEqual([
      ['a', 'config'],
      ['one', 'config'],
      ['f', 'file'],
      ['d/2', 'dns'],
    ]);
    expect(roster.leftOut()).toEqual([
      { name: 'b', url: 'http://a', source: 'file', why: 'same_url' },
      { name: 'd/1', url: 'http://1', source: 'dns', why: 'same_url' },
    ]);
  });

  it('leaves a name to the first that has it, and takes the second in when the first is gone', () => {
    const roster = createRoster<string>();
    roster.put('config', '', [at('a', 'http://x')]);
    roster.put('file', 'f', [at('a', 'http://y')]);
    expect(roster.leftOut()).toEqual([{ name: 'a', url: 'http://y', source: 'file', why: 'name_taken' }]);
    roster.put('config', '', []);
    expect(roster.list()[0]?.settings).toMatchObject({ name: 'a', url: 'http://y', source: 'file' });
  });

  it('takes in by API what is not there, and refuses a name or URL that is', () => {
    const roster = createRoster<string>();
    roster.put('config', '', [at('a')]);
    expect(roster.add(at('b'))).toBeUndefined();
    expect(roster.add(at('c', 'http://a'))).toEqual({ kind: 'url_taken', name: 'a' });
    expect(roster.add(at('a', 'http://c'))).toEqual({ kind: 'name_taken', name: 'a', url: 'http://a' });
    expect(roster.list()[1]?.settings).toEqual({ name: 'b', url: 'http://b', source: 'api', drain: false });
  });

  it('keeps out what the API took out for as long as its source names it, unless it is added again', () => {
    const roster = createRoster<string>();
    roster.put('config', '', [at('a'), at('b')]);
    expect(roster.remove('nobody')).toEqual({ kind: 'unknown_name' });
    roster.remove('a');
    roster.put('config', '', [at('a'), at('b')]);
    expect(names(roster)).toEqual(['b']);
    roster.put('config', '', [at('b')]);
    roster.put('config', '', [at('a'), at('b')]);
    expect(names(roster)).toEqual(['a', 'b']);
    roster.remove('a');
    expect(roster.add(at('a'))).toBeUndefined();
    expect(names(roster)).toEqual(['a', 'b']);
  });

  it('takes back what the API took out as its source names it, whatever the API calls it', () => {
    const roster = createRoster<string>();
    roster.put('config', '', [at('b', 'http://x'), at('c')]);
    roster.remove('b');
    expect(roster.add(at('x:80', 'http://x'))).toBeUndefined();
    expect(roster.list()[0]?.settings).toMatchObject({ name: 'b', source: 'config' });
    expect(roster.leftOut()).toEqual([]);
    roster.remove('b');
    expect(names(roster)).toEqual(['c']);
    // Its name went to another one meanwhile.
    roster.add(at('b', 'http://y'));
    expect(roster.add(at('x:80', 'http://x'))).toEqual({ kind: 'name_taken', name: 'b', url: 'http://y' });
    roster.put('config', '', [at('c')]);
    expect(roster.add(at('x:80', 'http://x'))).toBeUndefined();
    expect(names(roster)).toEqual(['c', 'b', 'x:80']);
  });

  it('what the API says of draining beats the source until the restart', () => {
    const roster = createRoster<string>();
    const drained = { settings: { name: 'a', url: 'http://a', drain: true } };
    roster.put('config', '', [drained, at('b')]);
    const drains = () => roster.list().map(({ settings }) => settings.drain);
    expect(drains()).toEqual([true, false]);
    roster.drain('a', false);
    roster.drain('b', true);
    roster.put('config', '', [drained, at('b')]);
    expect(drains()).toEqual([false, true]);
    // A name that DNS lost for a moment comes back as it was.
    roster.put('config', '', [drained]);
    roster.put('config', '', [drained, at('b')]);
    expect(drains()).toEqual([false, true]);
    expect(roster.drain('nobody', true)).toEqual({ kind: 'unknown_name' });
  });

  it('has room for so many', () => {
    const roster = createRoster<string>();
    roster.put(
      'file',
      'f',
      Array.from({ length: maxBackends + 1 }, (_, i) => at(`n${i}`)),
    );
    expect(roster.list()).toHaveLength(maxBackends);
    expect(roster.leftOut()).toMatchObject([{ name: `n${maxBackends}`, why: 'full' }]);
    expect(roster.add(at('more'))).toEqual({ kind: 'full', most: maxBackends });
  });

  it('never has a name or a URL twice, whatever is named, added and taken out', () => {
    const place = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd'), url: fc.constantFrom('u1', 'u2', 'u3') });
    const step = fc.oneof(
      fc.record({
        do: fc.constant('put' as const),
        source: fc.constantFrom('config' as const, 'file' as const, 'dns' as const),
        list: fc.array(place, { maxLength: 4 }),
      }),
      fc.record({ do: fc.constant('add' as const), one: place }),
      fc.record({ do: fc.constant('remove' as const), name: fc.constantFrom('a', 'b', 'c', 'd') }),
      fc.record({ do: fc.constant('drain' as const), name: fc.constantFrom('a', 'b'), drain: fc.boolean() }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const roster = createRoster<string>();
        for (const one of steps) {
          if (one.do === 'put')
            roster.put(
              one.source,
              'k',
              one.list.map((settings) => ({ settings })),
            );
          else if (one.do === 'add') {
            const before = names(roster).length;
            const refused = roster.add({ settings: one.one });
            if (refused === undefined && names(roster).length !== before + 1) return false;
          } else if (one.do === 'remove') {
            roster.remove(one.name);
            if (names(roster).includes(one.name)) return false;
          } else roster.drain(one.name, one.drain);
          const list = roster.list();
          if (new Set(list.map(({ settings }) => settings.name)).size !== list.length) return false;
          if (new Set(list.map(({ settings }) => settings.url)).size !== list.length) return false;
        }
        return true;
      }),
    );
  });
});
