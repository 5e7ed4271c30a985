/**
 * What tells which lines begin alike: numbers for a body's prompt, each of which stands for all that comes before it, too.
 * Whoever wires batches may bring the keys that routing goes by (`classify`); without them the first KiB of the prompt's raw
 * text is compared. Sees a body's bytes as they are scanned.
 */
import type { PieceSink } from '../../platform/json-pieces.ts';
import type { JsonKind } from '../../platform/json-walk.ts';

/** For one body. */
export interface PromptRead extends PieceSink {
  /** @returns undefined where the body has no prompt */
  chain(model: string | undefined): { readonly keys: Float64Array } | undefined;
}

export interface PromptKeys {
  /** Top-level members of a body whose values `begin`'s reader is given. */
  readonly members: ReadonlySet<string>;
  /** @param path of the batch's endpoint */
  begin(path: string): PromptRead | undefined;
}

const comparedBytes = 1024;
/** Whole numbers are exact up to 53 bits. */
const bytesPerKey = 6;

/** In the order in which engines render them. */
const renderedFirst = ['tools', 'functions', 'instructions', 'messages', 'prompt', 'input'];

export const rawPromptKeys: PromptKeys = {
  members: new Set(renderedFirst),
  begin: () => new RawPrompt(),
};

/** Its keys are the text itself, not hashes of it: arrays that begin alike are texts that begin alike. */
class RawPrompt implements PromptRead {
  readonly #texts = new Map<string, Buffer[]>();
  #open: Buffer[] = [];
  #left = 0;

  memberBegin(key: string): 'whole' {
    this.#open = [];
    this.#left = comparedBytes;
    this.#texts.set(key, this.#open);
    return 'whole';
  }

  partBegin(_kind: JsonKind): void {}

  piece(bytes: Buffer, from: number, to: number): void {
    const end = Math.min(to, from + this.#left);
    if (end <= from) return;
    this.#open.push(Buffer.from(bytes.subarray(from, end)));
    this.#left -= end - from;
  }

  chain(): { readonly keys: Float64Array } | undefined {
    const pieces = renderedFirst.flatMap((key) => this.#texts.get(key) ?? []);
    if (pieces.length === 0) return undefined;
    const text = Buffer.concat(pieces).subarray(0, comparedBytes);
    const keys = new Float64Array(Math.ceil(text.length / bytesPerKey));
    for (let i = 0; i < keys.length; i += 1) {
      const at = i * bytesPerKey;
      keys[i] = text.readUIntBE(at, Math.min(bytesPerKey, text.length - at));
    }
    return { keys };
  }
}
