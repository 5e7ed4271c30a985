/** A whole warmlane before simulated or scripted servers, with its pages of engines and findings, and short pauses. */
import { createSimServer, type SimServer } from '../../src/sim/server.ts';
import type { LlamaServerSettings, VllmServerSettings } from '../../src/sim/server-settings.ts';
import { startProxy, type ConfigChange, type Proxy } from './proxy.ts';
import { eventually } from './stage.ts';

export interface ShownFinding {
  readonly finding: string;
  readonly backend: string;
  readonly says: string;
  readonly evidence: Readonly<Record<string, number | string>>;
  readonly began: string;
  readonly ended?: string;
  readonly lastedMs: number;
}

export interface ShownEngine {
  readonly backend: string;
  readonly engine: string;
  readonly metrics: string;
  readonly why?: string;
  readonly now?: { readonly there: Record<string, number>; readonly here: Record<string, number> };
  readonly windows?: Readonly<
    Record<
      string,
      { readonly restarted?: true; readonly there: Record<string, number>; readonly here: Record<string, number> }
    >
  >;
  readonly totals?: Readonly<Record<string, number>>;
  readonly points?: readonly object[];
}

export interface ChatAsk {
  readonly id?: string;
  readonly prompt?: string;
  readonly maxTokens?: number;
  readonly stream?: boolean;
}

export interface FindingWorld {
  sim(settings: VllmServerSettings | LlamaServerSettings): Promise<SimServer>;
  proxy(urls: readonly string[], change?: ConfigChange): Promise<Proxy>;
  close(): Promise<void>;
}

/** Readings ten times a second. */
export const quick: ConfigChange = { fleet: { probeIntervalMs: 100, probeDownIntervalMs: 100, probeTimeoutMs: 1000 } };

export function createFindingWorld(): FindingWorld {
  const open: { close(): Promise<void> }[] = [];
  return {
    async sim(settings) {
      const server = await createSimServer(settings);
      open.push(server);
      return server;
    },
    async proxy(urls, change = {}) {
      const proxy = await startProxy(urls, { ...change, fleet: { ...quick.fleet, ...change.fleet } });
      open.unshift(proxy);
      return proxy;
    },
    async close() {
      for (const one of open.splice(0)) await one.close();
    },
  };
}

/** Sends one chat and takes the whole answer. */
export async function chat(url: string, ask: ChatAsk = {}): Promise<string> {
  const { id, prompt = 'hello there', maxTokens = 20, stream = true } = ask;
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(id === undefined ? {} : { 'X-Request-Id': id }) },
    body: JSON.stringify({
      model: 'simulated',
      stream,
      max_tokens: maxTokens,
      ignore_eos: true,
      messages: [{ role: 'user', content: prompt }],
    }),
  });
  return answer.text();
}

export function words(count: number, first = 'nonce'): string {
  return `${first} ${'word '.repeat(count)}`;
}

export async function findingsOf(proxy: Proxy): Promise<{ active: ShownFinding[]; ended: ShownFinding[] }> {
  const answer = await fetch(`${proxy.adminUrl}/findings`);
  return (await answer.json()) as { active: ShownFinding[]; ended: ShownFinding[] }; // as findings-page.ts writes it
}

export async function enginesOf(proxy: Proxy, query = ''): Promise<ShownEngine[]> {
  const answer = await fetch(`${proxy.adminUrl}/engines${query}`);
  return ((await answer.json()) as { engines: ShownEngine[] }).engines; // as engines-page.ts writes it
}

/** Waits until a finding holds. */
export async function untilFound(proxy: Proxy, name: string, timeoutMs = 10_000): Promise<ShownFinding> {
  let found: ShownFinding | undefined;
  await eventually(
    async () => {
      found = (await findingsOf(proxy)).active.find(({ finding }) => finding === name);
      return found !== undefined;
    },
    `the finding ${name}`,
    timeoutMs,
  );
  if (found === undefined) throw new Error('eventually() gave too early');
  return found;
}
