/**
 * Writes what `warmlane replay` can play: a line for each generating request that was answered, in Mooncake's form, with numbers that
 * tell equal beginnings and nothing else. Off unless a file is named; a file that fails costs the trace, nothing else.
 */
import type { Job } from '../../domain/job.ts';
import { isWarmUp, type RequestRecord } from '../../domain/record.ts';
import type { AppendFile } from '../../platform/append-file.ts';
import { createKeyBlinder, type KeyBlinder } from '../../platform/key-blinder.ts';
import { blockKeysOf, type PromptFacts, promptLine } from './prompt-line.ts';

export interface PromptTrace {
  add(record: RequestRecord, job: Job | undefined): void;
  /** Writes what waits. */
  close(): Promise<void>;
}

export interface PromptTraceDeps {
  readonly file: AppendFile;
  readonly blind?: KeyBlinder;
}

/** Answers from which the bytes of a token are taken, once for the whole file. */
const firstAnswers = 16;
const usualBytesPerToken = 4;
/** Keys for blocks of which nothing is known: apart from all others. */
const unknownFrom = 2 ** 52;

export function createPromptTrace({ file, blind = createKeyBlinder() }: PromptTraceDeps): PromptTrace {
  let first: PromptFacts[] = [];
  let bytesPerToken: number | undefined;
  let unknown = unknownFrom;

  function write(facts: PromptFacts, ratio: number): void {
    const keys = blockKeysOf(facts, ratio).map((key) => key ?? -(unknown += 1));
    file.write(promptLine(facts, blind(keys)));
  }

  /** From now on blocks are cut alike. */
  function settle(): number {
    const bytes = first.reduce((sum, { chain }) => sum + chain.bytes, 0);
    const tokens = first.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
    bytesPerToken = tokens === 0 ? usualBytesPerToken : bytes / tokens;
    for (const facts of first) write(facts, bytesPerToken);
    first = [];
    return bytesPerToken;
  }

  return {
    add(record, job) {
      // Nobody sent those: a replay with them would have more traffic than there was.
      if (isWarmUp(record)) return;
      const facts = factsOf(record, { job, bytesPerToken: bytesPerToken ?? usualBytesPerToken });
      if (facts === undefined) return;
      if (bytesPerToken !== undefined) write(facts, bytesPerToken);
      else if (first.push(facts) >= firstAnswers) settle();
    },
    close() {
      if (bytesPerToken === undefined && first.length > 0) settle();
      return file.close();
    },
  };
}

/** @returns undefined for what was never computed, or is no prompt */
function factsOf(
  { tokens, timeline, outcome, startedAtEpochMs, backend, lane }: RequestRecord,
  { job, bytesPerToken }: { readonly job: Job | undefined; readonly bytesPerToken: number },
): PromptFacts | undefined {
  const chain = job?.prefix;
  if (chain === undefined || job?.generates !== true || backend === undefined) return undefined;
  if (outcome !== 'ok' && timeline.firstToken === undefined) return undefined;
  const promptTokens = tokens.prompt?.value ?? Math.ceil(chain.bytes / bytesPerToken);
  if (promptTokens < 1) return undefined;
  return { atEpochMs: startedAtEpochMs, promptTokens, outputTokens: tokens.output?.value ?? 1, chain, lane };
}
