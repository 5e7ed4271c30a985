import { describe, expect, it } from 'vitest';
import { scanJson } from '../../../src/platform/json-scan.ts';
import { readJsonInteger, readJsonString } from '../../../src/platform/json-value.ts';

function field(value: string, maxBytes = 100) {
  return scanJson(Buffer.from(`{"k":${value}}`), new Map([['k', maxBytes]])).fields.get('k');
}

describe('readJsonString', () => {
  it('reads escapes, characters and lone surrogates', () => {
    expect(readJsonString(field('"a\\u0062\\n\\"é"'))).toBe('ab\n"é');
    expect(readJsonString(field('"\\ud83d"'))).toBe('\ud83d');
    expect(readJsonString(field('""'))).toBe('');
  });

  it('is undefined for what is no string, was not kept, or has a malformed escape', () => {
    for (const value of ['1', 'null', '{}', '["a"]', '"a\\x62"', '"a\u0001"'])
      expect(readJsonString(field(value))).toBeUndefined();
    expect(readJsonString(field('"abc"', 4))).toBeUndefined();
    expect(readJsonString(undefined)).toBeUndefined();
  });
});

describe('readJsonInteger', () => {
  it('reads an integer in any spelling, 0 and negative ones included', () => {
    expect(['0', '16', '16.0', '1.6e1', '-1'].map((value) => readJsonInteger(field(value)))).toEqual([
      0, 16, 16, 16, -1,
    ]);
  });

  it('is undefined for what is no exact integer', () => {
    for (const value of ['1.5', '1e400', '9007199254740993', 'NaN', 'Infinity', '"16"', 'true', 'null']) {
      expect(readJsonInteger(field(value))).toBeUndefined();
    }
    expect(readJsonInteger(field('12345', 4))).toBeUndefined();
  });
});
