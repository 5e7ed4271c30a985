/** JSON bodies for tests: scanned at any cut, and random ones with blanks and escapes wherever they may stand. */
import fc from 'fast-check';
import { createJsonScan, type JsonScanResult } from '../../src/platform/json-scan.ts';

export const wanted = new Map([
  ['model', 4096],
  ['stream', 16],
  ['prompt', 0],
  ['usage', 200],
  ['ſé"\\', 64],
]);

export function scanCut(
  body: string | Buffer,
  cutAt: readonly number[] = [],
  keys: ReadonlyMap<string, number> = wanted,
): JsonScanResult {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const reader = createJsonScan({ keys });
  let from = 0;
  for (const cut of [...cutAt].map((at) => Math.min(at, bytes.length)).toSorted((a, b) => a - b)) {
    // A copy that is spoilt afterwards: nothing may be read from a chunk later than in its own push.
    const chunk = Buffer.from(bytes.subarray(from, cut));
    reader.push(chunk);
    chunk.fill(0x22);
    from = cut;
  }
  reader.push(bytes.subarray(from));
  return reader.end();
}

export function everyByte(length: number): number[] {
  return Array.from({ length }, (_, at) => at);
}

export function rawValue(body: string | Buffer, result: JsonScanResult, key: string): string | undefined {
  const field = result.fields.get(key);
  return field && Buffer.from(body).subarray(field.start, field.end).toString();
}

/** JSON text of a value with blanks and escapes where they may stand. */
export function dress(value: unknown, dice: () => number): string {
  const blank = () => ['', '', ' ', '\t', '\n', ' \r\n'][dice() % 6] ?? '';
  const text = (plain: string) =>
    `"${Array.from(plain)
      .map((char) => {
        const code = char.charCodeAt(0);
        const mustEscape = code < 0x20 || char === '"' || char === '\\' || (code >= 0xd800 && code < 0xe000);
        if (!mustEscape && dice() % 4 > 0) return char;
        return [...Array(char.length).keys()]
          .map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`)
          .join('');
      })
      .join('')}"`;
  const join = (open: string, items: string[], close: string) =>
    `${open}${blank()}${items.join(`${blank()},${blank()}`)}${blank()}${close}`;
  const write = (any: unknown): string => {
    if (typeof any === 'string') return text(any);
    if (Array.isArray(any)) return join('[', any.map(write), ']');
    if (typeof any === 'object' && any !== null) {
      return join(
        '{',
        Object.entries(any).map(([key, item]) => `${text(key)}${blank()}:${blank()}${write(item)}`),
        '}',
      );
    }
    return JSON.stringify(any);
  };
  return blank() + write(value) + blank();
}

export const jsonText = fc
  .tuple(
    fc.dictionary(
      fc.constantFrom('model', 'stream', 'usage', 'prompt', 'other', 'ſé"\\', 'é'),
      fc.jsonValue({ maxDepth: 4 }),
    ),
    fc.array(fc.nat(), { minLength: 64, maxLength: 64 }),
  )
  .map(([value, rolls]) => {
    let turn = 0;
    return { value, text: dress(value, () => rolls[turn++ % rolls.length] ?? 0) };
  });
