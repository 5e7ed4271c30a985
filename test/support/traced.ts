/** A warmlane whose spans go to a receiver of the test's own, and what one request through it left there. */
import type { Engine } from '../../src/domain/names.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { ScriptedServer, ScriptedServerSettings } from '../../src/sim/faults.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { backendsAre, scripted } from './exchange.ts';
import { type DecodedSpan, type OtlpReceiver, startOtlpReceiver } from './otlp-receiver.ts';
import type { ConfigChange, Proxy } from './proxy.ts';
import { postBytes, chatBody, R0, type RawAnswer } from './raw-http.ts';
import { type Stage, usersOf } from './stage.ts';

export interface Traced {
  readonly proxy: Proxy;
  readonly backends: readonly ScriptedServer[];
  readonly receiver: OtlpReceiver;
  /** Sends one request and waits for its answer and its record. */
  send(request?: string): Promise<{ readonly answer: RawAnswer; readonly record: RequestRecord }>;
  /** Users' requests that the backends got, in order. */
  asked(): readonly RawRequest[];
}

export interface TracedOptions {
  readonly backends?: number;
  readonly engine?: Engine;
  readonly change?: ConfigChange;
  readonly env?: Readonly<Record<string, string>>;
}

/** `closeReceivers` closes the receiver; the stage all else. */
export async function tracedProxy(
  stage: Stage,
  onRequest: NonNullable<ScriptedServerSettings['onRequest']>,
  options: TracedOptions = {},
): Promise<Traced> {
  const { engine = 'openai', change, env } = options;
  const receiver = await startOtlpReceiver();
  receivers.push(receiver);
  const backends: ScriptedServer[] = [];
  for (let number = 0; number < (options.backends ?? 1); number += 1)
    backends.push(await scripted(stage, onRequest, engine));
  const proxy = await stage.proxy(backends, {
    change: backendsAre(backends, engine, change),
    env: { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: receiver.tracesUrl, OTEL_BSP_SCHEDULE_DELAY: '20', ...env },
  });
  let sent = 0;
  return {
    proxy,
    backends,
    receiver,
    async send(request = R0) {
      const client = await stage.client(proxy);
      client.send(request);
      sent += 1;
      const answer = await client.answer();
      const record = (await proxy.records(sent))[sent - 1];
      if (record === undefined) throw new Error('no record');
      return { answer, record };
    },
    asked: () => backends.flatMap(usersOf).toSorted((a, b) => a.headMs - b.headMs),
  };
}

const receivers: OtlpReceiver[] = [];

/** To be called after each test that had one. */
export async function closeReceivers(): Promise<void> {
  await Promise.all(receivers.splice(0).map((receiver) => receiver.close()));
}

/** R0 with these headers. */
export function tracedRequest(headers: Readonly<Record<string, string>>): string {
  return postBytes('/v1/chat/completions', chatBody, headers);
}

export function headersNamed(request: RawRequest | undefined, name: string): readonly string[] {
  return (request?.headers ?? []).filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
}

/** The one span of this name. */
export function spanNamed(spans: readonly DecodedSpan[], name: string): DecodedSpan {
  const found = spans.filter((span) => span.name === name);
  const [first] = found;
  if (first === undefined || found.length > 1)
    throw new Error(`${found.length} spans are called ${name}; there are ${spans.map((span) => span.name).join(', ')}`);
  return first;
}

/** Children lie within their parents, and hang below a span that is there. @returns what doesn't */
export function misplaced(spans: readonly DecodedSpan[]): readonly string[] {
  return spans.flatMap((span) => {
    const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
    if (parent === undefined) return span.kind === 2 ? [] : [`${span.name}: no parent`];
    const within = parent.startNs <= span.startNs && span.endNs <= parent.endNs && span.startNs <= span.endNs;
    return within && parent.traceId === span.traceId ? [] : [`${span.name}: not within ${parent.name}`];
  });
}
