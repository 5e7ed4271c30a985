/**
 * The prompts of the cache experiment: a nonce, then words; so long that they have the wanted tokens by the server's own
 * count. Says also how many leading tokens two of them share, exactly where the server tells its tokens. Tokenising is
 * its only effect.
 */
import { isObject } from '../../../measure/dialect/facts.ts';
import type { Asker } from '../asker.ts';
import type { Message } from '../chat-body.ts';
import { fillerWords } from '../words.ts';
import { jsonIn } from '../wire.ts';

export interface Prompt {
  readonly nonce: string;
  /** Words behind the nonce. */
  readonly words: number;
  readonly messages: readonly Message[];
  readonly tools?: readonly object[];
}

export interface PromptMaker {
  /** About `tokens` long. */
  fresh(tokens: number): Prompt;
  /** As `base` for about `tokens` tokens, then other words. */
  branch(base: Prompt, tokens: number): Prompt;
  /** As `base` for exactly so many tokens, by the server's own count; undefined where it can't be had. */
  branchAt(base: Prompt, tokens: number): Promise<Prompt | undefined>;
  /** As `base` but for its first word. */
  changedFirst(base: Prompt): Prompt;
  /** Corrects tokens per word by a request's own count. */
  learn(prompt: Prompt, promptTokens: number | undefined): void;
  /** How many leading tokens a prompt has in common with another. */
  shared(prompt: Prompt, other: Prompt): Promise<{ readonly tokens: number; readonly exact: boolean }>;
  /** The system role is not taken by every template. */
  useUserRole(): void;
}

/** Of the template, the nonce and the closing words; corrected by the first answers. */
const usualOverhead = 24;
const question = 'Go on.';
const tailWords = 12;
/** Words are one token each, or nearly: a few corrections meet the mark or none does. */
const mostTries = 6;

export function createPromptMaker(asker: Asker): PromptMaker {
  let role: 'system' | 'user' = 'system';
  let overhead = usualOverhead;
  let perWord = 1;
  const samples: { words: number; tokens: number }[] = [];

  const make = (nonce: string, text: string, words: number): Prompt => ({
    nonce,
    words,
    messages:
      role === 'system'
        ? [
            { role, content: `${nonce} ${text}` },
            { role: 'user', content: question },
          ]
        : [{ role, content: `${nonce} ${text}\n${question}` }],
  });
  const wordsFor = (tokens: number) => Math.max(4, Math.round((tokens - overhead) / perWord));

  const branch = (base: Prompt, words: number): Prompt => {
    // What stands behind the words belongs to the part that differs.
    const kept = Math.min(base.words, Math.max(1, words));
    const other = asker.nonce();
    return make(base.nonce, `${fillerWords(base.nonce, kept)} ${other} ${fillerWords(other, tailWords)}`, kept);
  };
  async function shared(prompt: Prompt, other: Prompt) {
    const [ids, others] = await Promise.all([tokensOf(asker, prompt), tokensOf(asker, other)]);
    if (ids !== undefined && others !== undefined) {
      let tokens = 0;
      while (tokens < ids.length && ids[tokens] === others[tokens]) tokens += 1;
      return { tokens, exact: true };
    }
    const words = prompt.nonce === other.nonce ? Math.min(prompt.words, other.words) : 0;
    return { tokens: Math.round(words * perWord + (words === 0 ? 0 : overhead / 2)), exact: false };
  }

  return {
    fresh(tokens) {
      const nonce = asker.nonce();
      const words = wordsFor(tokens);
      return make(nonce, fillerWords(nonce, words), words);
    },
    branch: (base, tokens) => branch(base, wordsFor(tokens)),
    async branchAt(base, tokens) {
      let words = wordsFor(tokens);
      for (let tries = 0; tries < mostTries; tries += 1) {
        const prompt = branch(base, words);
        const found = await shared(prompt, base);
        if (!found.exact) return undefined;
        if (found.tokens === tokens) return prompt;
        words += tokens - found.tokens;
      }
      return undefined;
    },
    changedFirst(base) {
      return make(asker.nonce(), fillerWords(base.nonce, base.words), base.words);
    },
    learn({ words }, promptTokens) {
      if (promptTokens === undefined) return;
      samples.push({ words, tokens: promptTokens });
      const [least] = samples.toSorted((a, b) => a.words - b.words);
      const most = samples.reduce((longest, sample) => (sample.words > longest.words ? sample : longest));
      if (least === undefined || most.words - least.words < 16) return;
      perWord = (most.tokens - least.tokens) / (most.words - least.words);
      overhead = least.tokens - least.words * perWord;
    },
    shared,
    useUserRole() {
      role = 'user';
    },
  };
}

/** The prompt's tokens as the server itself makes them; undefined where it doesn't say. */
async function tokensOf(asker: Asker, { messages, tools }: Prompt): Promise<readonly unknown[] | undefined> {
  const { facts } = asker.endpoint;
  const more = tools === undefined ? {} : { tools };
  if (facts?.engine === 'vllm') {
    const body = { model: asker.model, messages, add_generation_prompt: true, ...more };
    return listAt(await post(asker, '/tokenize', body), 'tokens');
  }
  if (facts?.engine !== 'llama-server') return undefined;
  const applied = await post(asker, '/apply-template', { messages, ...more });
  const content = isObject(applied) ? applied['prompt'] : undefined;
  if (typeof content !== 'string') return undefined;
  return listAt(await post(asker, '/tokenize', { content, add_special: true, parse_special: true }), 'tokens');
}

async function post(asker: Asker, path: string, body: object): Promise<unknown> {
  const seen = await asker.plain({ path, body });
  return seen.status === 200 ? jsonIn(seen.body) : undefined;
}

function listAt(json: unknown, key: string): readonly unknown[] | undefined {
  const value = isObject(json) ? json[key] : undefined;
  return Array.isArray(value) ? value : undefined;
}
