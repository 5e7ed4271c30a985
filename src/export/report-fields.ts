/**
 * What `warmlane report` needs of a request beyond its figures: when it came, how its gaps were spread, why it went where
 * it went, and what was said of it at booking. Part of each log line, so it runs once per request.
 */
import type { SloBreach } from '../domain/assessment.ts';
import { partHead, partTools, type PromptPlace } from '../domain/prefix.ts';
import type { RequestRecord } from '../domain/record.ts';
import type { LogFields } from '../platform/log.ts';
import { sketchText } from '../platform/sketch-text.ts';
import { tenth, thousandth } from './rounding.ts';

export function reportFields(record: RequestRecord): LogFields {
  const { timeline, figures, assessment, itl } = record;
  const { received, receivedLast = received, admitted, sent, head } = timeline;
  return {
    startedAt: new Date(record.startedAtEpochMs).toISOString(),
    bodyMs: thousandth(receivedLast - received),
    sentMs: sent === undefined || sent < receivedLast ? undefined : thousandth(sent - receivedLast),
    admittedMs: admitted === undefined ? undefined : thousandth(admitted - receivedLast),
    // What a stream waited for is told by its figures.
    headMs: head === undefined || figures.ttftMs !== undefined ? undefined : thousandth(head - receivedLast),
    // The line leaves out a `ttfaMs` that is no other than `ttftMs`: that there is none must be told from that.
    noAnswer: figures.ttftMs !== undefined && figures.ttfaMs === undefined ? true : undefined,
    itl: itl === undefined ? undefined : sketchText(itl),
    routeReason: record.routeReason,
    routePolicy: record.routing?.policy,
    reusableTokens: withinPrompt(record.routing?.reusableTokens, record),
    predictedTokens: withinPrompt(record.routing?.predictedTokens, record),
    missCause: record.routing?.cause,
    missed: missedText(record),
    divergedAt: placeText(record.routing?.divergence),
    traceId: record.trace?.traceId,
    slo: assessment?.slo?.profile,
    sloMet: assessment?.slo?.met,
    sloBroke: broken(assessment?.slo?.breaches),
    benefitTokens: tenth(assessment?.slo?.benefitTokens),
    useless: assessment?.useless,
    retry: assessment?.retry,
    decodeConcurrency: thousandth(assessment?.decodeConcurrency),
  };
}

/** Beliefs are about a prompt of a length that was estimated: of the told one no more than all can be held. */
function withinPrompt(tokens: number | undefined, record: RequestRecord): number | undefined {
  return tokens === undefined ? undefined : Math.min(tokens, record.tokens.prompt?.value ?? tokens);
}

/** `diverged:1200`: the cause, and the prompt tokens that were computed for it. */
function missedText({ assessment }: RequestRecord): readonly string[] | undefined {
  return assessment?.missed?.map(({ cause, tokens }) => `${cause}:${tokens}`);
}

/** `0:0-256`: the message (or `tools`, or `head` for what is before both), and its bytes. */
function placeText(place: PromptPlace | undefined): string | undefined {
  if (place === undefined) return undefined;
  const { part, startBytes, endBytes } = place;
  const name = part === partTools ? 'tools' : part === partHead ? 'head' : String(part);
  return `${name}:${startBytes}-${endBytes}`;
}

/** Absent where no bound broke: met, or failed however fast it was. */
function broken(breaches: readonly SloBreach[] | undefined): readonly string[] | undefined {
  return breaches === undefined || breaches.length === 0 ? undefined : breaches.map(breachText);
}

/** `ttft:prefill:430.5/200`: the bound, the phase that took most of the excess, what it was and what it may be (ms). */
function breachText({ bound, phase, valueMs, limitMs }: SloBreach): string {
  return `${bound}:${phase}:${tenth(valueMs)}/${tenth(limitMs)}`;
}
