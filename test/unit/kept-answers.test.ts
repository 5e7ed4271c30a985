import { describe, expect, it } from 'vitest';
import type { Job } from '../../src/domain/job.ts';
import { isRefusal } from '../../src/domain/refusal.ts';
import { createKeptAnswers, type UnderWay } from '../../src/kept-answers.ts';
import { createSticky } from '../../src/route/sticky.ts';
import { jobOf } from '../support/classified.ts';

const running = (id: string, tenant: string): UnderWay => ({
  job: { ...jobOf({}), tenant },
  backend: 'one',
  observer: { responseId: id },
});

describe('whose it is what is under way', () => {
  it('is looked up among one copy of all requests, however many ids are asked for', () => {
    let copies = 0;
    const kept = createKeptAnswers(createSticky(), () => {
      copies += 1;
      return [running('a', 'anna'), running('b', 'bert')];
    });
    const check = (ids: readonly string[]) => {
      const job: Job = { ...jobOf({ line: 'GET /v1/stream' }), tenant: 'anna', refersTo: ids };
      return kept.check({ header: () => 'also-unknown' }, job, 'own_or_unknown');
    };
    expect(check(['x', 'a', 'y', 'z'])).toBeUndefined();
    expect(copies).toBe(1);
    const found = check(['x', 'a', 'b']);
    expect(typeof found === 'object' && isRefusal(found)).toBe(true);
    expect(copies).toBe(2);
  });
});
