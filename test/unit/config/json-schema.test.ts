/**
 * The generated JSON Schema in config/ is what the schema says now. `WARMLANE_UPDATE=1 npx vitest run test/unit/config/json-schema.test.ts` writes it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import { makeJsonSchema } from './json-schema.ts';

const file = new URL('../../../config/warmlane.schema.json', import.meta.url);

describe('config/warmlane.schema.json', () => {
  it('equals what is generated from the schema', () => {
    const made = makeJsonSchema();
    if (process.env['WARMLANE_UPDATE'] === '1') writeFileSync(file, made);
    expect(readFileSync(file, 'utf8')).toBe(made);
  });

  it('refuses unknown keys in every map and explains every key', () => {
    const seen: string[] = [];
    const visit = (node: unknown, path: string): void => {
      if (typeof node !== 'object' || node === null) return;
      if ('properties' in node && typeof node.properties === 'object' && node.properties !== null) {
        expect(node, path).toHaveProperty('additionalProperties', false);
        for (const [key, held] of Object.entries(node.properties)) {
          expect(JSON.stringify(held), `${path}.${key}`).toContain('"description"');
          seen.push(key);
        }
      }
      for (const [key, held] of Object.entries(node)) visit(held, `${path}/${key}`);
    };
    visit(JSON.parse(makeJsonSchema()), '');
    expect(seen).toContain('maxInFlight');
    expect(seen.length).toBeGreaterThan(50);
  });
});
