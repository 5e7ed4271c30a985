/** Gives a kept answer to a client: its bytes as they were, under a head that says where they come from and how old they are. */
import type { ClientHead, ClientPort } from '../platform/client-port.ts';
import { reasonPhrase } from '../platform/reason-phrase.ts';
import type { StoredAnswer } from './stored-answer.ts';

/**
 * @param header in which the client is told of the cache
 * @param limits what that client has left of its limits, raw names and values in turn
 */
export function replayAnswer(
  client: ClientPort,
  answer: StoredAnswer,
  how: {
    readonly head: ClientHead;
    readonly header: string;
    readonly ageMs: number;
    readonly limits?: readonly string[] | undefined;
  },
): void {
  const ageSeconds = Math.max(0, Math.floor(how.ageMs / 1000));
  const headers = [
    ...answer.headers,
    'X-Request-Id',
    how.head.requestId,
    'Via',
    '1.1 warmlane',
    'Age',
    String(ageSeconds),
    how.header,
    `hit; age=${ageSeconds}`,
    ...(how.limits ?? []),
  ];
  client.head(200, reasonPhrase(200), headers, { kind: 'length', bytes: answer.body.length });
  client.write(answer.body);
  client.end();
}
