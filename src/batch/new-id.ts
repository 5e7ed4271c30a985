/** Ids of files and batches, as long and of the same letters as OpenAI's: 24 of 62 are 142 bits, never to be guessed. */
import { randomBytes } from 'node:crypto';

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const idLetters = 24;
/** The largest multiple of 62 in a byte: what lies above would favour some letters. */
const evenBelow = 248;

export function newFileId(): string {
  return `file-${randomLetters()}`;
}

export function newBatchId(): string {
  return `batch_${randomLetters()}`;
}

function randomLetters(): string {
  let text = '';
  while (text.length < idLetters) {
    for (const byte of randomBytes(idLetters * 2)) {
      if (byte < evenBelow && text.length < idLetters) text += letters[byte % letters.length] ?? '';
    }
  }
  return text;
}
