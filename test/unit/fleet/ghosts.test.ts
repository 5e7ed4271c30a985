import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createGhosts } from '../../../src/fleet/ghosts.ts';

it('R10 a ghost counts until the server shows no more busy slots than we hold', () => {
  const ghosts = createGhosts();
  ghosts.add(1, 10, 1000);
  ghosts.seen(2, 1, 20);
  expect(ghosts.count()).toBe(1);
  ghosts.seen(1, 1, 30);
  expect(ghosts.count()).toBe(0);
});

it('R10 a ghost of two choices shrinks with the slots that are seen busy', () => {
  const ghosts = createGhosts();
  ghosts.add(2, 10, 1000);
  ghosts.seen(1, 0, 20);
  expect(ghosts.count()).toBe(1);
});

it('slots that others hold never make more ghosts', () => {
  const ghosts = createGhosts();
  ghosts.add(1, 10, 1000);
  ghosts.seen(8, 0, 20);
  expect(ghosts.count()).toBe(1);
});

it('what was asked before a ghost came says nothing about it', () => {
  const ghosts = createGhosts();
  ghosts.add(1, 10, 1000);
  ghosts.seen(0, 0, 5);
  ghosts.seen(0, 0, 10);
  expect(ghosts.count()).toBe(1);
});

it('a slot that was seen busy may be that of a ghost which came while the answer was under way', () => {
  const ghosts = createGhosts();
  ghosts.add(1, 10, 1000);
  ghosts.add(1, 30, 1000);
  ghosts.seen(1, 0, 20);
  expect(ghosts.count()).toBe(1);
});

it('R10 a request sent since, which got a slot, shows that one is free', () => {
  const ghosts = createGhosts();
  ghosts.add(1, 10, 1000);
  ghosts.answered(5, 1);
  expect(ghosts.count(), 'sent before').toBe(1);
  ghosts.answered(20, 2);
  expect(ghosts.count(), 'the other slot was free').toBe(1);
  ghosts.answered(20, 1);
  expect(ghosts.count()).toBe(0);
});

it('a ghost ends at its time, whatever is seen', () => {
  const ghosts = createGhosts();
  ghosts.add(1, 10, 1000);
  ghosts.add(1, 500, 1000);
  expect(ghosts.nextEndMs()).toBe(1010);
  ghosts.expire(1009);
  expect(ghosts.count()).toBe(2);
  ghosts.expire(1010);
  expect(ghosts.count()).toBe(1);
  expect(ghosts.nextEndMs()).toBe(1500);
});

it('there is a bound, and no slots are no ghost', () => {
  const ghosts = createGhosts();
  ghosts.add(0, 1, 10);
  expect(ghosts.nextEndMs()).toBeUndefined();
  for (let i = 0; i < 3000; i += 1) ghosts.add(1, i, 10_000);
  expect(ghosts.count()).toBe(1024);
});

it('only an add makes more ghosts, there are never fewer than none, and a look at an idle server ends all', () => {
  const step = fc.record({
    kind: fc.constantFrom('add', 'seen', 'answered', 'expire'),
    slots: fc.integer({ min: 1, max: 4 }),
    busy: fc.nat(8),
    own: fc.nat(8),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
      const ghosts = createGhosts();
      steps.forEach(({ kind, slots, busy, own }, nowMs) => {
        const before = ghosts.count();
        if (kind === 'add') ghosts.add(slots, nowMs, 20);
        if (kind === 'seen') ghosts.seen(busy, own, nowMs);
        if (kind === 'answered') ghosts.answered(nowMs, slots);
        if (kind === 'expire') ghosts.expire(nowMs);
        expect(ghosts.count()).toBeGreaterThanOrEqual(0);
        if (kind === 'add') expect(ghosts.count()).toBe(before + slots);
        else expect(ghosts.count()).toBeLessThanOrEqual(before);
      });
      ghosts.seen(0, 0, steps.length);
      expect(ghosts.count()).toBe(0);
    }),
  );
});
