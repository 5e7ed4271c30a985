import fc from 'fast-check';
import { posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { classified, jobOf } from '../../support/classified.ts';

/** Servers and gateways that make something of a path; each gives the paths that its routes are looked up by. */
const readers: Readonly<Record<string, (path: string) => readonly string[]>> = {
  'decodes once': (path) => [decoded(path)],
  'decodes and tidies': (path) => [posix.normalize(decoded(path))],
  'tidies and decodes': (path) => [decoded(posix.normalize(path))],
  'tidies as browsers do': (path) => [decoded(new URL(`http://h/.${path}`).pathname)],
  'stands behind one that decodes': (path) => [posix.normalize(decoded(decoded(path))), decoded(decoded(path))],
  'stands behind one that tidies': (path) => [posix.normalize(decoded(posix.normalize(decoded(path))))],
  'drops path parameters': (path) => [posix.normalize(decoded(path).replaceAll(/;[^/]*/g, ''))],
  'takes backslashes': (path) => [posix.normalize(decoded(path).replaceAll('\\', '/'))],
};

function decoded(path: string): string {
  return path.replaceAll(/%([0-9a-f]{2})/gi, (_, byte: string) => String.fromCharCode(Number.parseInt(byte, 16)));
}

/** What is in front of it a gateway may cut off. */
const keptRoute = /\/(?:responses|conversations|chat\/completions)\/theirs(?:\/(?:cancel|input_items|items))?\/?$/;
const responsesRoute = /\/responses(?:\/compact)?\/?$/;

const separator = fc.constantFrom(
  '/',
  '/',
  '/',
  '//',
  '%2f',
  '%2F',
  '\\',
  '%5c',
  '%252f',
  '/./',
  '/x/../',
  ';a=b/',
  '/..;/',
);
const name = fc.constantFrom(
  'v1',
  'openai',
  'models',
  'responses',
  'conversations',
  'chat',
  'completions',
  'mine',
  '..',
  '.',
  '%2e%2e',
  '%252e%252e',
  '.%2e',
  'x',
  '',
);
const ends = fc.constantFrom('', '/', '/cancel', '/items', '/..', '/../..', '/x/..', '%0a', ';a', '?x=1', '#x', '%3fx');

/** A way to it, with whatever else around it and each letter perhaps encoded. */
const spelled = (ways: readonly (readonly string[])[]) =>
  fc
    .tuple(
      fc.array(name, { maxLength: 4 }),
      fc.constantFrom(...ways),
      fc.infiniteStream(separator),
      ends,
      fc.infiniteStream(fc.integer({ min: 0, max: 40 })),
    )
    .map(([before, way, between, end, dice]) => {
      const plain = [...before, ...way].map((part) => `${between.next().value}${part}`).join('') + end;
      const path = plain.replaceAll(/[a-z.]/g, (letter) => {
        const roll: unknown = dice.next().value;
        const hex = letter.charCodeAt(0).toString(16);
        return roll === 0 ? `%${hex}` : roll === 1 ? `%25${hex}` : letter;
      });
      return path.startsWith('/') ? path : `/${path}`;
    });

function readersOf(path: string, route: RegExp): string[] {
  const bare = path.split(/[?#]/, 1)[0] ?? '';
  return Object.entries(readers).flatMap(([reader, read]) =>
    read(bare).some((seen) => route.test(seen)) ? [reader] : [],
  );
}

/** All that whoever asks must have; undefined: it is refused already. */
function referred(asked: Parameters<typeof classified>[0]): readonly string[] | undefined {
  const job = classified(asked);
  return isRefusal(job) ? undefined : (job.refersTo ?? []);
}

describe('what a path may name of what backends keep', () => {
  it('is asked for by every reading: no spelling brings a server to an id that was not', () => {
    let reached = 0;
    const ways = [
      ['v1', 'responses', 'theirs'],
      ['responses', 'theirs'],
      ['v1', 'responses', 'mine', '..', 'theirs'],
      ['v1', 'models', '..', 'responses', 'theirs'],
      ['v1', 'conversations', 'theirs'],
      ['v1', 'chat', 'completions', 'theirs'],
    ];
    fc.assert(
      fc.property(spelled(ways), fc.constantFrom('GET', 'DELETE', 'POST'), (path, method) => {
        const by = readersOf(path, keptRoute);
        if (by.length === 0) return;
        reached += 1;
        const ids = referred({ line: `${method} ${path}` });
        expect(
          ids === undefined || ids.includes('theirs') || ids.includes(''),
          `${by.join()}: ${path} ${ids?.join()}`,
        ).toBe(true);
      }),
      { numRuns: 2000 },
    );
    expect(reached).toBeGreaterThan(200);
  });

  it('is asked for in the body wherever one of them is the Responses API', () => {
    let reached = 0;
    const ways = [
      ['v1', 'responses'],
      ['responses'],
      ['v1', 'responses', 'compact'],
      ['v1', 'models', '..', 'responses'],
    ];
    fc.assert(
      fc.property(spelled(ways), (path) => {
        const by = readersOf(path, responsesRoute);
        if (by.length === 0) return;
        reached += 1;
        const ids = referred({ line: `POST ${path}`, body: '{"previous_response_id":"theirs"}' });
        expect(
          ids === undefined || ids.includes('theirs') || ids.includes(''),
          `${by.join()}: ${path} ${ids?.join()}`,
        ).toBe(true);
      }),
      { numRuns: 2000 },
    );
    expect(reached).toBeGreaterThan(200);
  });

  it.each([
    ['GET /v1/responses/mine', ['mine']],
    ['GET /v1/responses/mine/', ['mine']],
    ['GET /v1/responses/m%69ne/input_items', ['mine']],
    ['GET //v1//responses//mine', ['mine']],
    ['POST /openai/v1/responses/mine/cancel', ['mine']],
    ['GET /v1/chat/completions/mine/messages', ['mine']],
  ])('is one id where all readings agree: %s', (line, ids) => {
    expect(jobOf({ line }).refersTo).toEqual(ids);
  });

  it.each([
    ['GET /v1/responses/mine/../theirs', ['mine', 'theirs', '']],
    ['GET /v1/models/../responses/theirs', ['theirs', '']],
    ['GET /v1/responses/mine%2F..%2Ftheirs', ['mine', 'theirs', '']],
    ['GET /v1/responses/mine//responses/theirs', ['mine', 'theirs']],
    ['GET /openai/v1/responses/theirs/../..', ['']],
    ['GET /v1/responses/theirs;a', ['theirs;a', 'theirs', '']],
    ['GET /v1/x%3F/responses', ['']],
  ])('is each of them, or unknown, where they differ: %s', (line, ids) => {
    expect([...(jobOf({ line }).refersTo ?? [])].toSorted()).toEqual(ids.toSorted());
  });

  it.each([
    'GET /v1/models/responses/x',
    'POST //v1/chat/completions',
    'POST /v1/./chat/completions',
    'GET /v1/files/../models',
  ])('is nothing: %s', (line) => {
    expect(jobOf({ line, body: line.startsWith('POST') ? '{"previous_response_id":"x"}' : '' })).not.toHaveProperty(
      'refersTo',
    );
  });

  it.each([
    'POST //v1/responses',
    'POST /v1/responses/',
    'POST /openai/v1/responses',
    'POST /openai/v1/responses/compact',
    'POST /v1/responses/compact/',
    'POST /v1/%252e/../v1//responses',
    'POST /v1/responses/input_tokens',
    'POST /v1/responses/render',
  ])('is in a body that is no plain one of the Responses API: %s', (line) => {
    const job = jobOf({ line, body: '{"previous_response_id":"r","conversation":{"id":"c"}}' });
    expect(job.refersTo).toEqual(expect.arrayContaining(['r', 'c']));
    // It must be the asker's own, but is nobody's leave to name no model.
    expect(job).not.toHaveProperty('stickyKey');
    expect(jobOf({ line, body: '{' }).refersTo).toContain('');
    expect(classified({ line, body: '{"conversation":"a","conversation":"b"}' })).toMatchObject({
      code: 'duplicate_key',
    });
  });

  it('is what a generation behind a prefix is steered by', () => {
    expect(jobOf({ line: 'POST /x/v1/chat/completions/control', body: '{"id":"g"}' }).refersTo).toEqual(['g']);
  });

  it('is unread where a query or a path names more than a few', () => {
    const line = (count: number) => `GET /v1/stream?${'conv_id=a&'.repeat(count)}from=0`;
    expect(jobOf({ line: line(4) }).refersTo).toEqual(['a', 'a', 'a', 'a']);
    expect(jobOf({ line: line(5) }).refersTo).toEqual(['']);
    expect(jobOf({ line: line(1600) }).refersTo).toEqual(['']);
    const path = Array.from({ length: 1000 }, (_, index) => `/responses/r${index}`).join('');
    expect(jobOf({ line: `GET /x${path}` }).refersTo).toEqual(['']);
  });
});
