/**
 * `warmlane doctor URL`: one look at everything, in a fixed order, each step under the budget. Reads top to bottom; what
 * the answers mean is said by the `judge…` functions.
 */
import { abortDecoding, abortPrefill, abortQueued, prefillTokens, type Pace } from './abort-probe.ts';
import { judgeAbort } from './abort.ts';
import { bounded, judgeEnd, judgeErrors, judgeLatency, judgeUsage, latencyOf } from './answers.ts';
import { chatPath, type Asker } from './asker.ts';
import { arrivalOf, flowOf, judgeBuffering, noToken } from './buffering.ts';
import { countingMessages } from './chat-body.ts';
import type { Endpoint } from './endpoint.ts';
import { finding, printable, type Finding } from './finding.ts';
import { gatewaysIn } from './gateways.ts';
import { judgeFlags, judgeIdentity } from './identity.ts';
import { judgeKeepAlive, probeKeepAlive } from './keep-alive.ts';
import type { Budget } from './purse.ts';
import { isSilent, isWebPage, type Seen } from './wire.ts';

const answerTokens = 24;
/** Past this the queue would have to be filled with too much work. */
const mostSlots = 4;

/** What the run below costs at most. */
export function diagnosisBudget(endpoint: Endpoint, timeoutMs: number): Budget {
  const slots = slotsToFill(endpoint);
  const requests = 8 + (slots === undefined ? 0 : slots + 1);
  const prompts = prefillTokens(endpoint.facts?.contextTokens) + 50;
  return { requests, promptTokens: (requests - 1) * 60 + prompts, timeoutMs };
}

function slotsToFill({ facts }: Endpoint): number | undefined {
  return facts?.slots !== undefined && facts.slots <= mostSlots ? facts.slots : undefined;
}

export async function diagnose(asker: Asker): Promise<readonly Finding[]> {
  const { endpoint } = asker;
  const countersSeen = (await endpoint.counters()) !== undefined;
  const plain = await stream(asker, answerTokens);
  if (plain === undefined || plain.status !== 200 || isWebPage(plain))
    return [...judgeIdentity(endpoint), refused(plain)];
  const hurried = asker.purse.leftMs() === 0;
  const identity = { ...endpoint, gateways: gatewaysIn({ ...headersOf(endpoint), ...plain.headers }) };
  const { gateways } = identity;
  const arrival = arrivalOf(plain);
  const longer =
    arrival !== undefined && flowOf(arrival) === 'unclear' ? await stream(asker, 3 * answerTokens) : undefined;
  const lumped = arrival !== undefined && flowOf(arrival, longer && arrivalOf(longer)) === 'lump';
  const gzip = await stream(asker, 8, {
    headers: ['accept-encoding', 'gzip, deflate, br'],
    extra: { stream_options: { include_usage: true, continuous_usage_stats: true } },
  });
  const evidence = {
    plain,
    gateways,
    ...(longer === undefined ? {} : { longer }),
    ...(gzip?.status === 200 ? { gzip } : {}),
  };
  // A compressed one can't be read event by event.
  const streams = [plain, longer, gzip].flatMap((seen) =>
    seen === undefined || seen.tokenMs.length === 0 ? [] : [seen],
  );
  return [
    ...judgeIdentity(identity),
    ...judgeFlags(identity, countersSeen),
    ...judgeBuffering(evidence),
    ...judgeEnd(plain, { askedTokens: answerTokens, hurried }),
    ...judgeUsage(plain, gzip?.status === 200 ? gzip : undefined, endpoint.facts?.engine),
    ...judgeKeepAlive(await probeKeepAlive(asker)),
    ...(await errors(asker)),
    ...(await aborts(asker, { ...(latencyOf(streams) ?? { ttftMs: 0, itlMs: 0 }), lumped })),
    judgeLatency(streams),
    ...(asker.purse.leftMs() === 0
      ? [finding('time', 'warn', 'the time was over before everything was looked at')]
      : []),
  ];
}

function headersOf({ listing }: Endpoint): Readonly<Record<string, string>> {
  return 'headers' in listing ? listing.headers : {};
}

function stream(
  asker: Asker,
  maxTokens: number,
  more: { readonly headers?: readonly string[]; readonly extra?: Readonly<Record<string, unknown>> } = {},
): Promise<Seen | undefined> {
  const { headers, extra } = more;
  return asker.chat(
    {
      messages: countingMessages(asker.nonce()),
      maxTokens,
      stream: true,
      promptTokens: 60,
      ...(extra === undefined ? {} : { extra }),
    },
    headers === undefined ? {} : { headers },
  );
}

/** No answer to the first chat: nothing else can be found out. */
export function refused(seen: Seen | undefined): Finding {
  if (seen !== undefined && isWebPage(seen))
    return finding('chat', 'bad', 'a web page came instead of an answer: this is no API', {
      evidence: printable(seen.body.slice(0, 120)),
      remedy: 'look at host, port and path of the URL',
    });
  if (seen?.status === 200 && isSilent(seen)) return noToken(seen, 'chat');
  if (seen?.fault?.kind === 'endless')
    return finding('chat', 'bad', 'a small streamed chat has no end', { evidence: seen.fault.detail, remedy: bounded });
  const evidence = seen?.fault?.detail ?? `status ${seen?.status ?? 'none'}: ${seen?.body.slice(0, 200) ?? ''}`;
  const remedy =
    seen?.status === 401
      ? 'give the key with --api-key'
      : seen?.status === 403
        ? 'give a key with --api-key that may use this model, or name one that this key may use with --model'
        : seen?.status === 404
          ? 'name a model that it serves with --model, and look at the path of the URL'
          : undefined;
  return finding('chat', 'bad', 'a small streamed chat was not answered', { evidence, remedy });
}

async function errors(asker: Asker): Promise<readonly Finding[]> {
  const badJson = await asker.plain({ path: chatPath, body: '{"messages":' });
  const unknownModel = await asker.chat({
    model: `no-such-model-${asker.nonce()}`,
    messages: countingMessages(asker.nonce()),
    maxTokens: 1,
    stream: false,
    promptTokens: 60,
  });
  return judgeErrors(unknownModel, badJson);
}

async function aborts(asker: Asker, pace: Pace): Promise<readonly Finding[]> {
  const found = [await abortDecoding(asker, pace), await abortPrefill(asker, pace)];
  const slots = slotsToFill(asker.endpoint);
  if (slots !== undefined) found.push(await abortQueued(asker, pace, slots));
  return found.filter((evidence) => evidence !== undefined).map((evidence) => judgeAbort(evidence, pace));
}
