/**
 * The few permitted changes of a request, each inside its byte span: usage asked for in the body, a model alias replaced
 * in body or target. Decides which of them a backend gets, and applies them without copying or parsing the rest. Pure.
 */
import type { BodyEdit, Job } from '../domain/job.ts';
import type { Engine } from '../domain/names.ts';
import { modelPlace } from './request-path.ts';

export interface EditOptions {
  readonly engine: Engine;
  readonly usageMode: 'ask' | 'passive' | 'per_event';
  /** The engine is told by the body's `priority` whom to take first (`set`), or the client's own is taken out. Absent: it stays. */
  readonly priority?: 'set' | 'remove' | undefined;
  /** alias → model name that the backend knows */
  readonly aliases: Readonly<Record<string, string>>;
}

export interface EditPlan {
  /** In order of their places, not overlapping. */
  readonly edits: readonly BodyEdit[];
  /** The engine will report usage that the client did not ask for: it is taken out of the stream again. */
  readonly stripUsage: boolean;
}

export function planEdits(job: Job, { engine, usageMode, aliases, priority: asked }: EditOptions): EditPlan {
  const usage =
    usageMode === 'passive' ? undefined : usageMode === 'ask' ? usageEdit(job, engine) : perEventEdit(job, engine);
  const alias = aliasEdit(job, aliases);
  const stream = isStreamedOn(job, engine) ? (job.mayStream?.edits ?? none) : none;
  const priority = asked === undefined ? undefined : asked === 'set' ? priorityEdit(job) : priorityRemoval(job);
  const edits = [usage, alias, priority, ...stream]
    .filter((edit) => edit !== undefined)
    // What is put in goes before what is taken out behind it.
    .toSorted((a, b) => a.start - b.start || a.end - b.end);
  return { edits, stripUsage: usageMode === 'ask' && usage !== undefined };
}

/** SGLang: higher is sooner. A client's own value is overruled. */
const sglangPriority = { online: '10', batch: '0' } as const;

function priorityEdit({ lane, priorityPlace }: Job): BodyEdit | undefined {
  if (priorityPlace === undefined) return undefined;
  const { kind, start, end } = priorityPlace;
  const value = sglangPriority[lane];
  const text = kind === 'value' ? value : kind === 'only' ? `"priority":${value}` : `"priority":${value},`;
  return { start, end, text };
}

function priorityRemoval({ priorityPlace }: Job): BodyEdit | undefined {
  const { removal } = priorityPlace ?? {};
  return removal === undefined ? undefined : { start: removal.start, end: removal.end, text: '' };
}

const none: readonly BodyEdit[] = [];

/** The answer is asked for as a stream there, though the body doesn't. */
export function isStreamedOn({ mayStream }: Pick<Job, 'mayStream'>, engine: Engine): boolean {
  return mayStream !== undefined && mayStream.engines.includes(engine);
}

/** Its answer comes event by event, whoever wanted that. */
export function comesAsStream(job: Pick<Job, 'stream' | 'mayStream'>, engine: Engine): boolean {
  return job.stream || isStreamedOn(job, engine);
}

/** Only vLLM and SGLang report nothing unasked and do no harm when asked (decision 3). */
function usageEdit(job: Job, engine: Engine): BodyEdit | undefined {
  if (engine !== 'vllm' && engine !== 'sglang') return undefined;
  // vLLM reports by itself here, and the client of a direct request would see it too.
  if (engine === 'vllm' && job.usage.unstated) return undefined;
  return job.usage.edit;
}

/**
 * The target as the backend gets it: received as it was, but for an alias in the one place that named the model
 * (`/v1/models/{model}`, `?model=` of a GET).
 */
export function targetFor({ target, model, modelSpan }: Job, aliases: Readonly<Record<string, string>>): string {
  if (model === undefined || modelSpan !== undefined || !Object.hasOwn(aliases, model)) return target;
  const place = modelPlace(target);
  const name = aliases[model];
  if (place === undefined || name === undefined) return target;
  return target.slice(0, place.start) + encodeURIComponent(name) + target.slice(place.end);
}

const included = '"include_usage":true';
const continuous = '"continuous_usage_stats":true';

/** Counts in every event: they change every event, so the client sees them and nothing is taken out again (decision 3). */
function perEventEdit(job: Job, engine: Engine): BodyEdit | undefined {
  if (engine === 'llama-server' && job.firstMember !== undefined) {
    const { at, empty } = job.firstMember;
    return { start: at, end: at, text: `"timings_per_token":true${empty ? '' : ','}` };
  }
  const ask = usageEdit(job, engine);
  if (ask === undefined || engine !== 'vllm') return ask;
  const text = ask.text.includes(included)
    ? ask.text.replace(included, `${included},${continuous}`)
    : `${ask.text},${continuous}`;
  return { start: ask.start, end: ask.end, text };
}

function aliasEdit({ model, modelSpan }: Job, aliases: Readonly<Record<string, string>>): BodyEdit | undefined {
  if (model === undefined || modelSpan === undefined || !Object.hasOwn(aliases, model)) return undefined;
  const name = aliases[model];
  if (name === undefined || name === model) return undefined;
  return { start: modelSpan.start, end: modelSpan.end, text: modelSpan.raw ? name : JSON.stringify(name) };
}

/**
 * The body with each edit's span replaced; untouched bytes are views of the given chunks.
 * Throws if edits overlap, are out of order or lie outside the body: they were planned for another one.
 */
export function applyEdits(
  chunks: readonly Buffer[],
  edits: readonly BodyEdit[],
): { readonly chunks: readonly Buffer[]; readonly bytes: number } {
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const slices: Buffer[] = [];
  let done = 0;
  for (const { start, end, text } of edits) {
    if (start < done || end < start || end > bytes) throw new RangeError(`body edit [${start}, ${end}) does not fit`);
    slices.push(...slice(chunks, done, start), Buffer.from(text));
    done = end;
  }
  if (edits.length === 0) return { chunks, bytes };
  slices.push(...slice(chunks, done, bytes));
  const edited = slices.filter((piece) => piece.length > 0);
  return { chunks: edited, bytes: edited.reduce((sum, piece) => sum + piece.length, 0) };
}

/** Views of the bytes `[from, to)` of all chunks together. */
function slice(chunks: readonly Buffer[], from: number, to: number): Buffer[] {
  const views: Buffer[] = [];
  let base = 0;
  for (const chunk of chunks) {
    const begin = Math.max(from - base, 0);
    const end = Math.min(to - base, chunk.length);
    if (begin < end) views.push(chunk.subarray(begin, end));
    base += chunk.length;
  }
  return views;
}
