/**
 * What a server says of a file and a batch, read from its JSON: only what the commands show, each field checked. The whole
 * object is kept beside for `--json`. Servers other than warmlane may leave fields out. Pure.
 */

export interface LineProblem {
  readonly code?: string;
  readonly message: string;
  readonly line?: number;
}

export interface BatchObject {
  readonly id: string;
  readonly status: string;
  readonly endpoint?: string;
  readonly model?: string;
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  /** Seconds since the epoch, as all times here. */
  readonly createdAt?: number;
  readonly expiresAt?: number;
  readonly endedAt?: number;
  readonly outputFileId?: string;
  readonly errorFileId?: string;
  readonly problems: readonly LineProblem[];
  readonly usage?: { readonly input: number; readonly cached: number; readonly output: number };
  readonly metadata: readonly (readonly [string, string])[];
  /** As the server sent it. */
  readonly whole: unknown;
}

const endedStatuses: ReadonlySet<string> = new Set(['completed', 'failed', 'expired', 'cancelled']);

export function isOver({ status }: Pick<BatchObject, 'status'>): boolean {
  return endedStatuses.has(status);
}

/** @returns undefined when it is no batch */
export function readBatch(whole: unknown): BatchObject | undefined {
  const object = objectOf(whole);
  const id = textOf(object?.['id']);
  const status = textOf(object?.['status']);
  if (object === undefined || id === undefined || status === undefined || object['object'] !== 'batch')
    return undefined;
  const counts = objectOf(object['request_counts']) ?? {};
  const endedAt =
    numberOf(object['completed_at']) ??
    numberOf(object['failed_at']) ??
    numberOf(object['expired_at']) ??
    numberOf(object['cancelled_at']);
  return {
    id,
    status,
    ...present('endpoint', textOf(object['endpoint'])),
    ...present('model', textOf(object['model'])),
    total: numberOf(counts['total']) ?? 0,
    completed: numberOf(counts['completed']) ?? 0,
    failed: numberOf(counts['failed']) ?? 0,
    ...present('createdAt', numberOf(object['created_at'])),
    ...present('expiresAt', numberOf(object['expires_at'])),
    ...present('endedAt', endedAt),
    ...present('outputFileId', textOf(object['output_file_id'])),
    ...present('errorFileId', textOf(object['error_file_id'])),
    problems: problemsOf(object['errors']),
    ...present('usage', usageOf(object['usage'])),
    metadata: Object.entries(objectOf(object['metadata']) ?? {}).map(([key, value]) => [key, String(value)]),
    whole,
  };
}

/** @returns undefined when it is no list, or one without names */
export function readModelNames(whole: unknown): readonly string[] | undefined {
  const data = objectOf(whole)?.['data'];
  if (!Array.isArray(data)) return undefined;
  const names = data.flatMap((entry) => textOf(objectOf(entry)?.['id']) ?? []);
  return names.length === 0 ? undefined : names;
}

export interface BatchPage {
  readonly batches: readonly BatchObject[];
  readonly hasMore: boolean;
  readonly whole: unknown;
}

export function readBatchPage(whole: unknown): BatchPage | undefined {
  const object = objectOf(whole);
  const data = object?.['data'];
  if (object === undefined || !Array.isArray(data)) return undefined;
  return { batches: data.flatMap((entry) => readBatch(entry) ?? []), hasMore: object['has_more'] === true, whole };
}

/** @returns the id of a file object */
export function readFileId(whole: unknown): string | undefined {
  const object = objectOf(whole);
  return object?.['object'] === 'file' ? textOf(object['id']) : undefined;
}

function problemsOf(errors: unknown): readonly LineProblem[] {
  const data = objectOf(errors)?.['data'];
  if (!Array.isArray(data)) return [];
  return data.flatMap((entry) => {
    const problem = objectOf(entry);
    if (problem === undefined) return [];
    const code = textOf(problem['code']);
    return {
      message: textOf(problem['message']) ?? code ?? 'no reason was given',
      ...present('code', code),
      ...present('line', numberOf(problem['line'])),
    };
  });
}

function usageOf(value: unknown): BatchObject['usage'] {
  const usage = objectOf(value);
  const input = numberOf(usage?.['input_tokens']);
  const output = numberOf(usage?.['output_tokens']);
  if (input === undefined || output === undefined) return undefined;
  return { input, output, cached: numberOf(objectOf(usage?.['input_tokens_details'])?.['cached_tokens']) ?? 0 };
}

export function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>) // an object that is no list
    : undefined;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

function present<Key extends string, Value>(
  key: Key,
  value: Value | undefined,
): { readonly [Name in Key]?: Exclude<Value, undefined> } {
  // The computed key's type is lost without this.
  return (value === undefined ? {} : { [key]: value }) as { readonly [Name in Key]?: Exclude<Value, undefined> };
}
