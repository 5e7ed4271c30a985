/**
 * Are connections used again: after short answers, after streams, after errors? Asked on a pool of its own, judged by
 * what happened and by what the headers promised (R01: some close in spite of them).
 */
import type { Asker } from './asker.ts';
import { chatPath, endlessFrom } from './asker.ts';
import { chatBody, countingMessages } from './chat-body.ts';
import { finding, type Finding } from './finding.ts';
import type { Seen } from './wire.ts';

export interface KeepAliveEvidence {
  readonly first: Seen;
  readonly afterShort?: Seen;
  readonly stream?: Seen;
  readonly afterStream?: Seen;
  readonly error?: Seen;
  readonly afterError?: Seen;
}

const answerTokens = 4;
/** Time for a FIN that follows an answer to arrive. */
const settleMs = 40;

export async function probeKeepAlive(asker: Asker): Promise<KeepAliveEvidence> {
  const wire = asker.newWire();
  // One after the other with a pause: the connection before must be back in the pool, or be seen to close.
  const ask = async (request: { readonly path: string; readonly body?: object | string }) => {
    await asker.pause(settleMs);
    const timeoutMs = Math.max(1, Math.min(20_000, asker.purse.leftMs()));
    return wire.ask({ ...request, fresh: false, timeoutMs, mostTokens: endlessFrom(answerTokens) });
  };
  const models = () => ask({ path: '/v1/models' });
  try {
    const first = await models();
    const afterShort = await models();
    if (!asker.purse.take(60)) return { first, afterShort };
    const body = chatBody(
      { model: asker.model, messages: countingMessages(asker.nonce()), maxTokens: answerTokens, stream: true },
      asker.endpoint.facts?.engine,
    );
    const stream = await ask({ path: chatPath, body });
    const afterStream = await models();
    const error = await ask({ path: chatPath, body: '{"messages":' });
    const afterError = await models();
    return { first, afterShort, stream, afterStream, error, afterError };
  } finally {
    wire.close();
  }
}

export function judgeKeepAlive(evidence: KeepAliveEvidence): readonly Finding[] {
  const { first, afterShort, stream, afterStream, error, afterError } = evidence;
  const told = /timeout=(\d+)/.exec(first.headers['keep-alive'] ?? '')?.[1];
  const findings = [
    reuse('keep_alive.short', 'short answers', { answer: first, next: afterShort, bad: 'warn' }),
    reuse('keep_alive.stream', 'streams', { answer: stream, next: afterStream, bad: 'warn' }),
    reuse('keep_alive.error', 'errors', { answer: error, next: afterError, bad: 'ok' }),
    told === undefined
      ? finding('keep_alive.idle', 'unknown', 'how long an unused connection lives is not told', {
          remedy: 'keep pooled connections for less than 5 s, the shortest usual limit, or retry once on a fresh one',
        })
      : finding('keep_alive.idle', 'ok', `an unused connection lives ${told} s, as it says`),
  ];
  return findings;
}

interface Reuse {
  readonly answer: Seen | undefined;
  readonly next: Seen | undefined;
  /** Verdict when it is not used again. */
  readonly bad: 'warn' | 'ok';
}

function reuse(check: string, what: string, { answer, next, bad }: Reuse): Finding {
  if (answer?.status === undefined || next === undefined) return finding(check, 'unknown', `not tried after ${what}`);
  if (next.fault !== undefined && next.reused) {
    return finding(check, 'warn', `the connection broke when it was used again after ${what}`, {
      evidence: next.fault.detail,
      remedy: 'retry once on a fresh connection, as warmlane does',
    });
  }
  if (next.reused) return finding(check, 'ok', `the connection is used again after ${what}`);
  const says = answer.headers['connection']?.toLowerCase();
  const promised = says !== 'close' && (says === 'keep-alive' || answer.headers['keep-alive'] !== undefined);
  return finding(
    check,
    bad,
    `closes the connection after ${what}${promised ? ', though its headers promise to keep it' : ''}`,
    {
      evidence: `connection: ${says ?? 'none'}, keep-alive: ${answer.headers['keep-alive'] ?? 'none'}`,
      remedy:
        bad === 'ok'
          ? undefined
          : `each request behind one pays for a connection; do not pool it after ${what} (warmlane does not)`,
    },
  );
}
