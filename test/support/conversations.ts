/**
 * Users who talk with a model through warmlane: each asks turn after turn, with all that was said before, over real sockets.
 * Keeps what came of each turn, so that a test can say where it went, how long it took, and whether it could have been saved.
 */
import type { RequestRecord } from '../../src/domain/record.ts';
import type { Proxy } from './proxy.ts';
import { eventually } from './stage.ts';

export interface Turn {
  readonly requestId: string;
  readonly user: number;
  /** From 0. */
  readonly turn: number;
  readonly sentMs: number;
  readonly endMs: number;
  /** 0: no answer at all. */
  readonly status: number;
  /** First byte of the body; absent when none came. */
  readonly firstMs?: number;
  /** The answer came whole, and is no error. */
  readonly ok: boolean;
}

export interface Talk {
  readonly users: number;
  readonly turns: number;
  /** What a user's conversation begins with. */
  readonly system: (user: number) => string;
  /** About so many tokens in each question. */
  readonly questionTokens: number;
  readonly answerTokens: number;
  /** Pause before each turn of a user. */
  readonly pauseMs?: (user: number, turn: number) => number;
  /** Each conversation is named to the proxy by a header. */
  readonly named?: boolean;
  /** Makes request ids, and so conversations, different from other talks of the same test. */
  readonly name: string;
  /** Ends a user's conversation early. */
  readonly until?: () => boolean;
}

/** All users at once; resolves when the last one is done. A user whose turn failed asks the same again in the next one. */
export async function talk(proxy: Pick<Proxy, 'url'>, plan: Talk): Promise<readonly Turn[]> {
  const turns: Turn[] = [];
  await Promise.all(Array.from({ length: plan.users }, (_, user) => converse(proxy, plan, { user, turns })));
  return turns;
}

async function converse(
  proxy: Pick<Proxy, 'url'>,
  plan: Talk,
  { user, turns }: { readonly user: number; readonly turns: Turn[] },
): Promise<void> {
  const messages = [{ role: 'system', content: plan.system(user) }];
  for (let turn = 0; turn < plan.turns; turn += 1) {
    if (plan.until?.() === true) return;
    const pauseMs = plan.pauseMs?.(user, turn) ?? 0;
    if (pauseMs > 0) await new Promise((resolve) => void setTimeout(resolve, pauseMs));
    const content = words(plan.questionTokens, `${plan.name}${user}-${turn}`);
    const requestId = `${plan.name}-${user}-${turn}`;
    const { text, ...made } = await ask(proxy.url, {
      requestId,
      messages: [...messages, { role: 'user', content }],
      plan,
    });
    turns.push({ requestId, user, turn, ...made });
    if (made.ok) messages.push({ role: 'user', content }, { role: 'assistant', content: text });
  }
}

interface Asked {
  readonly requestId: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly plan: Talk;
}

async function ask(
  url: string,
  { requestId, messages, plan }: Asked,
): Promise<Omit<Turn, 'requestId' | 'user' | 'turn'> & { readonly text: string }> {
  const sentMs = performance.now();
  let status = 0;
  let firstMs: number | undefined;
  let body = '';
  try {
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'X-Request-Id': requestId,
        ...(plan.named === true ? { 'X-Session-ID': requestId.slice(0, requestId.lastIndexOf('-')) } : {}),
      },
      body: JSON.stringify({
        ...{ model: 'simulated', messages, stream: true, temperature: 0 },
        ...{ max_tokens: plan.answerTokens, ignore_eos: true },
      }),
    });
    ({ status } = answer);
    const decoder = new TextDecoder();
    for await (const bytes of answer.body ?? []) {
      firstMs ??= performance.now();
      body += decoder.decode(bytes as Uint8Array, { stream: true }); // what a fetched body yields
    }
  } catch {
    // A broken answer: what came of it stands in `body`.
  }
  const ok = status === 200 && body.endsWith('data: [DONE]\n\n') && !body.includes('data: {"error"');
  const started = firstMs === undefined ? {} : { firstMs };
  return { sentMs, endMs: performance.now(), status, ok, text: textOf(body), ...started };
}

function textOf(body: string): string {
  return [...body.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)]
    .map((match) => JSON.parse(`"${match[1] ?? ''}"`) as string) // a JSON string, as its quotes say
    .join('');
}

/** So many tokens of a text that begins with `nonce`, and differs from all others there. */
export function words(tokens: number, nonce: string): string {
  return `${nonce} ${'lorem ipsum dolor sit amet '.repeat(Math.ceil(tokens / 5))}`;
}

/** The records of these turns, by request id; waits until all are there. */
export async function recordsOf(
  proxy: Pick<Proxy, 'records'>,
  turns: readonly Turn[],
): Promise<ReadonlyMap<string, RequestRecord>> {
  const wanted = new Set(turns.map(({ requestId }) => requestId));
  let found = new Map<string, RequestRecord>();
  await eventually(async () => {
    const records = await proxy.records(0);
    found = new Map(
      records.filter(({ requestId }) => wanted.has(requestId)).map((record) => [record.requestId, record]),
    );
    return found.size === wanted.size;
  }, `${wanted.size} records`);
  return found;
}

/** Share of the later turns that went where their user's turn before went. */
export function stickShare(turns: readonly Turn[], records: ReadonlyMap<string, RequestRecord>): number {
  const backendOf = new Map(
    turns.map(({ user, turn, requestId }) => [`${user} ${turn}`, records.get(requestId)?.backend]),
  );
  const later = turns.filter(({ turn }) => turn > 0);
  const stayed = later.filter(
    ({ user, turn }) => backendOf.get(`${user} ${turn}`) === backendOf.get(`${user} ${turn - 1}`),
  );
  return stayed.length / later.length;
}

/** Predicted less told, and told, as shares of the prompts; answers that didn't tell are left out. */
export function predictionOf(records: Iterable<RequestRecord>): { readonly bias: number; readonly delivered: number } {
  let [prompt, predicted, cached] = [0, 0, 0];
  for (const { routing, tokens } of records) {
    if (routing === undefined || tokens.cached === undefined || tokens.prompt === undefined) continue;
    prompt += tokens.prompt.value;
    predicted += routing.predictedTokens;
    cached += tokens.cached.value;
  }
  return { bias: (predicted - cached) / prompt, delivered: cached / prompt };
}

/** The value below which `share` of them lie. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
