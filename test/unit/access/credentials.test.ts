import { describe, expect, it } from 'vitest';
import { shownKeys } from '../../../src/access/credentials.ts';

const shown = (headers: Readonly<Record<string, string>>) => shownKeys({ header: (name) => headers[name] });

describe('the keys that a request shows', () => {
  it.each([
    [{ authorization: 'Bearer k1' }, ['k1']],
    [{ authorization: 'bearer   k1 ' }, ['k1']],
    [{ 'x-api-key': 'k2' }, ['k2']],
    [{ 'api-key': ' k3' }, ['k3']],
    [{ authorization: 'Bearer k1', 'x-api-key': 'k2', 'api-key': 'k3' }, ['k1', 'k2', 'k3']],
    [{ authorization: 'Basic a2V5', 'x-api-key': 'k2' }, ['k2']],
    [{ authorization: 'Bearer' }, []],
    [{ authorization: 'Bearer ' }, []],
    [{ authorization: 'k1' }, []],
    [{ 'x-api-key': '' }, []],
    [{}, []],
  ])('%j → %j', (headers, keys) => {
    expect(shown(headers)).toEqual(keys);
  });

  it('are none where they are too long to be one', () => {
    const long = 'k'.repeat(5000);
    expect(shown({ authorization: `Bearer ${long}`, 'x-api-key': long, 'api-key': long })).toEqual([]);
  });
});
