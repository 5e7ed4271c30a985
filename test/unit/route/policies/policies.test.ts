import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { policyNames } from '../../../../src/domain/routing.ts';
import { createPolicy } from '../../../../src/route/policies/policies.ts';
import type { Candidate, RouteJob } from '../../../../src/route/policy.ts';
import { costDefaults } from '../../../../src/route/settings.ts';
import { namesOf, sampleCandidate } from '../../../support/candidates.ts';

const number = (max: number) => fc.double({ min: 0, max, noNaN: true });

const candidates: fc.Arbitrary<Candidate[]> = fc
  .array(
    fc.record({
      slots: fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined }),
      busy: fc.nat(8),
      ghosts: fc.nat(2),
      jobs: fc.nat(50),
      lastUsed: fc.nat(1000),
      pendingTokens: fc.nat(100_000),
      decoding: fc.nat(50),
      contextTokens: fc.nat(500_000),
      heldTokens: fc.nat(20_000),
      indexTokens: fc.nat(1_000_000),
      weight: fc.double({ min: 0.05, max: 10, noNaN: true }),
      rate: fc.double({ min: 10, max: 100_000, noNaN: true }),
      aheadJobs: fc.nat(3),
    }),
    { minLength: 1, maxLength: 12 },
  )
  .map((drawn) =>
    drawn.map(({ slots, busy, ghosts, rate, ...rest }, index) =>
      sampleCandidate(`backend-${index}`, {
        ...rest,
        slots: busy,
        view: slots === undefined ? {} : { slots, ghostSlots: ghosts },
        speed: {
          prefillTokensPerSecond: rate,
          decodeBaseMs: 10,
          decodePerStreamMs: 0.1,
          decodePerContextTokenMs: 0.0001,
        },
      }),
    ),
  );

const jobs: fc.Arbitrary<RouteJob> = fc
  .record({
    promptTokens: fc.nat(100_000),
    outputTokens: fc.integer({ min: 1, max: 4000 }),
    choices: fc.integer({ min: 1, max: 4 }),
    prefixKey: fc.oneof(fc.constant(0), fc.maxSafeNat()),
    session: fc.option(fc.nat(2 ** 32 - 1), { nil: undefined }),
    home: fc.nat(11),
    waitedSeconds: number(100),
  })
  .map(({ session, home, ...rest }) => ({
    ...rest,
    generates: true,
    ...(session === undefined ? {} : { sessionKey: session, sessionHome: `backend-${home}` }),
  }));

/** `session` names the one home; `warm` leaves out who is not worth going to while a better one is merely full. */
const leavesOut = new Set(['session', 'warm']);

describe.each(policyNames)('every policy: %s', (name) => {
  it('gives each backend at most once, at least one, and all unless it is its rule to leave some out', () => {
    const policy = createPolicy(name, costDefaults);
    fc.assert(
      fc.property(jobs, candidates, (job, from) => {
        const names = namesOf(policy(job, from));
        expect(names.length).toBeGreaterThan(0);
        expect(new Set(names).size).toBe(names.length);
        const known = new Set(from.map(({ backend }) => backend.name));
        expect(names.every((one) => known.has(one))).toBe(true);
        if (!leavesOut.has(name)) expect(names).toHaveLength(from.length);
        if (name === 'warm' && names.length < from.length) {
          // All that are kept are full: the job waits for one of them.
          const hasRoom = ({ backend, slots, aheadJobs = 0 }: Candidate) =>
            backend.slots === undefined ||
            slots + backend.ghostSlots + Math.min(job.choices, backend.slots) + aheadJobs <= backend.slots;
          expect(from.filter(({ backend }) => names.includes(backend.name)).some(hasRoom)).toBe(false);
        }
      }),
    );
  });

  it('says the same again for the same, and changes nothing that it is given', () => {
    fc.assert(
      fc.property(jobs, candidates, (job, from) => {
        const before = structuredClone({ job, from });
        const once = createPolicy(name, costDefaults)(job, from);
        expect(createPolicy(name, costDefaults)(job, from)).toEqual(once);
        expect({ job, from }).toEqual(before);
      }),
      { numRuns: 30 },
    );
  });

  it('does not depend on the order in which the backends stand, but for equals', () => {
    fc.assert(
      fc.property(jobs, candidates, (job, from) => {
        const apart = from.map((one, index) => ({ ...one, lastUsed: index * 1000 + (one.lastUsed % 1000) }));
        const policy = createPolicy(name, costDefaults);
        expect(namesOf(policy(job, apart.toReversed()))[0]).toBe(namesOf(policy(job, apart))[0]);
      }),
      { numRuns: 50 },
    );
  });

  it('gives a backend of more weight more jobs', () => {
    const policy = createPolicy(name, costDefaults);
    const given = new Map([
      ['a', 0],
      ['b', 0],
    ]);
    const last = new Map<string, number>();
    const running: string[] = [];
    for (let key = 1; key <= 600; key += 1) {
      const from = [...given.keys()].map((one) => {
        const jobsThere = running.filter((other) => other === one).length;
        return sampleCandidate(one, {
          jobs: jobsThere,
          decoding: jobsThere,
          pendingTokens: jobsThere * 500,
          indexTokens: jobsThere * 500,
          lastUsed: last.get(one) ?? 0,
          weight: one === 'a' ? 3 : 1,
          view: { weight: one === 'a' ? 3 : 1 },
        });
      });
      const [first = ''] = namesOf(
        policy(
          { promptTokens: 500, outputTokens: 100, choices: 1, generates: true, prefixKey: key * 104_729_003 },
          from,
        ),
      );
      given.set(first, (given.get(first) ?? 0) + 1);
      last.set(first, key);
      running.push(first);
      if (running.length > 40) running.shift();
    }
    const share = (given.get('a') ?? 0) / 600;
    expect(share).toBeGreaterThan(0.6);
    expect(share).toBeLessThan(0.9);
  });
});
