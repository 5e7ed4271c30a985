/** Several scripted backends behind one warmlane, with the order in which they were asked. */
import type { Engine } from '../../src/domain/names.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { Script } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import { backendsAre, scripted } from './exchange.ts';
import type { ConfigChange, Proxy } from './proxy.ts';
import { R0, type RawAnswer } from './raw-http.ts';
import type { Stage } from './stage.ts';

export interface SeveralBackends {
  readonly proxy: Proxy;
  readonly backends: readonly ScriptedServer[];
  /** Numbers of the backends that got a request, in order. */
  readonly asked: readonly number[];
  /** Sends one request (R0 unless given) and waits for its answer and its record. */
  send(request?: string): Promise<{ readonly answer: RawAnswer; readonly record: RequestRecord }>;
}

export interface SeveralOptions {
  readonly count: number;
  readonly engine?: Engine;
  readonly change?: ConfigChange;
}

/** @param answer is told the how manyth request it is, of all backends together, from 1 */
export async function severalBackends(
  stage: Stage,
  options: SeveralOptions,
  answer: (nth: number) => Script,
): Promise<SeveralBackends> {
  const { count, engine = 'openai', change } = options;
  const asked: number[] = [];
  const backends: ScriptedServer[] = [];
  for (let number = 0; number < count; number += 1) {
    const onRequest = (): Script => {
      asked.push(number);
      return answer(asked.length);
    };
    backends.push(await scripted(stage, onRequest, engine));
  }
  const proxy = await stage.proxy(backends, { change: backendsAre(backends, engine, change) });
  let sent = 0;
  return {
    proxy,
    backends,
    asked,
    async send(request = R0) {
      const client = await stage.client(proxy);
      client.send(request);
      sent += 1;
      const got = await client.answer();
      const record = (await proxy.records(sent))[sent - 1];
      if (record === undefined) throw new Error('no record');
      return { answer: got, record };
    },
  };
}
