/**
 * How far a difference between two windows can be trusted. Both are drawn again and again from their own slices, which
 * gives the standard error of the difference; the interval is that many errors wide as Student's t says for so few slices.
 * What then looks like a difference must also be larger than those that come out when the slices of both windows are dealt
 * anew at random, which holds whatever the distribution is. Drawing slices, not requests, keeps together what ran together;
 * neighbouring slices may share their luck too, so that it is done again with two, four … neighbours as one, and the widest
 * interval counts. Seeded: the same logs give the same interval.
 * Sources: B. Efron, R. Tibshirani, An Introduction to the Bootstrap (1993), ch. 6, 12.5 and 15; slices as blocks after
 * H. Künsch, Annals of Statistics 17 (1989).
 */

export interface Interval {
  readonly low: number;
  readonly high: number;
}

export interface BootstrapSettings {
  readonly seed: number;
  readonly draws: number;
  /** 0…1: share of intervals that hold the truth */
  readonly confidence: number;
}

type Side = 'before' | 'after';

export interface Windows {
  /** slices of each window; those of `before` come first where both stand in one list */
  readonly sizes: Readonly<Record<Side, number>>;
  /** of each window, slices that have any value: what the t distribution's freedom comes from */
  readonly filled: Readonly<Record<Side, number>>;
  /** after − before */
  readonly difference: number;
  /** what the figures themselves may be off by */
  readonly resolution: number;
  /** each slice counted so many times; undefined where there is no value then */
  readonly statistic: (times: readonly number[]) => number | undefined;
}

/** @returns the interval of statistic(after) − statistic(before); undefined when hardly any draw had a value */
export function differenceInterval(windows: Windows, settings: BootstrapSettings): Interval | undefined {
  const { difference, resolution } = windows;
  const lengths = blockLengths(windows);
  let half: number | undefined;
  for (const length of lengths) {
    const width = halfWidth(windows, length, settings);
    if (width !== undefined) half = Math.max(half ?? resolution, width);
  }
  if (half === undefined) return undefined;
  for (const length of lengths) {
    if (Math.abs(difference) <= half) break;
    half = Math.max(half, dealtWidth(windows, length, settings));
  }
  return { low: difference - half, high: difference + half };
}

/** With fewer blocks, the error itself is too uncertain to be worth the longer ones. */
const fewestBlocks = 10;

function blockLengths({ filled }: Windows): readonly number[] {
  const least = Math.min(filled.before, filled.after);
  const lengths = [1];
  for (let length = 2; least / length >= fewestBlocks; length *= 2) lengths.push(length);
  return lengths;
}

/** @param length slices that are drawn as one */
function halfWidth(
  { sizes, statistic, filled }: Windows,
  length: number,
  settings: BootstrapSettings,
): number | undefined {
  const random = createRandom(settings.seed);
  const differences: number[] = [];
  const blocks = blocksOf(sizes, length);
  for (let draw = 0; draw < settings.draws; draw += 1) {
    const before = statistic(timesOf(sizes, drawn(blocks.before, random)));
    const after = statistic(timesOf(sizes, drawn(blocks.after, random)));
    if (before !== undefined && after !== undefined) differences.push(after - before);
  }
  const count = Math.floor(Math.min(filled.before, filled.after) / length);
  if (count < 2 || differences.length < settings.draws / 2) return undefined;
  // A sample of so few shows less spread than there is.
  const error = deviation(differences) * Math.sqrt(count / (count - 1));
  return error * studentQuantile(1 - (1 - settings.confidence) / 2, count - 1);
}

/** The largest difference but for so few as the confidence allows, when nothing but chance decides which window a slice is in. */
function dealtWidth({ sizes, statistic }: Windows, length: number, settings: BootstrapSettings): number {
  const random = createRandom(settings.seed + 1);
  const blocks = blocksOf(sizes, length);
  const all = [...blocks.before, ...blocks.after];
  const differences: number[] = [];
  for (let draw = 0; draw < settings.draws; draw += 1) {
    shuffle(all, random);
    const before = statistic(timesOf(sizes, all.slice(0, blocks.before.length)));
    const after = statistic(timesOf(sizes, all.slice(blocks.before.length)));
    if (before !== undefined && after !== undefined) differences.push(Math.abs(after - before));
  }
  differences.sort((a, b) => b - a);
  return differences[Math.floor((1 - settings.confidence) * differences.length)] ?? Number.POSITIVE_INFINITY;
}

/** Slices from, to (not included). */
type Block = readonly [from: number, to: number];

function blocksOf(sizes: Windows['sizes'], length: number): Readonly<Record<Side, readonly Block[]>> {
  const cut = (from: number, to: number) =>
    Array.from({ length: Math.ceil((to - from) / length) }, (_, i): Block => {
      const start = from + i * length;
      return [start, Math.min(to, start + length)];
    });
  return { before: cut(0, sizes.before), after: cut(sizes.before, sizes.before + sizes.after) };
}

function drawn(blocks: readonly Block[], random: () => number): readonly Block[] {
  return blocks.map((block) => blocks[Math.floor(random() * blocks.length)] ?? block);
}

/** Fisher and Yates */
function shuffle(blocks: Block[], random: () => number): void {
  for (let i = blocks.length - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    const [one, other] = [blocks[i], blocks[j]];
    if (one === undefined || other === undefined) continue;
    blocks[i] = other;
    blocks[j] = one;
  }
}

function timesOf(sizes: Windows['sizes'], blocks: readonly Block[]): readonly number[] {
  const times = Array.from({ length: sizes.before + sizes.after }, () => 0);
  for (const [from, to] of blocks) for (let at = from; at < to; at += 1) times[at] = (times[at] ?? 0) + 1;
  return times;
}

/** mulberry32 */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function deviation(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
}

/**
 * Student's t by the Cornish–Fisher expansion about the normal distribution, within 1 % for five degrees of freedom or
 * more and shares up to 0.999. Source: Abramowitz, Stegun, Handbook of Mathematical Functions, 26.7.5.
 */
export function studentQuantile(share: number, freedom: number): number {
  const z = normalQuantile(share);
  const [z3, z5, z7, z9] = [z ** 3, z ** 5, z ** 7, z ** 9];
  return (
    z +
    (z3 + z) / (4 * freedom) +
    (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom ** 2) +
    (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * freedom ** 3) +
    (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / (92_160 * freedom ** 4)
  );
}

/** For shares of 0.5 and more, within 4.5e-4. Source: Abramowitz, Stegun, 26.2.23. */
function normalQuantile(share: number): number {
  const t = Math.sqrt(-2 * Math.log(1 - share));
  const above = 2.515517 + 0.802853 * t + 0.010328 * t ** 2;
  return t - above / (1 + 1.432788 * t + 0.189269 * t ** 2 + 0.001308 * t ** 3);
}
