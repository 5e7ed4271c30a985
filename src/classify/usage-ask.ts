/**
 * What a chat or completions body says about streamed usage, and the one splice that makes the engine report it
 * (decision 3, C032). Whether the splice is used depends on the engine: `edit-body.ts`. What can't be spliced without
 * changing more than the last event is left alone.
 */
import type { BodyEdit, UsageAsk } from '../domain/job.ts';
import { scanJson, type JsonField, type JsonScanResult } from '../platform/json-scan.ts';
import type { Refusal } from '../domain/refusal.ts';
import { duplicateKey } from './refusals.ts';

const optionKeys = new Map([
  ['include_usage', 0],
  ['continuous_usage_stats', 0],
]);
const include = '"include_usage":true';

/** @param streamed the body has a literal `"stream":true`: only then anything is spliced */
export function readUsageAsk(scan: JsonScanResult, streamed: boolean): UsageAsk | Refusal {
  const options = scan.fields.get('stream_options');
  if (options === undefined) return ask(streamed, insertion(scan, `"stream_options":{${include}}`));
  if (options.kind === 'null') return ask(streamed, { start: options.start, end: options.end, text: `{${include}}` });
  if (options.kind !== 'object' || options.value === undefined) return { byClient: false };

  const inner = scanJson(options.value, optionKeys);
  if (!inner.readable) return { byClient: false };
  if (inner.duplicates[0] !== undefined) return duplicateKey(`stream_options.${inner.duplicates[0]}`);
  const included = inner.fields.get('include_usage');
  if (included?.kind === 'true') return { byClient: true };
  // Usage in every event would change every event: `include_usage` alone switches it on.
  if (!isOff(inner.fields.get('continuous_usage_stats'))) {
    return { byClient: false, ...(included === undefined ? { unstated: true } : {}) };
  }
  if (included === undefined)
    return { ...ask(streamed, shifted(insertion(inner, include), options.start)), unstated: true };
  if (!isOff(included)) return { byClient: false };
  return ask(streamed, shifted({ start: included.start, end: included.end, text: 'true' }, options.start));
}

function ask(streamed: boolean, edit: BodyEdit): UsageAsk {
  return streamed ? { byClient: false, edit } : { byClient: false };
}

/** A first member, right after the opening brace. */
function insertion(scan: JsonScanResult, member: string): BodyEdit {
  const at = scan.objectStart + 1;
  return { start: at, end: at, text: scan.empty ? member : `${member},` };
}

function shifted(edit: BodyEdit, by: number): BodyEdit {
  return { start: edit.start + by, end: edit.end + by, text: edit.text };
}

function isOff(field: JsonField | undefined): boolean {
  return field === undefined || field.kind === 'false' || field.kind === 'null';
}
