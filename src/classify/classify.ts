/**
 * Bytes and headers → Job, or a refusal: what a request asks for, without touching it. Pure.
 * What warmlane and a backend could understand differently is refused (a key twice, a closed route by another
 * spelling) or counts as unknown (a body that isn't one JSON object is forwarded as it is).
 */
import type { Job, PriorityPlace } from '../domain/job.ts';
import type { Refusal } from '../domain/refusal.ts';
import { isRefusal } from '../domain/refusal.ts';
import { scanJson, type JsonScanResult } from '../platform/json-scan.ts';
import { readJsonString } from '../platform/json-value.ts';
import type { MultipartFields } from '../platform/multipart-scan.ts';
import { readAnswerShape } from './answer-shape.ts';
import { findEndpoint, type Endpoint } from './endpoint-table.ts';
import type { PromptRead } from './prefix-scan.ts';
import { type AskedCounts, readCounts } from './read-counts.ts';
import { duplicateKey, routeClosed } from './refusals.ts';
import { readRepeatable } from './repeatable.ts';
import { queryValue, splitTarget } from './request-path.ts';
import { defaultSessionHeaders, readSessionHint } from './session-hint.ts';
import type { ClassifySettings } from './settings.ts';
import { readServiceTier } from './service-tier.ts';
import { readReferences } from './sticky-key.ts';
import { readUsageAsk } from './usage-ask.ts';
import { keysRead } from './wanted-keys.ts';

export interface ClassifyHead {
  readonly requestId: string;
  readonly method: string;
  readonly target: string;
  header(name: string): string | undefined;
}

export interface ClassifyBody {
  /** Length of the body as far as it is known, 0 without one. */
  readonly bytes: number;
  readonly scan?: JsonScanResult | undefined;
  readonly multipart?: MultipartFields;
  /** Unreadable, being text of another encoding: servers may read it. */
  readonly isWide?: boolean | undefined;
  /** What was read of the prompt, where prompts are hashed. */
  readonly prompt?: PromptRead | undefined;
}

const maxModelChars = 512;
const maxProfileChars = 64;

export function classify(head: ClassifyHead, body: ClassifyBody, settings: ClassifySettings): Job | Refusal {
  const found = findEndpoint(head.method, head.target);
  const { control } = found;
  if (control !== undefined && !settings.openRoutes.includes(control)) return routeClosed(control);

  const scan = body.scan?.readable ? body.scan : undefined;
  const endpoint = found.reads === 'invocations' ? resolveInvocation(found, scan) : found;
  const keys = keysRead(found.reads);
  const references = keysRead(found.refersBy ?? 'nothing');
  const duplicate =
    scan?.duplicates.find(
      (key) => keys.has(key) || references.has(key) || (key === 'priority' && takesPriority(endpoint)),
    ) ?? body.multipart?.duplicates[0];
  if (duplicate !== undefined) return duplicateKey(duplicate);

  const { query } = splitTarget(head.target);
  const stream = asksForStream(endpoint, { scan, multipart: body.multipart, query });
  const takesUsageAsk = scan !== undefined && (endpoint.format === 'chat' || endpoint.format === 'completions');
  const usage = takesUsageAsk ? readUsageAsk(scan, stream) : { byClient: false };
  if (isRefusal(usage)) return usage;
  const shape = readAnswerShape(endpoint.reads, scan);
  const slo = head.header('x-warmlane-slo')?.trim().slice(0, maxProfileChars);
  const { key: stickyKey, ids } = readReferences({
    endpoint,
    query,
    scan,
    bodyBytes: body.bytes,
    conversationHeader: head.header('x-conversation-id'),
  });

  const counts = scan === undefined ? uncounted : readCounts(scan, endpoint.reads, keys);
  const named = readModel(endpoint, { body, scan, query, method: head.method });
  const job: Writable<Job> = {
    requestId: head.requestId,
    endpoint: endpoint.kind,
    method: head.method,
    target: head.target,
    format: endpoint.format,
    generates: endpoint.generates,
    stream,
    choices: counts.choices,
    bodyBytes: body.bytes,
    readable: scan !== undefined,
    lane: readServiceTier(scan),
    usage,
    measured: endpoint.measured,
    ...(slo === undefined || slo === '' ? {} : { slo }),
    ...(shape === undefined ? {} : { shape }),
  };
  // One by one: a spread inside the literal is copied key by key, some microseconds a request in all.
  if (counts.maxOutputTokens !== undefined) job.maxOutputTokens = counts.maxOutputTokens;
  if (named.model !== undefined) job.model = named.model;
  const served = resolveAlias(named.model, settings.modelAliases);
  if (served !== undefined && served !== named.model) job.servedModel = served;
  if (named.modelSpan !== undefined) job.modelSpan = named.modelSpan;
  if (named.modelUnread !== undefined) job.modelUnread = named.modelUnread;
  if (stream && takesUsageAsk) job.firstMember = { at: scan.objectStart + 1, empty: scan.empty };
  if (stickyKey !== undefined) job.stickyKey = stickyKey;
  if (ids.length > 0) job.refersTo = ids;
  const isStoredChat = endpoint.kind === 'chat' && scan?.fields.get('store')?.kind === 'true';
  if (endpoint.keeps === true || isStoredChat) job.stored = true;
  const { choices } = counts;
  const { kind, generates } = endpoint;
  const repeatable = readRepeatable({ kind, generates, scan, choices, sticky: stickyKey !== undefined });
  if (repeatable !== undefined) job.repeatable = repeatable;
  const place = scan === undefined ? undefined : priorityPlace(scan, endpoint);
  if (place !== undefined) job.priorityPlace = place;
  if (scan === undefined && takesPriority(endpoint) && isCovered(head, body)) job.priorityUnread = true;
  if (generates && scan !== undefined) {
    const prefix = body.prompt?.chain(served, readAdapter(endpoint, scan));
    if (prefix !== undefined) job.prefix = prefix;
    const session = readSessionHint({
      scan,
      isMessages: kind === 'messages',
      header: (name) => head.header(name),
      headers: settings.sessionHeaders ?? defaultSessionHeaders,
    });
    if (session !== undefined) job.session = session;
  }
  return job;
}

/** Elsewhere a `priority` may mean anything. */
function takesPriority({ kind, generates }: Endpoint): boolean {
  return generates || kind === 'embeddings' || kind === 'rerank';
}

/** A server may find JSON in it though there is none to be seen here. What is JSON for nobody is the engine's to refuse. */
function isCovered(head: ClassifyHead, { bytes, multipart, isWide }: ClassifyBody): boolean {
  if (isWide === true) return true;
  const coding = head.header('content-encoding')?.trim().toLowerCase() ?? '';
  return bytes > 0 && multipart === undefined && coding !== '' && coding !== 'identity';
}

function priorityPlace({ fields, objectStart, empty }: JsonScanResult, endpoint: Endpoint): PriorityPlace | undefined {
  const own = fields.get('priority');
  if (own !== undefined && takesPriority(endpoint)) {
    const { start, end, removal } = own;
    return removal === undefined ? { kind: 'value', start, end } : { kind: 'value', start, end, removal };
  }
  if (!endpoint.generates) return undefined;
  const at = objectStart + 1;
  return { kind: empty ? 'only' : 'first', start: at, end: at };
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };

const uncounted: AskedCounts = { choices: 1 };

/** `/invocations` takes several kinds of body: its keys tell which, as vLLM decides it. */
function resolveInvocation(endpoint: Endpoint, scan: JsonScanResult | undefined): Endpoint {
  if (scan?.fields.has('messages')) return { ...endpoint, kind: 'chat', format: 'chat', reads: 'chat' };
  if (scan?.fields.has('prompt'))
    return { ...endpoint, kind: 'completions', format: 'completions', reads: 'completions' };
  return endpoint;
}

/** Two names for one model have one cache. */
function resolveAlias(model: string | undefined, aliases: ClassifySettings['modelAliases']): string | undefined {
  return model !== undefined && Object.hasOwn(aliases, model) ? aliases[model] : model;
}

const adapterKeys = new Map([['adapter_id', 1024]]);

/** TGI's adapter stands beside its sampling; other engines' are among the prompt's members. */
function readAdapter(endpoint: Endpoint, scan: JsonScanResult): string | undefined {
  const parameters = endpoint.reads === 'native' ? scan.fields.get('parameters') : undefined;
  if (parameters?.kind !== 'object' || parameters.value === undefined) return undefined;
  return readJsonString(scanJson(parameters.value, adapterKeys).fields.get('adapter_id'));
}

interface StreamSources {
  readonly scan: JsonScanResult | undefined;
  readonly multipart: MultipartFields | undefined;
  readonly query: string;
}

/** A literal `true` only: what else an engine may take for true (`1`, `"true"`) shows in the answer's content type. */
function asksForStream(endpoint: Endpoint, { scan, multipart, query }: StreamSources): boolean {
  if (endpoint.streams === 'always') return true;
  if (endpoint.kind === 'responses' && endpoint.pathId !== undefined) return queryValue(query, 'stream') === 'true';
  if (!keysRead(endpoint.reads).has('stream')) return multipart?.stream?.value === 'true';
  const asked = scan?.fields.get('stream')?.kind;
  if (endpoint.streams === 'unless_refused' && scan !== undefined && (asked === undefined || asked === 'null'))
    return true;
  return asked === 'true';
}

interface ModelSources {
  readonly body: ClassifyBody;
  readonly scan: JsonScanResult | undefined;
  readonly query: string;
  readonly method: string;
}

/** The model and where its name stands; a name that is no string, empty or too long counts as none. */
function readModel(
  endpoint: Endpoint,
  { body, scan, query, method }: ModelSources,
): Pick<Job, 'model' | 'modelSpan' | 'modelUnread'> {
  const { multipart } = body;
  if (multipart !== undefined) {
    const field = multipart.model;
    if (field === undefined) return multipart.fileBegan && !multipart.closed ? { modelUnread: true } : {};
    const { start, end, value } = field;
    return isModelName(value) ? { model: value, modelSpan: { start, end, raw: true } } : {};
  }
  const field = keysRead(endpoint.reads).has('model') ? scan?.fields.get('model') : undefined;
  const named = readJsonString(field);
  if (field !== undefined && isModelName(named))
    return { model: named, modelSpan: { start: field.start, end: field.end } };
  // llama-server's router and WebSocket routes name it in the query of a GET.
  const elsewhere = endpoint.pathModel ?? (method === 'GET' ? queryValue(query, 'model') : undefined);
  return isModelName(elsewhere) ? { model: elsewhere } : {};
}

function isModelName(name: string | undefined): name is string {
  return name !== undefined && name !== '' && name.length <= maxModelChars;
}
