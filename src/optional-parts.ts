/** Parts that are loaded only where the configuration asks for them, so that nobody else waits for them or holds them in memory. */
import type { Batches, BatchesDeps } from './batches.ts';
import type { AnswerCache } from './cache/answer-cache.ts';
import type { PromptReader } from './classify/prefix-scan.ts';
import type { Config } from './config/config.ts';
import type { Clock } from './platform/clock.ts';
import type { Fingerprint } from './platform/fingerprint.ts';
import { createH1Client } from './platform/upstream/h1-client.ts';
import type { UpstreamClient } from './platform/upstream/port.ts';
import { upstreamDefaults } from './platform/upstream/settings.ts';
import type { Xxhash } from './platform/xxhash.ts';

/** @throws StoreError when the storage of batches can't be opened */
export async function openBatches(
  { batch }: Config,
  { reader, ...deps }: Omit<BatchesDeps, 'prompts'> & { readonly reader: PromptReader },
): Promise<Batches | undefined> {
  if (batch.store === undefined) return undefined;
  const [batches, { promptKeys }] = await Promise.all([import('./batches.ts'), import('./batch-feed.ts')]);
  return batches.openBatches(batch, batch.store, { ...deps, prompts: promptKeys(reader) });
}

export async function openAnswerCache({ answerCache }: Config, clock: Clock): Promise<AnswerCache | undefined> {
  if (!answerCache.enabled) return undefined;
  const { createAnswerCache } = await import('./cache/answer-cache.ts');
  return createAnswerCache(answerCache, { clock });
}

/** For finding repeated requests. */
export async function openFingerprint({ slo }: Config, hash: Xxhash): Promise<Fingerprint | undefined> {
  if (!slo.checks.retries) return undefined;
  const { createFingerprint } = await import('./platform/fingerprint.ts');
  return createFingerprint(hash);
}

/** undici is the larger part of what a start would load. */
export async function openUpstream({ upstreamClient }: Config, clock: Clock): Promise<UpstreamClient> {
  if (upstreamClient === 'h1') return createH1Client(upstreamDefaults, { clock });
  const { createUndiciClient } = await import('./platform/upstream/undici-client.ts');
  return createUndiciClient();
}
