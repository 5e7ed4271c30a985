/**
 * Chats with the endpoint under a budget: builds the body, takes the request out of the purse, bounds its time. What a
 * run can't afford is not sent and comes back as undefined. Effects only.
 */
import type { Clock } from '../../platform/clock.ts';
import { chatBody, nonceFrom, type ChatAsk } from './chat-body.ts';
import type { Endpoint } from './endpoint.ts';
import type { Purse } from './purse.ts';
import { createWire, type Call, type Seen, type Wire, type WireRequest } from './wire.ts';

export interface Asker {
  readonly endpoint: Endpoint;
  readonly model: string | undefined;
  readonly clock: Clock;
  readonly purse: Purse;
  /** Eight letters that stand at the beginning of a prompt. */
  nonce(): string;
  /** @param promptTokens about how many, for the purse */
  chat(ask: AskedChat, request?: Partial<WireRequest>): Promise<Seen | undefined>;
  /** As `chat`, to be gone away from. */
  open(ask: AskedChat, request?: Partial<WireRequest>): Call | undefined;
  /** Anything else; generates nothing. */
  plain(request: Omit<WireRequest, 'timeoutMs'>): Promise<Seen>;
  /** One with connections of its own. */
  newWire(): Wire;
  pause(ms: number): Promise<void>;
  close(): void;
}

export type AskedChat = Omit<ChatAsk, 'model'> & { readonly model?: string; readonly promptTokens: number };

export interface AskerSettings {
  readonly model: string | undefined;
  readonly apiKey: string | undefined;
  /** Bound of one request. */
  readonly requestMs: number;
}

export interface AskerDeps {
  readonly clock: Clock;
  readonly purse: Purse;
  readonly random: () => number;
}

export const chatPath = '/v1/chat/completions';

/** Some engines send a token in several events; four times as many as were asked for is no answer to the question. */
export function endlessFrom(maxTokens: number): number {
  return 4 * maxTokens + 100;
}

const nothing = Promise.resolve(undefined);

export function createAsker(endpoint: Endpoint, settings: AskerSettings, { clock, purse, random }: AskerDeps): Asker {
  const engine = endpoint.facts?.engineKnown === true ? endpoint.facts.engine : undefined;
  const { model, apiKey } = settings;
  const newWire = () =>
    createWire(
      {
        url: endpoint.url,
        ...(apiKey === undefined ? {} : { apiKey }),
        ...(engine === undefined ? {} : { engine }),
      },
      clock,
    );
  const wire = newWire();
  const timeoutMs = () => Math.max(1, Math.min(settings.requestMs, purse.leftMs()));

  const open: Asker['open'] = ({ promptTokens, ...ask }, request = {}) => {
    if (!purse.take(promptTokens)) return undefined;
    const body = chatBody({ ...ask, model: ask.model ?? model }, engine);
    const mostTokens = endlessFrom(ask.maxTokens);
    return wire.call({ path: chatPath, body, timeoutMs: timeoutMs(), mostTokens, ...request });
  };
  return {
    endpoint: { ...endpoint, counters: () => (purse.leftMs() === 0 ? nothing : endpoint.counters(timeoutMs())) },
    model,
    clock,
    purse,
    nonce: () => nonceFrom(random),
    open,
    chat: async (ask, request) => open(ask, request)?.done,
    plain: (request) => wire.ask({ ...request, timeoutMs: Math.min(5000, timeoutMs()) }),
    newWire,
    // Held by a timer that keeps the process alive, unlike those of the clock.
    pause: (ms) => new Promise((resolve) => void setTimeout(resolve, Math.min(ms, purse.leftMs()))),
    close: () => wire.close(),
  };
}
