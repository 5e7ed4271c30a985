/**
 * Goes through a whole input file and says what is wrong with it, each fault with its line, or which requests it holds and in
 * which order they are best sent. Bounded: of a file's text one line is held at a time, of its faults the first hundred.
 * The event loop turns in between. Decides nothing about the batch.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { BatchEndpoint, BatchError } from '../batch.ts';
import type { Clock } from '../../platform/clock.ts';
import { runInTurns, sliceMs } from '../../platform/turns.ts';
import { createLineTable, type FoundLines } from './found-lines.ts';
import { createLineReader, type ReadLine } from './input-line.ts';
import { createLineOrder } from './line-order.ts';
import { createLineSplitter, type InputLine } from './line-splitter.ts';
import { type PromptKeys, rawPromptKeys } from './prompt-keys.ts';

export interface ValidationSettings {
  readonly endpoint: BatchEndpoint;
  readonly maxLines: number;
  readonly maxFileBytes: number;
  readonly maxLineBytes: number;
}

export type Validation =
  | {
      readonly ok: true;
      readonly lines: FoundLines;
      /** undefined: no line names one */
      readonly model: string | undefined;
    }
  | { readonly ok: false; readonly errors: readonly BatchError[] };

/** Of one file; behind them stands how many more there are. */
export const maxErrors = 100;

/**
 * @param input the file's bytes; read up to its end, or until no more than that is worth knowing
 * @param deps `prompts`: what tells which lines begin alike; unless given the first KiB of their text
 * @throws what the input throws, and what `signal` is aborted with
 */
export async function validate(
  input: AsyncIterable<Uint8Array>,
  settings: ValidationSettings,
  deps: { readonly clock: Pick<Clock, 'nowMs'>; readonly prompts?: PromptKeys; readonly signal?: AbortSignal },
): Promise<Validation> {
  const found = new Findings(settings);
  const splitter = createLineSplitter(settings.maxLineBytes);
  const read = createLineReader({ endpoint: settings.endpoint, prompts: deps.prompts ?? rawPromptKeys });
  let beganMs = deps.clock.nowMs();
  const pause = async () => {
    deps.signal?.throwIfAborted();
    if (deps.clock.nowMs() - beganMs < sliceMs) return;
    await turn();
    beganMs = deps.clock.nowMs();
  };
  const take = async (lines: Iterable<InputLine>): Promise<void> => {
    for (const line of lines) {
      found.count();
      if (line.text === undefined) found.broken(line);
      else {
        const steps = read(line.text);
        let step = steps.next();
        for (; step.done !== true; step = steps.next()) await pause();
        found.add(line, step.value);
      }
      if (found.isOver) return;
      await pause();
    }
  };
  for await (const chunk of input) {
    await take(splitter.push(chunk));
    if (splitter.bytes > settings.maxFileBytes) return found.fileTooLarge(splitter.bytes);
    if (found.isOver) return found.tooManyLines();
    await pause();
  }
  await take(splitter.end());
  if (found.isOver) return found.tooManyLines();
  return found.result(deps.clock);
}

/** What is known so far. */
class Findings {
  readonly #settings: ValidationSettings;
  readonly #lines = createLineTable();
  readonly #errors: BatchError[] = [];
  #moreErrors = 0;
  #count = 0;
  #model: { readonly name: string | undefined; readonly line: number } | undefined;
  readonly #order = createLineOrder();

  constructor(settings: ValidationSettings) {
    this.#settings = settings;
  }

  /** There are more lines than may be. */
  get isOver(): boolean {
    return this.#count > this.#settings.maxLines;
  }

  count(): void {
    this.#count += 1;
  }

  broken({ line, bytes, fault }: InputLine): void {
    this.#fault(
      fault === 'too_long'
        ? {
            code: 'line_too_large',
            message: `This line has ${bytes} bytes; the limit is ${this.#settings.maxLineBytes} (batch.maxLineBytes).`,
            line,
          }
        : {
            code: 'invalid_encoding',
            message: fault === 'utf16' ? 'The file is UTF-16; it must be UTF-8.' : 'This line is not valid UTF-8.',
            line,
          },
    );
  }

  add({ line, at, bytes }: InputLine, read: ReadLine | readonly BatchError[]): void {
    if (isErrors(read)) {
      for (const error of read) this.#fault({ ...error, line });
      return;
    }
    const { customId, model, keys } = read;
    const earlier = this.#lines.add({ line, customId, at, bytes });
    if (earlier !== undefined) {
      const message = `This \`custom_id\` stands in line ${earlier}, too; each must be the only one of its name in the file.`;
      this.#fault({ code: 'duplicate_custom_id', message, param: 'custom_id', line });
      return;
    }
    this.#model ??= { name: model, line };
    if (this.#model.name !== model) {
      const message = `All requests of a batch must name the same model; line ${this.#model.line} ${said(this.#model.name)}, this one ${said(model)}.`;
      this.#fault({ code: 'mismatched_model', message, param: 'body.model', line });
      return;
    }
    if (this.#errors.length === 0) this.#order.add(keys);
  }

  fileTooLarge(bytes: number): Validation {
    const { maxFileBytes } = this.#settings;
    const message = `The file has more than ${bytes - 1} bytes; the limit is ${maxFileBytes} (batch.maxFileBytes).`;
    this.#fault({ code: 'file_too_large', message });
    return this.#failed();
  }

  tooManyLines(): Validation {
    const message = `The file has more than ${this.#settings.maxLines} requests (batch.maxLines).`;
    this.#fault({ code: 'too_many_lines', message });
    return this.#failed();
  }

  async result(clock: Pick<Clock, 'nowMs'>): Promise<Validation> {
    if (this.#count === 0) this.#fault({ code: 'empty_file', message: 'The file has no requests.' });
    if (this.#errors.length > 0) return this.#failed();
    await runInTurns(this.#order.rank(), clock);
    this.#lines.ranks = this.#order.ranks;
    return { ok: true, lines: this.#lines, model: this.#model?.name };
  }

  #fault(error: BatchError): void {
    if (this.#errors.length < maxErrors) this.#errors.push(error);
    else this.#moreErrors += 1;
  }

  #failed(): Validation {
    if (this.#moreErrors === 0) return { ok: false, errors: this.#errors };
    const message = `There are ${this.#moreErrors} more errors; those above are the first.`;
    return { ok: false, errors: [...this.#errors, { code: 'more_errors', message }] };
  }
}

function isErrors(read: ReadLine | readonly BatchError[]): read is readonly BatchError[] {
  return Array.isArray(read);
}

function said(model: string | undefined): string {
  return model === undefined ? 'names none' : `names ${JSON.stringify(model)}`;
}
