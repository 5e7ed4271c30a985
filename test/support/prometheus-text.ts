/**
 * A strict reader of Prometheus text (format 0.0.4): whatever promtool would refuse or complain of is thrown.
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/
 */

export interface Sample {
  /** With `_bucket`, `_sum` or `_count` of a histogram. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly samples: readonly Sample[];
}

const nameForm = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

/** @throws where the text is not well-formed, or a histogram doesn't add up */
export function parsePrometheus(text: string): ReadonlyMap<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families = new Map<string, Family & { samples: Sample[] }>();
  const helps = new Map<string, string>();
  const seen = new Set<string>();
  let current: (Family & { samples: Sample[] }) | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') throw new Error('an empty line');
    const help = /^# HELP (\S+) (.+)$/.exec(line);
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (help?.[1] !== undefined) {
      if (helps.has(help[1])) throw new Error(`a second help: ${line}`);
      helps.set(help[1], help[2] ?? '');
    } else if (type?.[1] !== undefined) {
      const name = type[1];
      if (!nameForm.test(name) || families.has(name)) throw new Error(`a bad or second type: ${line}`);
      // The expression above lets only these through.
      current = { name, type: type[2] as Family['type'], help: helps.get(name) ?? '', samples: [] };
      if (current.help === '') throw new Error(`no help before: ${line}`);
      families.set(name, current);
    } else if (line.startsWith('#')) throw new Error(`a comment that says nothing: ${line}`);
    else {
      const sample = readSample(line);
      if (current === undefined || !belongs(sample.name, current)) throw new Error(`outside of its family: ${line}`);
      const key = `${sample.name}${keyOf(sample.labels)}`;
      if (seen.has(key)) throw new Error(`a series twice: ${line}`);
      seen.add(key);
      current.samples.push(sample);
    }
  }
  for (const family of families.values()) check(family);
  return families;
}

function readSample(line: string): Sample {
  const match = /^([^{\s]+)(?:\{(.*)\})? (\S+)$/.exec(line);
  const [, name = '', labelText, valueText = ''] = match ?? [];
  if (match === null || !nameForm.test(name)) throw new Error(`no sample: ${line}`);
  const value = valueText === '+Inf' ? Infinity : Number(valueText);
  if (Number.isNaN(value) && valueText !== 'NaN') throw new Error(`no number: ${line}`);
  return { name, labels: readLabels(labelText ?? '', line), value };
}

function readLabels(text: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  let rest = text;
  while (rest !== '') {
    const match = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/.exec(rest);
    const [whole = '', name = '', value = ''] = match ?? [];
    if (match === null || Object.hasOwn(labels, name)) throw new Error(`bad labels: ${line}`);
    labels[name] = value.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
    rest = rest.slice(whole.length);
  }
  return labels;
}

function belongs(name: string, { name: family, type }: Family): boolean {
  return type === 'histogram' ? new RegExp(`^${family}_(bucket|sum|count)$`).test(name) : name === family;
}

function keyOf(labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** What promtool's linter asks for, and that buckets rise to the count. */
function check({ name, type, samples }: Family): void {
  if ((type === 'counter') !== name.endsWith('_total')) throw new Error(`${name}: _total is of counters, and of all`);
  if (/_(milliseconds|ms|minutes|kilobytes)(_|$)/.test(name)) throw new Error(`${name}: no base unit`);
  if (type !== 'histogram') {
    if (/_(bucket|sum|count)$/.test(name)) throw new Error(`${name}: an ending of histograms`);
    return;
  }
  const series = new Map<string, Sample[]>();
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels;
    const key = keyOf(labels);
    series.set(key, [...(series.get(key) ?? []), sample]);
  }
  for (const [key, of] of series) {
    const buckets = of.filter((sample) => sample.name.endsWith('_bucket'));
    const bounds = buckets.map(({ labels }) => (labels['le'] === '+Inf' ? Infinity : Number(labels['le'])));
    const counts = buckets.map(({ value }) => value);
    const count = of.find((sample) => sample.name.endsWith('_count'))?.value;
    const rises = (numbers: readonly number[]) =>
      numbers.every((number, at) => at === 0 || number >= (numbers[at - 1] ?? 0));
    if (!rises(bounds) || bounds.at(-1) !== Infinity || !rises(counts) || counts.at(-1) !== count)
      throw new Error(`${name}${key}: buckets ${counts.join()} with count ${count}`);
  }
}

/** The sum of all samples of this name whose labels agree. */
export function sumOf(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  const all = [...families.values()].flatMap(({ samples }) => samples);
  return all
    .filter(
      (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
    )
    .reduce((sum, { value }) => sum + value, 0);
}

/** `histogram_quantile` of all series whose labels agree, as Prometheus interpolates it. */
export function histogramQuantile(
  share: number,
  family: Family,
  labels: Readonly<Record<string, string>> = {},
): number {
  const upTo = new Map<number, number>();
  for (const sample of family.samples) {
    if (
      !sample.name.endsWith('_bucket') ||
      !Object.entries(labels).every(([key, value]) => sample.labels[key] === value)
    )
      continue;
    const bound = sample.labels['le'] === '+Inf' ? Infinity : Number(sample.labels['le']);
    upTo.set(bound, (upTo.get(bound) ?? 0) + sample.value);
  }
  const buckets = [...upTo].toSorted(([a], [b]) => a - b);
  const rank = share * (buckets.at(-1)?.[1] ?? 0);
  let [lowBound, lowCount] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank)
      return bound === Infinity ? lowBound : lowBound + ((bound - lowBound) * (rank - lowCount)) / (count - lowCount);
    [lowBound, lowCount] = [bound, count];
  }
  return Number.NaN;
}
