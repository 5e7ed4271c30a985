/**
 * Do aborts reach the engine? Judged by its own counters: what ran must run no more, and what was made must fall short of
 * what was asked for (no engine counts aborts reliably, R27). Without counters little can be told, and is not. Pure.
 */
import type { AbortEvidence, Pace } from './abort-probe.ts';
import { finding, type Finding } from './finding.ts';
import { msText } from './statistics.ts';

const lost =
  'a hop on the way keeps its connection to the engine open after its client left: make it cancel upstream (nginx: proxy_ignore_client_abort off)';

export function judgeAbort(evidence: AbortEvidence, pace: Pace): Finding {
  return evidence.phase === 'queued' ? judgeQueued(evidence, pace) : judgeRunning(evidence, pace);
}

function judgeRunning(evidence: AbortEvidence, pace: Pace): Finding {
  const { phase, maxTokens, tokensSeen, before, during, after } = evidence;
  const check = `abort.${phase}`;
  if (before?.running === undefined) return judgeByTiming(evidence, pace);
  if (phase === 'decode' && (during?.running ?? 0) <= before.running) {
    const says =
      before.running > 0
        ? 'others use the engine: our own request did not show beside theirs'
        : 'the counters did not show our own request: they may be another engine’s';
    return finding(check, 'unknown', says, {
      evidence: `running ${before.running} before, ${during?.running ?? 'unread'} meanwhile`,
    });
  }
  const last = after.at(-1);
  if (last === undefined) return finding(check, 'unknown', 'the counters went silent');
  const made = last.counters.generated === undefined ? undefined : last.counters.generated - (before.generated ?? 0);
  const meanwhile = during?.running === undefined ? '' : ` → ${during.running}`;
  const evidenceText = `running ${before.running}${meanwhile} → ${last.counters.running ?? '?'} ${msText(last.atMs)} after leaving; ${
    made === undefined ? 'tokens not counted' : `${made} of ${maxTokens} tokens made`
  }`;
  const text = { evidence: evidenceText };
  if (phase === 'prefill' && tokensSeen > 0)
    return finding(check, 'unknown', 'its prefill was over before we could leave', text);
  if (made !== undefined && (made < 0 || made > 1.1 * maxTokens))
    return finding(check, 'unknown', 'the counters are of others’ requests too, or of several engines in turn', text);
  if (phase === 'prefill' && before.running > 0)
    return finding(
      check,
      'unknown',
      'others use the engine: whether it still works on our prompt can not be told',
      text,
    );
  if ((last.counters.running ?? 0) > before.running) {
    // Others may have begun something meanwhile; on a server that was idle it can only be ours.
    return before.running > 0
      ? finding(check, 'unknown', 'others use the engine: whose request still runs can not be told', text)
      : finding(check, 'bad', 'the engine works on for a client that left', { ...text, remedy: lost });
  }
  if (made !== undefined && before.running === 0 && made >= 0.9 * maxTokens) {
    return maxTokens * pace.itlMs < 1000
      ? finding(check, 'unknown', 'the engine is so quick that it may have been done before the abort came', text)
      : finding(check, 'bad', 'the engine made the whole answer for a client that left', { ...text, remedy: lost });
  }
  if (phase === 'prefill' && last.atMs > 1200) {
    return finding(check, 'warn', 'the engine noticed late, at the end of a batch of prompt tokens', {
      ...text,
      remedy: 'a smaller batch (llama-server -b, vLLM --max-num-batched-tokens) makes aborts in the prefill quicker',
    });
  }
  return finding(check, 'ok', 'reaches the engine', text);
}

/** Only a gateway can be seen: an engine that still decodes may keep the next request waiting. */
function judgeByTiming({ phase, maxTokens, nextTtftMs }: AbortEvidence, pace: Pace): Finding {
  const check = `abort.${phase}`;
  const rest = maxTokens * pace.itlMs;
  if (nextTtftMs !== undefined && nextTtftMs > 3 * pace.ttftMs && nextTtftMs > pace.ttftMs + 0.4 * rest) {
    return finding(check, 'bad', 'the next request waited as if the abandoned one still ran', {
      evidence: `time to first token ${msText(nextTtftMs)}, usually ${msText(pace.ttftMs)}; what was left would take ${msText(rest)}`,
      remedy: lost,
    });
  }
  return finding(check, 'unknown', "can't be seen from here: no engine counters at /metrics", {
    ...(nextTtftMs === undefined
      ? {}
      : {
          evidence: `the next request was not held up (${msText(nextTtftMs)}), which proves nothing where several run at once`,
        }),
    remedy: 'let /metrics through, or run the doctor once at the engine and once here',
  });
}

function judgeQueued({ tokensSeen, slots, before, during, after }: AbortEvidence, { lumped }: Pace): Finding {
  const check = 'abort.queued';
  const last = after.at(-1);
  // Ours must have been at work, and the last one without a token: on all slots where tokens come late anyway. A gateway
  // may give out fewer, since it still waits for the slot of an abandoned request.
  const ours = (during?.running ?? 0) - (before?.running ?? 0);
  const taken = ours >= (lumped === true ? (slots ?? 1) : 1);
  if (tokensSeen > 0 || !taken || during === undefined || last === undefined)
    return finding(check, 'unknown', 'no request could be kept waiting');
  const waited = (during.waiting ?? 0) - (before?.waiting ?? 0);
  const evidence = `waiting in the engine ${before?.waiting ?? 0} → ${during.waiting ?? '?'} → ${last.counters.waiting ?? '?'}`;
  if (waited <= 0)
    return finding(check, 'ok', 'requests wait in front of the engine, where leaving is immediate', { evidence });
  return (last.counters.waiting ?? 0) > (before?.waiting ?? 0)
    ? finding(check, 'warn', 'an abandoned request stays in the queue of the engine while others stream', {
        evidence,
        remedy: 'keep the queue in front of it: warmlane gives the engine no more than its slots',
      })
    : finding(check, 'ok', 'reaches the queue of the engine', { evidence });
}
