/**
 * What answers and errors look like: usage, cached tokens, counts per event, unknown models, broken JSON, latency. Pure.
 */
import { isObject, objectAt } from '../../measure/dialect/facts.ts';
import { finding, type Finding, isKeyRefusal, printable } from './finding.ts';
import { medianOf, msText, spreadOf, spreadText } from './statistics.ts';
import { jsonIn, ttftOf, type Seen } from './wire.ts';

/** What to do about an answer without an end. */
export const bounded = 'max_tokens does not reach the engine, or a hop repeats itself: let it through';

/** Said only where a stream did not end as it should. */
export function judgeEnd(
  { fault, error, tokenMs }: Seen,
  { askedTokens, hurried }: { readonly askedTokens: number; readonly hurried: boolean },
): readonly Finding[] {
  if (fault?.kind === 'endless') {
    const evidence = `${askedTokens} tokens were asked for; ${fault.detail}, then the doctor left`;
    return [finding('stream.end', 'bad', 'a stream goes on far past max_tokens', { evidence, remedy: bounded })];
  }
  if (fault !== undefined) {
    const evidence = `${fault.detail}; ${tokenMs.length} token events came`;
    // By the time of the whole run: that says little of the stream.
    const verdict = fault.kind === 'timeout' && hurried ? 'unknown' : 'bad';
    const says = fault.kind === 'timeout' ? 'a small stream was not over in time' : 'a stream broke off';
    return [finding('stream.end', verdict, says, { evidence })];
  }
  if (error === undefined) return [];
  return [finding('stream.end', 'bad', 'a stream ended with an error', { evidence: printable(error.message) })];
}

export function judgeUsage(plain: Seen, perEvent: Seen | undefined, engine: string | undefined): readonly Finding[] {
  const { usage, timings } = plain;
  const counts =
    usage?.output === undefined ? undefined : `${usage.prompt ?? '?'} prompt and ${usage.output} output tokens`;
  const cached = usage?.cached ?? timings?.cached;
  const unread = plain.fault === undefined ? undefined : 'the stream was not seen to its end, where usage comes';
  const findings = [
    counts === undefined && unread !== undefined
      ? finding('usage.stream', 'unknown', unread)
      : counts === undefined
        ? finding('usage.stream', 'warn', 'streams do not report usage, even when asked for it', {
            evidence: 'stream_options.include_usage was sent',
            remedy: 'tokens can only be estimated: let include_usage through to the engine',
          })
        : finding('usage.stream', 'ok', 'streams report usage when asked', { evidence: counts }),
    cached === undefined && unread !== undefined
      ? finding('usage.cached', 'unknown', unread)
      : cached === undefined
        ? finding('usage.cached', 'warn', 'cached tokens are not reported', {
            remedy:
              engine === 'vllm'
                ? 'start vLLM with --enable-prompt-tokens-details'
                : engine === 'sglang'
                  ? 'start SGLang with --enable-cache-report'
                  : 'hits can then be told by time to first token only (doctor --cache tries)',
          })
        : finding('usage.cached', 'ok', 'cached tokens are reported', {
            evidence: usage?.cached === undefined ? 'timings.cache_n' : 'usage.prompt_tokens_details.cached_tokens',
          }),
  ];
  if (perEvent !== undefined) {
    const many = perEvent.tokenMs.length > 1 && perEvent.usageEvents >= perEvent.tokenMs.length;
    findings.push(
      many
        ? finding('usage.per_event', 'ok', 'continuous_usage_stats gives counts in every event')
        : finding('usage.per_event', 'ok', 'no counts in every event (continuous_usage_stats has no effect)'),
    );
  }
  return findings;
}

export function judgeErrors(unknownModel: Seen | undefined, badJson: Seen): readonly Finding[] {
  const findings: Finding[] = [];
  if (unknownModel?.status !== undefined) {
    const { status } = unknownModel;
    findings.push(
      isKeyRefusal(status)
        ? hidden('errors.model', 'what becomes of an unknown model', status)
        : status === 200
          ? finding('errors.model', 'warn', 'an unknown model name is accepted', {
              remedy:
                'a mistyped name is served by whatever is loaded: check names in front (warmlane does with several backends)',
            })
          : status >= 500
            ? finding('errors.model', 'warn', `an unknown model is answered as a server error (${status})`, {
                remedy: 'clients retry such errors in vain; a 404 is right',
              })
            : finding('errors.model', 'ok', `an unknown model is refused with ${status}`),
    );
  }
  if (badJson.status !== undefined) {
    findings.push(
      isKeyRefusal(badJson.status)
        ? hidden('errors.json', 'what becomes of broken JSON', badJson.status)
        : badJson.status >= 400 && badJson.status < 500
          ? finding('errors.json', 'ok', `broken JSON is refused with ${badJson.status}`)
          : finding('errors.json', 'warn', `broken JSON is answered with ${badJson.status}`, {
              remedy:
                badJson.status < 400
                  ? 'what answers here does not read its requests: look at the path of the URL'
                  : 'it is no fault of the server: do not count it as one, do not retry it',
            }),
    );
  }
  const refusal = [unknownModel, badJson].find((answer) => answer?.status !== undefined && answer.status >= 400);
  return refusal === undefined ? findings : [...findings, judgeShape(refusal)];
}

/** Refused for the key before anything else of it was looked at. */
function hidden(check: string, what: string, status: 401 | 403): Finding {
  return finding(check, 'unknown', `${what} can not be seen: the key was refused first (${status})`, {
    remedy:
      status === 401
        ? 'give a key with --api-key'
        : 'give a key that is not restricted, or run the doctor at the engine itself',
  });
}

function judgeShape(answer: Seen): Finding {
  const json = jsonIn(answer.body);
  const error = isObject(json) ? objectAt(json, 'error') : undefined;
  const good = typeof error?.['message'] === 'string' && error['type'] !== undefined;
  return good
    ? finding('errors.shape', 'ok', "errors have OpenAI's shape")
    : finding('errors.shape', 'warn', "errors have not OpenAI's shape, so client libraries show no message", {
        evidence: printable(answer.body.slice(0, 120)),
      });
}

export interface Latency {
  readonly ttftMs: number;
  readonly itlMs: number;
}

export function latencyOf(streams: readonly Seen[]): Latency | undefined {
  const ttfts = streams.map(ttftOf).filter((ms) => ms !== undefined);
  const gaps = streams.flatMap(gapsOf);
  if (ttfts.length === 0) return undefined;
  return { ttftMs: medianOf(ttfts), itlMs: gaps.length === 0 ? 0 : medianOf(gaps) };
}

/** Mean gap of each stream: single gaps say nothing where several tokens share a read. */
function gapsOf({ tokenMs, tokenReadMs, sentMs, timings }: Seen): readonly number[] {
  const [first] = tokenMs;
  const last = tokenMs.at(-1);
  if (first === undefined || last === undefined || tokenMs.length < 3) return [];
  // All at once, at the end: what went before was the making of them.
  if (tokenReadMs.length <= 2) return [(timings?.predictedMs ?? last - sentMs) / tokenMs.length];
  return [(last - first) / (tokenMs.length - 1)];
}

export function judgeLatency(streams: readonly Seen[]): Finding {
  const latency = latencyOf(streams);
  if (latency === undefined) return finding('latency', 'unknown', 'no token came');
  const ttft = spreadOf(streams.map(ttftOf).filter((ms) => ms !== undefined));
  return finding(
    'latency',
    'ok',
    `time to first token ${spreadText(ttft)}, ${msText(latency.itlMs)} between token events`,
  );
}
