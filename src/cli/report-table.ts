/** Figures and tables as text in a hundred columns: digits that mean something, columns that line up. Pure. */

export const pageWidth = 100;

/** Three digits that count, whole numbers with `,` between thousands. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 99.95) return grouped(Math.round(value));
  if (size >= 9.995) return value.toFixed(1);
  return size >= 0.0995 ? value.toFixed(2) : value.toFixed(3);
}

export function grouped(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `1 request`, `1,200 requests` */
export function countOf(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** `47.9k`, `1.77M` */
export function short(value: number): string {
  if (value < 10_000) return grouped(value);
  return value < 999_500 ? `${digits(value / 1000)}k` : `${digits(value / 1_000_000)}M`;
}

/** `12.3 %`; what is not quite all, or not quite nothing, is not shown as such. */
export function percent(share: number): string {
  if (share > 0 && share < 0.0005) return '<0.1 %';
  if (share < 1 && share > 0.9995) return '>99.9 %';
  return share === 0 || share === 1 ? `${share * 100} %` : `${(share * 100).toFixed(1)} %`;
}

/** `48 s`, `3 min 20 s`, `5 h 12 min`, `12 d 3 h` */
export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return pair(Math.floor(whole / 60), 'min', whole % 60, 's');
  const minutes = Math.round(whole / 60);
  if (minutes < 48 * 60) return pair(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** Keeps both ends, which is where names differ. */
export function shortened(text: string, width: number): string {
  const clean = printable(text);
  if (clean.length <= width) return clean;
  const head = Math.ceil((width - 1) / 2);
  return `${clean.slice(0, head)}…${clean.slice(clean.length - (width - 1 - head))}`;
}

/** Names come from logs: what would move the cursor or break the line is shown as `?`. */
export function printable(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what must not get through
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '?');
}

export interface Column {
  readonly title: string;
  readonly left?: boolean;
}

/** @returns lines indented by two; columns without any content are left out */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): readonly string[] {
  const shown = columns.map((column, at) => ({ ...column, at })).filter(({ at }) => rows.some((row) => row[at]));
  const widths = shown.map(({ title, at }) => Math.max(title.length, ...rows.map((row) => (row[at] ?? '').length)));
  const line = (cells: readonly string[]) =>
    `  ${cells
      .map((cell, i) => (shown[i]?.left === true ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join('  ')}`.trimEnd();
  return [line(shown.map(({ title }) => title)), ...rows.map((row) => line(shown.map(({ at }) => row[at] ?? '')))];
}

/** `name  one 12 · other 3`, continued under itself where it gets too wide. */
export function listed(name: string, items: readonly string[], nameWidth: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const item of items) {
    const longer = line === '' ? item : `${line} · ${item}`;
    if (line !== '' && longer.length > pageWidth - nameWidth - 4) {
      lines.push(line);
      line = item;
    } else line = longer;
  }
  if (line !== '') lines.push(line);
  return lines.map((text, i) => `  ${(i === 0 ? name : '').padEnd(nameWidth)}  ${text}`);
}

/** A sentence over several lines, each indented by two. Of a word that fills no line both ends are kept. */
export function wrapped(text: string, indent = '  '): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const whole of text.split(' ')) {
    const word = whole.length > pageWidth - indent.length ? shortened(whole, pageWidth - indent.length) : whole;
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && longer.length > pageWidth - indent.length) {
      lines.push(indent + line);
      line = word;
    } else line = longer;
  }
  return [...lines, indent + line];
}

/** Bold headings on a terminal, plain text elsewhere. */
export function heading(text: string, colour: boolean): string {
  return colour ? `\u001b[1m${text}\u001b[0m` : text;
}
