/**
 * The answers of simulated servers: endless plain sentences that say they are simulated, seeded, cut into tokens of the toy
 * tokeniser. The same seed gives the same text on every machine.
 */
import { createSeededRandom, pick, wholeBetween } from './seeded-random.ts';
import { pieceId, splitPieces } from './tokenizer.ts';

export interface CannedAnswer {
  /** Text of token `index`; there is always a next one. */
  pieceAt(index: number): string;
  idAt(index: number): number;
  /** Tokens up to the end of a sentence after which this answer would end by itself. */
  readonly naturalTokens: number;
}

export interface AnswerLength {
  /** Sentences of an answer that ends by itself, the first two included. */
  readonly minSentences: number;
  readonly maxSentences: number;
}

interface Fragment {
  readonly pieces: readonly string[];
  readonly ids: readonly number[];
}

const opening = ['This answer is simulated.', ' No model has read the question.'].map(cut);
const subjects = [
  'The queue',
  'A prompt',
  'The proxy',
  'One token',
  'A warm cache',
  'The slow step',
  'This stream',
  'A busy server',
];
const verbs = ['waits for', 'follows', 'counts', 'carries', 'remembers', 'measures', 'leaves', 'meets'];
const objects = [
  'the next step',
  'a short prefix',
  'each reader',
  'the last block',
  'a quiet moment',
  'the first byte',
  'its turn',
  'an old answer',
];
const ends = ['.', ' once more.', ' in good time.', ', as planned.', ', then rests.'];

const [subjectParts, verbParts, objectParts, endParts] = [
  subjects.map((text) => cut(` ${text}`)),
  verbs.map((text) => cut(` ${text}`)),
  objects.map((text) => cut(` ${text}`)),
  ends.map(cut),
];

export function createCannedAnswer(seed: number, length: AnswerLength): CannedAnswer {
  const random = createSeededRandom(seed);
  const pieces: string[] = [];
  const ids: number[] = [];
  const append = (fragment: Fragment) => {
    pieces.push(...fragment.pieces);
    ids.push(...fragment.ids);
  };
  const appendSentence = () => {
    append(pick(random, subjectParts));
    append(pick(random, verbParts));
    append(pick(random, objectParts));
    append(pick(random, endParts));
  };
  const sentences = wholeBetween(random, length.minSentences, length.maxSentences);
  for (const fragment of opening.slice(0, sentences)) append(fragment);
  for (let count = opening.length; count < sentences; count += 1) appendSentence();
  const naturalTokens = pieces.length;
  const upTo = (index: number) => {
    while (pieces.length <= index) appendSentence();
  };
  return {
    naturalTokens,
    pieceAt(index) {
      upTo(index);
      return pieces[index] ?? '';
    },
    idAt(index) {
      upTo(index);
      return ids[index] ?? 0;
    },
  };
}

function cut(text: string): Fragment {
  const pieces = splitPieces(text);
  return { pieces, ids: pieces.map(pieceId) };
}
