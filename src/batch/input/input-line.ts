/**
 * Reads one line of an input file: `{"custom_id", "method", "url", "body"}`. Says what is wrong with it, or what validation
 * and the runner need of it. Nothing is parsed as a whole: the scan finds a few members, so that a line of megabytes costs
 * no tree of objects, and it can stop between its slices.
 */
import type { BatchEndpoint, BatchError } from '../batch.ts';
import { createJsonScan, forPieces, type JsonField, type JsonScanResult } from '../../platform/json-scan.ts';
import { isStorable } from '../storable-text.ts';
import type { PromptKeys } from './prompt-keys.ts';

export interface ReadLine {
  readonly customId: string;
  readonly model: string | undefined;
  readonly keys: Float64Array | undefined;
}

/** Characters of a `custom_id`; it is kept in memory for each line. */
export const maxCustomIdChars = 512;
/** As elsewhere for names of models. */
const maxModelChars = 512;
/** Each UTF-16 unit as a six-byte escape, with quotes. */
const maxCustomIdBytes = maxCustomIdChars * 6 + 2;
const maxModelBytes = maxModelChars * 6 + 2;

const lineKeys: ReadonlyMap<string, number> = new Map([
  ['custom_id', maxCustomIdBytes],
  ['method', 64],
  ['url', 1024],
  ['body', 0],
]);
const bodyKeys = { model: maxModelBytes, stream: 16 } as const;

/** Bytes that are scanned in one go. */
const sliceBytes = 128 * 1024;

export interface LineRules {
  readonly endpoint: BatchEndpoint;
  readonly prompts: PromptKeys;
}

/** @param text without line end @returns errors have no line number yet; the steps yield between slices */
export type LineReader = (text: Buffer) => Generator<undefined, ReadLine | readonly BatchError[]>;

export function createLineReader({ endpoint, prompts }: LineRules): LineReader {
  const keys = new Map<string, number>([...prompts.members].map((key) => [key, forPieces]));
  for (const [key, bytes] of Object.entries(bodyKeys)) keys.set(key, bytes);

  function* readBody(body: Buffer): Generator<undefined, { scan: JsonScanResult; keys: Float64Array | undefined }> {
    const pieces = prompts.begin(endpoint);
    const scan = yield* scanned(body, createJsonScan({ keys, pieces }));
    const model = textOf(scan.fields.get('model'));
    return { scan, keys: scan.readable ? pieces?.chain(model)?.keys : undefined };
  }

  return function* read(text) {
    const scan = yield* scanned(text, createJsonScan({ keys: lineKeys }));
    if (!scan.readable) return [invalidJson(scan.problem ?? 'not readable')];
    const twice = scan.duplicates[0];
    if (twice !== undefined) return [invalidJson(`${twice} stands there twice`)];
    const customId = textOf(scan.fields.get('custom_id'));
    const errors = [
      ...customIdErrors(scan.fields.get('custom_id'), customId),
      ...methodErrors(scan.fields.get('method')),
      ...urlErrors(scan.fields.get('url'), endpoint),
    ];
    const body = scan.fields.get('body');
    if (body?.kind !== 'object') {
      const what = body === undefined ? 'is missing' : 'must be an object';
      return [...errors, fault('invalid_body', 'body', `\`body\` ${what}: the request to ${endpoint}.`)];
    }
    const found = yield* readBody(text.subarray(body.start, body.end));
    errors.push(...bodyErrors(found.scan));
    if (errors.length > 0 || customId === undefined) return errors;
    return { customId, model: textOf(found.scan.fields.get('model')), keys: found.keys };
  };
}

function* scanned(text: Buffer, scan: ReturnType<typeof createJsonScan>): Generator<undefined, JsonScanResult> {
  for (let at = 0; at < text.length; at += sliceBytes) {
    if (at > 0) yield;
    scan.push(text.subarray(at, at + sliceBytes));
  }
  return scan.end();
}

function customIdErrors(field: JsonField | undefined, customId: string | undefined): readonly BatchError[] {
  const says = (what: string) => [fault('invalid_custom_id', 'custom_id', `\`custom_id\` ${what}.`)];
  if (field === undefined) return says('is missing');
  if (field.kind !== 'string') return says('must be a string');
  if (field.value !== undefined && customId === undefined) return says('is no valid JSON string');
  if (customId === '') return says('must not be empty');
  if (customId === undefined || customId.length > maxCustomIdChars)
    return says(`is longer than ${maxCustomIdChars} characters`);
  return isStorable(customId) ? [] : says('holds U+0000 or half of a surrogate pair');
}

function methodErrors(field: JsonField | undefined): readonly BatchError[] {
  if (textOf(field) === 'POST') return [];
  const what = field === undefined ? 'is missing; it must be' : 'must be';
  return [fault('invalid_method', 'method', `\`method\` ${what} "POST".`)];
}

/** The path alone, character by character: another form of it might be sent elsewhere (C172). */
function urlErrors(field: JsonField | undefined, endpoint: string): readonly BatchError[] {
  const url = textOf(field);
  if (url === endpoint) return [];
  if (field === undefined) return [fault('invalid_url', 'url', `\`url\` is missing; it must be "${endpoint}".`)];
  const hint = url === `${endpoint}/` ? ' Leave out the slash at its end.' : '';
  const message = `\`url\` must be the batch's endpoint, "${endpoint}".${hint}`;
  return [fault('mismatched_url', 'url', message)];
}

function bodyErrors({ fields, duplicates }: JsonScanResult): readonly BatchError[] {
  const errors: BatchError[] = [];
  for (const key of duplicates) errors.push(fault('invalid_body', `body.${key}`, `\`${key}\` stands there twice.`));
  const model = fields.get('model');
  // llama-server serves what it has loaded, whatever the name, or none.
  if (model !== undefined && model.kind !== 'null' && !isName(textOf(model)))
    errors.push(fault('invalid_model', 'body.model', `\`model\` must be a text of 1 to ${maxModelChars} characters.`));
  const stream = fields.get('stream');
  if (stream !== undefined && stream.kind !== 'false' && stream.kind !== 'null')
    errors.push(
      fault('stream_not_supported', 'body.stream', 'A batch has no streams: leave `stream` out, or set it to false.'),
    );
  return errors;
}

function isName(name: string | undefined): boolean {
  return name !== undefined && name !== '' && name.length <= maxModelChars && isStorable(name);
}

/** Of a string that was kept; undefined also where its escapes are malformed. */
function textOf(field: JsonField | undefined): string | undefined {
  if (field?.kind !== 'string' || field.value === undefined) return undefined;
  try {
    const text: unknown = JSON.parse(field.value.toString('utf8'));
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}

/** @param problem of the scan: it names places, never what stands there */
function invalidJson(problem: string): BatchError {
  return { code: 'invalid_json_line', message: `This line is not one valid JSON object: ${problem}.` };
}

function fault(code: string, param: string, message: string): BatchError {
  return { code, message, param };
}
