/**
 * The exact-answer cache: the same request of the same tenant is answered with the very bytes of an earlier answer, before any
 * backend is asked. Bounded in bytes and in time. Knows neither fleet nor engines; the pipeline asks it once per request.
 * Equal requests that run at the same time each ask a backend, and the last answer stays: to have one wait for another would
 * tie a client's fate to a stranger's.
 */
import { LRUCache } from 'lru-cache';
import type { AnswerCacheFigures } from '../domain/answer-cache-figures.ts';
import type { Job } from '../domain/job.ts';
import { createByteBudget } from '../platform/byte-budget.ts';
import type { ClientHead, ClientPort } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import type { RequestBody } from '../platform/upstream/port.ts';
import { cacheKey } from './cache-key.ts';
import { cacheUse } from './consent.ts';
import { recordAnswer, type Recording } from './recording.ts';
import { replayAnswer } from './replay-answer.ts';
import type { AnswerCacheSettings } from './settings.ts';
import { bytesOf, type StoredAnswer } from './stored-answer.ts';

export interface AnswerCache {
  /** @returns undefined: this request has nothing to do with the cache */
  consult(asked: Asked): Consulted | undefined;
  stats(): AnswerCacheFigures;
}

export interface Asked {
  readonly head: ClientHead;
  readonly job: Job;
  readonly body: RequestBody;
  readonly client: ClientPort;
  /** What the client has left of its limits, for an earlier answer's head: raw names and values in turn. */
  readonly limits?: readonly string[] | undefined;
}

export type Consulted =
  | {
      readonly kind: 'hit';
      readonly bodyBytes: number;
      /** Gives the answer to the client, whole. */
      replay(): void;
    }
  | { readonly kind: 'miss'; readonly recording: Recording };

export interface AnswerCacheDeps {
  readonly clock: Clock;
}

export function createAnswerCache(settings: AnswerCacheSettings, deps: AnswerCacheDeps): AnswerCache {
  const { clock } = deps;
  const { header, maxAnswerBytes, maxBytes, tenantHeaders, ttlMs } = settings;
  const counts = { hits: 0, misses: 0, stored: 0, evicted: 0, replayedBytes: 0, prompt: 0, output: 0 };
  const answers = new LRUCache<string, StoredAnswer>({
    maxSize: maxBytes,
    sizeCalculation: bytesOf,
    ttl: ttlMs,
    // Its own default remembers the time for a while.
    ttlResolution: 0,
    perf: { now: () => clock.nowMs() },
    dispose: (_answer, _key, reason) => void (reason === 'evict' && (counts.evicted += 1)),
  });
  const budget = createByteBudget(maxBytes);

  function hit(answer: StoredAnswer, { client, head, limits }: Asked): Consulted {
    return {
      kind: 'hit',
      bodyBytes: answer.body.length,
      replay() {
        counts.hits += 1;
        counts.replayedBytes += answer.body.length;
        counts.prompt += answer.promptTokens ?? 0;
        counts.output += answer.outputTokens ?? 0;
        replayAnswer(client, answer, { head, header, ageMs: clock.nowMs() - answer.storedMs, limits });
      },
    };
  }

  return {
    consult(asked) {
      const { head, job, body, client } = asked;
      if (job.repeatable === undefined || body.kind !== 'held') return undefined;
      const use = cacheUse(job, { own: head.header(header), cacheControl: head.header('cache-control') });
      if (use === 'none') return undefined;
      const key = cacheKey({
        method: head.method,
        target: head.target,
        model: job.servedModel ?? job.model,
        header: (name) => everyValue(head, name),
        tenant: job.tenant,
        tenantHeaders,
        body: body.chunks,
      });
      const known = use === 'use' ? answers.get(key) : undefined;
      if (known !== undefined) return hit(known, asked);
      counts.misses += 1;
      const recording = recordAnswer(client, {
        maxAnswerBytes,
        budget,
        told: [header, 'miss'],
        nowMs: () => clock.nowMs(),
        keep(answer) {
          if (bytesOf(answer) > maxBytes) return;
          answers.set(key, answer);
          counts.stored += 1;
        },
      });
      return { kind: 'miss', recording };
    },
    stats: () => ({
      hits: counts.hits,
      misses: counts.misses,
      stored: counts.stored,
      evicted: counts.evicted,
      replayedBytes: counts.replayedBytes,
      savedPromptTokens: counts.prompt,
      savedOutputTokens: counts.output,
      entries: answers.size,
      bytes: answers.calculatedSize,
      recordingBytes: budget.taken,
    }),
  };
}

/** Of headers that may stand there once only, Node's `header` has the first; the backend gets all of them. */
function everyValue(head: ClientHead, name: string): string | undefined {
  const first = head.header(name);
  if (first === undefined) return undefined;
  const { rawHeaders } = head;
  const values: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const key = rawHeaders[i] ?? '';
    if (key.length === name.length && key.toLowerCase() === name) values.push(rawHeaders[i + 1] ?? '');
  }
  return values.length > 1 ? values.join('\n') : first;
}
