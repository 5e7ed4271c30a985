/**
 * A whole warmlane before a backend that plays recorded exchanges: the request names the one it wants, the backend answers
 * with its bytes at the wanted pace. Probes are answered as the engine would.
 */
import { join } from 'node:path';
import type { RequestRecord } from '../../src/domain/record.ts';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { answerProbe } from '../../src/sim/probe-answers.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { exchangeScript, loadExchange, type RecordedExchange, type ReplayPace } from '../../src/sim/replay.ts';
import { asRecord, startProxy, type ConfigChange, type Proxy, type ShownRecord } from './proxy.ts';
import type { Recorded, RecordedServer } from './recorded.ts';
import { parseAnswer, rawClient, type RawAnswer, type RawClient } from './raw-http.ts';

export interface Replayed {
  /** As far as it came: a recording that its client broke off, or that fell silent, has no end. */
  readonly answer: RawAnswer;
  readonly record: RequestRecord;
  readonly client: RawClient;
  /** The request as the backend got it. */
  readonly asked: RawRequest;
  /** Monotonic moments of the backend's writes, on the clock of the record: one for each recorded read, at recorded pace. */
  readonly writesMs: readonly number[];
}

export interface Replaying {
  readonly proxy: Proxy;
  readonly backend: ScriptedServer;
  /** @param body instead of the recorded request's body */
  play(recorded: Recorded, pace: ReplayPace, body?: string | Buffer): Promise<Replayed>;
  close(): Promise<void>;
}

const wanted = 'X-Recording';
const root = join(import.meta.dirname, '../fixtures/recorded');

export async function startReplaying(engine: RecordedServer, change: ConfigChange = {}): Promise<Replaying> {
  const scripts = new Map<string, { readonly exchange: RecordedExchange; readonly pace: ReplayPace }>();
  const backend = await createScriptedServer({
    probes: false,
    onRequest(request) {
      const script = scripts.get(request.header(wanted) ?? '');
      return script === undefined
        ? answerProbe(request, { engine, slots: 4 })
        : exchangeScript(script.exchange, script.pace);
    },
  });
  const backends = [{ url: backend.url, name: 'recorded', engine, maxInFlight: 1000 }];
  const proxy = await startProxy([backend.url], { ...change, fleet: { ...change.fleet, backends } });
  const clients: RawClient[] = [];
  let count = 0;

  return {
    proxy,
    backend,
    async play(recorded, pace, body) {
      count += 1;
      const id = `${recorded.name}-${count}`;
      scripts.set(id, { exchange: await loadExchange(join(root, recorded.server, recorded.name)), pace });
      const client = await rawClient(proxy.port);
      clients.push(client);
      client.send(requestBytes(recorded, id, body));
      await untilPlayed(client, recorded);
      const answer = parseAnswer(client.received, client.ended !== 'no');
      client.leave();
      const record = await recordOf(proxy, id);
      const asked = backend.requests.find((request) => request.header(wanted) === id);
      if (answer === undefined || asked === undefined) throw new Error(`${id} left no trace`);
      const { events } = backend.connectionOf(asked);
      const writesMs = events
        .filter(({ kind, atMs }) => kind === 'wrote' && atMs >= asked.headMs)
        .map(({ atMs }) => atMs);
      return { answer, record, client, asked, writesMs: writesMs.slice(0, recorded.reads.length) };
    },
    async close() {
      for (const client of clients) client.leave();
      await proxy.close();
      await backend.close();
    },
  };
}

/** Some hundred thousand writes of one byte each take a quarter of it on a machine that does nothing else. */
const longestPlayMs = 55_000;

/** Looks only now and then: an answer that comes byte by byte would else be read anew at each of them. */
async function untilPlayed(client: RawClient, recorded: Recorded): Promise<void> {
  const untilMs = performance.now() + longestPlayMs;
  const isPlayed = (): boolean => {
    if (client.ended !== 'no') return true;
    const answer = parseAnswer(client.received);
    return endsByItself(recorded) ? answer?.complete === true : (answer?.body.length ?? 0) >= recorded.body.length;
  };
  while (!isPlayed()) {
    if (performance.now() > untilMs)
      throw new Error(`${recorded.name}: ${client.receivedBytes} bytes in ${longestPlayMs / 1000} s`);
    await new Promise((resolve) => void setTimeout(resolve, 15));
  }
}

/** The server ended its answer, one way or another. */
export function endsByItself({ meta }: Recorded): boolean {
  return meta.end === 'complete' || meta.end === 'closed by server';
}

function requestBytes({ request }: Recorded, id: string, body: string | Buffer = request.body): Buffer {
  const bytes = Buffer.from(body as Buffer);
  const head = [
    `${request.method} ${request.path} HTTP/1.1`,
    'Host: test',
    `X-Request-Id: ${id}`,
    `${wanted}: ${id}`,
    ...(request.method === 'POST' ? ['Content-Type: application/json', `Content-Length: ${bytes.length}`] : []),
  ];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]);
}

async function recordOf(proxy: Proxy, id: string): Promise<RequestRecord> {
  const untilMs = performance.now() + 5000;
  for (;;) {
    const answer = await fetch(`${proxy.adminUrl}/records/${id}`);
    if (answer.status === 200) return asRecord((await answer.json()) as ShownRecord);
    if (performance.now() > untilMs) throw new Error(`no record of ${id}`);
    await new Promise((resolve) => void setTimeout(resolve, 10));
  }
}
