/**
 * What a body says of its hurry: OpenAI's `service_tier`. `flex` is slower and cheaper there, and the batch lane here; `batch` is
 * Anthropic's word for it in answers. It goes on to the backend as it is. Pure.
 */
import type { Lane } from '../domain/names.ts';
import type { JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';

/** Anything else, `priority` too, raises nothing: what a key may have is no matter of the body. */
export function readServiceTier(scan: JsonScanResult | undefined): Lane {
  const tier = scan?.fields.get('service_tier');
  if (tier === undefined) return 'online';
  const named = readJsonString(tier);
  return named === 'flex' || named === 'batch' ? 'batch' : 'online';
}
