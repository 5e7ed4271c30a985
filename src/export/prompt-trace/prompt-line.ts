/**
 * One request as a line of Mooncake's trace form: when it came, how long prompt and answer were, and one number for each 512 tokens of
 * the prompt, equal where beginnings are equal. Pure. No text, and nothing that a prompt could be guessed from.
 */
import type { Lane } from '../../domain/names.ts';
import type { PrefixChain } from '../../domain/prefix.ts';

/** Tokens of one number, as in Mooncake's traces. */
export const blockTokens = 512;

export interface PromptFacts {
  readonly atEpochMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly chain: PrefixChain;
  readonly lane: Lane;
}

/**
 * Keys for the prompt's blocks: of each block the first chunk that reaches to its end, so that prompts with an equal key are equal at
 * least so far. The same number of bytes makes a block in every prompt, or those that begin alike would not be cut alike.
 * @returns undefined for a block that no kept chunk reaches to the end of: nothing is known of it
 */
export function blockKeysOf(
  { chain, promptTokens }: Pick<PromptFacts, 'chain' | 'promptTokens'>,
  bytesPerToken: number,
): readonly (number | undefined)[] {
  const count = Math.ceil(promptTokens / blockTokens);
  const keys: (number | undefined)[] = [];
  let chunk = 0;
  for (let block = 1; block <= count; block += 1) {
    const endBytes = block === count ? chain.bytes : block * blockTokens * bytesPerToken;
    while (chunk < chain.ends.length && (chain.ends[chunk] ?? 0) < endBytes) chunk += 1;
    keys.push(chain.keys[chunk]);
  }
  return keys;
}

/** @param ids as many as blocks @returns the line; one without a lane is of online */
export function promptLine(
  { atEpochMs, promptTokens, outputTokens, lane }: PromptFacts,
  ids: readonly number[],
): string {
  const fields = {
    timestamp: Math.round(atEpochMs),
    input_length: promptTokens,
    output_length: outputTokens,
    hash_ids: ids,
    ...(lane === 'online' ? {} : { lane }),
  };
  return `${JSON.stringify(fields)}\n`;
}
