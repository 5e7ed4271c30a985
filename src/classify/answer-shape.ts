/**
 * What a request says its answer must be: JSON by `response_format` (`text.format` in the Responses API), or calls of tools
 * whose arguments are JSON. Finds nothing unless the body was scanned for these keys (`wantedKeysWithShape`). Pure.
 */
import type { AnswerShape } from '../domain/job.ts';
import { scanJson, type JsonField, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';
import type { BodyReading } from './endpoint-table.ts';

const jsonTypes: ReadonlySet<string | undefined> = new Set(['json_object', 'json_schema']);
const typeKeys = new Map([['type', 64]]);
const formatKeys = new Map([['format', 16 * 1024]]);

/** @returns undefined when nothing is asked of the answer's shape */
export function readAnswerShape(reading: BodyReading, scan: JsonScanResult | undefined): AnswerShape | undefined {
  if (scan === undefined) return undefined;
  const { fields } = scan;
  switch (reading) {
    case 'chat':
      return shape(
        isFilled(fields.get('tools')) || isFilled(fields.get('functions')),
        isJson(fields.get('response_format')),
      );
    case 'completions':
      return shape(false, isJson(fields.get('response_format')));
    case 'responses':
      return shape(isFilled(fields.get('tools')), isJsonText(fields.get('text')));
    case 'messages':
      return shape(isFilled(fields.get('tools')), false);
    default:
      return undefined;
  }
}

function shape(tools: boolean, json: boolean): AnswerShape | undefined {
  if (!tools && !json) return undefined;
  return { ...(tools ? { tools } : {}), ...(json ? { json } : {}) };
}

function isFilled(field: JsonField | undefined): boolean {
  return (field?.elements?.count ?? 0) > 0;
}

function isJsonText(text: JsonField | undefined): boolean {
  if (text?.kind === 'object' && text.value === undefined) return true;
  return isJson(nested(text, formatKeys, 'format'));
}

function isJson(format: JsonField | undefined): boolean {
  if (format?.kind !== 'object') return false;
  // Too long to be kept: only a schema is.
  if (format.value === undefined) return true;
  return jsonTypes.has(readJsonString(nested(format, typeKeys, 'type')));
}

function nested(field: JsonField | undefined, keys: ReadonlyMap<string, number>, key: string): JsonField | undefined {
  if (field?.kind !== 'object' || field.value === undefined) return undefined;
  return scanJson(field.value, keys).fields.get(key);
}
