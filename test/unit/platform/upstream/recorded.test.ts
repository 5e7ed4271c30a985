import { describe, expect, it } from 'vitest';
import { listRecorded, loadRecorded } from '../../../support/recorded.ts';
import { readResponse } from './read-response.ts';

describe('what real servers sent', () => {
  it.each(listRecorded().map(({ server, name }) => [`${server}/${name}`, server, name] as const))(
    '%s reads to the same bytes: whole, as it came, and byte by byte',
    (_, server, name) => {
      const recorded = loadRecorded(server, name);
      const { raw } = recorded;
      let at = 0;
      const asItCame = recorded.meta.reads.map(([, bytes]) => (at += bytes));
      const byteByByte = Array.from({ length: Math.min(raw.length, 20_000) }, (__, i) => i);
      for (const cuts of [[], asItCame, byteByByte]) {
        const result = readResponse(raw, { method: recorded.request.method, cuts, fin: true });
        expect(result.problem).toBe('');
        expect(result.head?.status).toBe(recorded.status);
        expect(result.body.equals(recorded.body)).toBe(true);
        if (recorded.meta.end === 'complete') expect(result).toMatchObject({ outcome: 'ended', taken: raw.length });
      }
    },
  );
});
