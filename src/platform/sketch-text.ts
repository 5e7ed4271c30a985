/**
 * A sketch as one short word for a log line, and back. Joined again, such words give the distribution of all their
 * values. The word holds no blank, quote, comma, equals sign or backslash, so that neither log format needs to quote it.
 *
 * Form: `scale/first/zeros/sum/min/max/cells`. The first six are numbers in base 36: bucket scale and index of the first
 * bucket as they are, `sum`, `min` and `max` in nanoseconds (of a sketch of seconds). The cells are the buckets in turn: a
 * digit is a count from 1 to 9, a letter so many empty buckets (`a` is 1), `(n)` a larger count and `[n]` more empty ones,
 * in base 36. A sketch with more buckets than answers ever have is told at a lower scale, so that the word is bounded: two
 * neighbours become one, as OpenTelemetry's exponential histograms do it.
 */
import { sketchScale, type SketchData } from '../domain/sketch.ts';

/**
 * More cells than this (empty ones between them not counted) and neighbours are joined. Ten thousand gaps that are spread
 * as real ones fill 250 to 400; a word is then up to 1,100 characters long, that of a usual answer 60 to 150.
 */
const maxCells = 512;
const maxBuckets = 8192;
const nanosPerSecond = 1e9;

/** @returns undefined for a sketch without observations */
export function sketchText(data: SketchData): string | undefined {
  if (data.count === 0) return undefined;
  let { first, counts } = data;
  let scale = sketchScale;
  while (filled(counts) > maxCells && scale > 0) {
    ({ first, counts } = halved(first, counts));
    scale -= 1;
  }
  const numbers = [scale, first, data.zeros, nanos(data.sum), nanos(data.min ?? 0), nanos(data.max ?? 0)];
  return `${numbers.map((number) => number.toString(36)).join('/')}/${cells(counts)}`;
}

/** @returns undefined where the text is no such word; a sketch told at a lower scale comes back in the middle of its buckets */
export function parseSketchText(text: string): SketchData | undefined {
  const [scaleText, firstText, zerosText, sumText, minText, maxText, cellText, ...more] = text.split('/');
  const [scale, start, zeros, sum, min, max] = [scaleText, firstText, zerosText, sumText, minText, maxText].map(whole);
  if (scale === undefined || start === undefined || zeros === undefined || more.length > 0) return undefined;
  if (sum === undefined || min === undefined || max === undefined || cellText === undefined) return undefined;
  if (scale < 0 || scale > sketchScale || zeros < 0 || Math.abs(start) > maxBuckets) return undefined;
  const told = readCells(cellText);
  if (told === undefined) return undefined;
  const count = told.reduce((total, times) => total + times, zeros);
  if (count === 0 || !Number.isSafeInteger(count)) return undefined;
  const { first, counts } = spread(start, told, sketchScale - scale);
  const seconds = { sum: sum / nanosPerSecond, min: min / nanosPerSecond, max: max / nanosPerSecond };
  return { count, zeros, first, counts, ...seconds };
}

function filled(counts: readonly number[]): number {
  let cellCount = 0;
  for (const times of counts) if (times > 0) cellCount += 1;
  return cellCount;
}

/** Bucket i of one scale lies in bucket i >> 1 of the next lower one. */
function halved(first: number, counts: readonly number[]): { first: number; counts: number[] } {
  const start = first >> 1;
  const joined: number[] = [];
  for (let i = 0; i < counts.length; i += 1) {
    const at = ((first + i) >> 1) - start;
    joined[at] = (joined[at] ?? 0) + (counts[i] ?? 0);
  }
  return { first: start, counts: joined };
}

/** The reverse of `halved`, `steps` times: all in the bucket at the middle. */
function spread(first: number, counts: readonly number[], steps: number): { first: number; counts: readonly number[] } {
  if (steps === 0) return { first, counts };
  const width = 2 ** steps;
  const wide = Array.from({ length: counts.length * width }, () => 0);
  counts.forEach((times, i) => {
    wide[i * width + width / 2] = times;
  });
  return { first: first * width, counts: wide };
}

function nanos(seconds: number): number {
  return Math.round(seconds * nanosPerSecond);
}

function cells(counts: readonly number[]): string {
  let text = '';
  let empty = 0;
  for (const times of counts) {
    if (times === 0) {
      empty += 1;
      continue;
    }
    if (empty > 0) text += empty <= 26 ? String.fromCharCode(beforeA + empty) : `[${empty.toString(36)}]`;
    empty = 0;
    text += times <= 9 ? String(times) : `(${times.toString(36)})`;
  }
  return text;
}

const beforeA = 96;

function readCells(text: string): readonly number[] | undefined {
  const counts: number[] = [];
  let at = 0;
  for (const [cell, digit, letter, many, empties] of text.matchAll(
    /([1-9])|([a-z])|\(([0-9a-z]{1,11})\)|\[([0-9a-z]{1,4})\]/g,
  )) {
    if (!text.startsWith(cell, at)) return undefined;
    at += cell.length;
    const empty = letter === undefined ? whole(empties) : letter.charCodeAt(0) - beforeA;
    const times = whole(digit ?? many);
    if (counts.length + (empty ?? 1) > maxBuckets) return undefined;
    if (times !== undefined) counts.push(times);
    else for (let i = 0; i < (empty ?? 0); i += 1) counts.push(0);
  }
  return at === text.length ? counts : undefined;
}

function whole(text: string | undefined): number | undefined {
  return text !== undefined && /^-?[0-9a-z]{1,11}$/.test(text) ? Number.parseInt(text, 36) : undefined;
}
