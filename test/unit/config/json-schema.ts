/**
 * The schema of the config file as JSON Schema, for editors. Made here, not at run time: the converter is a tool of development.
 */
import { toJsonSchema } from '@valibot/to-json-schema';

import { configFileSchema } from '../../../src/config/schema.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonMap = { readonly [key: string]: Json };

/** What a number, a flag or a word may also be: a reference to the environment, put in before the check. */
const reference = { type: 'string', pattern: '\\$\\{env:[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}' } as const;

export function makeJsonSchema(): string {
  // What JSON Schema can't say (addresses, names that must differ) is checked when the file is loaded.
  const made = toJsonSchema(configFileSchema, {
    typeMode: 'input',
    ignoreActions: ['raw_transform', 'raw_check', 'check', 'partial_check'],
  });
  const { $schema, ...rest } = JSON.parse(JSON.stringify(made)) as JsonMap;
  const schema = { $schema, title: 'warmlane.yaml', ...(withReferences(rest) as JsonMap) };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

function withReferences(node: Json): Json {
  if (isList(node)) {
    const takesText = node.some((one) => JSON.stringify(one) === '{"type":"string"}');
    return takesText ? node : node.map(withReferences);
  }
  if (typeof node !== 'object' || node === null) return node;
  const map = node;
  const leaf = ['"integer"', '"number"', '"boolean"'].includes(JSON.stringify(map['type'] ?? null)) || 'enum' in map;
  if (!leaf) return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, withReferences(value)]));
  const { description, default: standard, ...type } = map;
  return {
    ...(description === undefined ? {} : { description }),
    ...(standard === undefined ? {} : { default: standard }),
    anyOf: [type, reference],
  };
}

function isList(node: Json): node is readonly Json[] {
  return Array.isArray(node);
}
