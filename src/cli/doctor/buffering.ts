/**
 * Is a stream held back on the way? By the moments at which its events arrived, held against the time that the engine
 * says it took, and by the headers that proxies obey. Pure.
 */
import { finding, type Finding } from './finding.ts';
import { unbufferRemedy, type Gateway } from './gateways.ts';
import { msText } from './statistics.ts';
import { isSilent, ttftOf, type Seen } from './wire.ts';

export interface Arrival {
  readonly tokenEvents: number;
  /** Socket reads that brought them. */
  readonly reads: number;
  /** First to last token event. */
  readonly spreadMs: number;
  /** Sent to the first token event. */
  readonly ttftMs: number;
  /** What the engine says of the time between first and last token. */
  readonly engineMs?: number;
}

export function arrivalOf(seen: Seen): Arrival | undefined {
  const ttftMs = ttftOf(seen);
  const [first] = seen.tokenMs;
  const last = seen.tokenMs.at(-1);
  if (ttftMs === undefined || first === undefined || last === undefined) return undefined;
  const engineMs = seen.timings?.predictedMs;
  return {
    tokenEvents: seen.tokenMs.length,
    reads: seen.tokenReadMs.length,
    spreadMs: last - first,
    ttftMs,
    ...(engineMs === undefined ? {} : { engineMs }),
  };
}

export type Flow =
  /** events come as they are made */
  | 'spread'
  /** all at once, at the end */
  | 'lump'
  /** in a few lots */
  | 'lots'
  /** too few events, or too quick an engine */
  | 'unclear';

/** Below this a whole answer is as quick as a busy machine's scheduling: nothing can be told. */
const quickMs = 60;

/**
 * @param longer the same with more tokens, if it was asked for: a hop that waits for the end has a time to first token
 *   that grows with the answer, an engine with a slow prefill has not
 */
export function flowOf(arrival: Arrival, longer?: Arrival): Flow {
  const { tokenEvents, reads, spreadMs, ttftMs, engineMs } = arrival;
  if (tokenEvents < 6) return 'unclear';
  if (engineMs !== undefined && engineMs > quickMs) {
    // The first tokens may sit in the head's read, so half of the engine's own time is generous.
    if (spreadMs < engineMs * 0.3) return 'lump';
    return reads < tokenEvents * 0.4 ? 'lots' : 'spread';
  }
  if (spreadMs + ttftMs < quickMs) return reads >= tokenEvents * 0.7 ? 'spread' : 'unclear';
  const lumped = reads <= Math.max(2, tokenEvents / 8) && spreadMs < 0.15 * (spreadMs + ttftMs);
  if (!lumped) return reads < tokenEvents * 0.4 ? 'lots' : 'spread';
  if (longer === undefined) return 'unclear';
  const stillLumped = longer.spreadMs < 0.15 * (longer.spreadMs + longer.ttftMs);
  const grew = longer.ttftMs / ttftMs > 1 + 0.4 * (longer.tokenEvents / tokenEvents - 1);
  return stillLumped && grew ? 'lump' : 'unclear';
}

export interface StreamEvidence {
  readonly plain: Seen;
  /** Asked for when the first one came in a lump without the engine's word on its time. */
  readonly longer?: Seen;
  /** Asked for with `Accept-Encoding: gzip`. */
  readonly gzip?: Seen;
  readonly gateways: readonly Gateway[];
}

export function judgeBuffering(evidence: StreamEvidence): readonly Finding[] {
  return [judgeSpread(evidence), ...judgeHeaders(evidence)];
}

function judgeSpread({ plain, longer, gateways }: StreamEvidence): Finding {
  const arrival = arrivalOf(plain);
  if (arrival === undefined) {
    if (isSilent(plain)) return noToken(plain, 'buffering.spread');
    const isStream = plain.headers['content-type']?.includes('text/event-stream') === true;
    return isStream
      ? finding('buffering.spread', 'unknown', 'the stream is compressed though nobody offered that', {
          evidence: `content-encoding: ${plain.headers['content-encoding'] ?? ''}`,
        })
      : finding('buffering.spread', 'bad', 'stream: true was answered, but not as an event stream', {
          evidence: `status ${plain.status ?? 'none'}, content-type ${plain.headers['content-type'] ?? 'none'}`,
          remedy: `the endpoint, or a hop that gathers the answer, ignores stream: ${unbufferRemedy(gateways)}`,
        });
  }
  const flow = flowOf(arrival, longer === undefined ? undefined : arrivalOf(longer));
  const { tokenEvents, reads, spreadMs, ttftMs, engineMs } = arrival;
  const seen = [
    `${tokenEvents} token events in ${reads} reads over ${msText(spreadMs)}, the first after ${msText(ttftMs)}`,
    engineMs === undefined ? undefined : `the engine decoded for ${msText(engineMs)}`,
  ];
  const text = { evidence: seen.filter((part) => part !== undefined).join('; ') };
  switch (flow) {
    case 'spread':
      return finding('buffering.spread', 'ok', 'events arrive as they are made', text);
    case 'lump':
      return finding('buffering.spread', 'bad', 'the whole answer arrives in one lump: something on the way buffers', {
        ...text,
        remedy: unbufferRemedy(gateways),
      });
    case 'lots':
      return finding('buffering.spread', 'warn', 'events arrive in lots: something on the way gathers them', {
        ...text,
        remedy: unbufferRemedy(gateways),
      });
    case 'unclear':
      return finding('buffering.spread', 'unknown', "can't tell: too few events, or too quick an answer", text);
  }
}

export function noToken({ events, fault }: Seen, check: string): Finding {
  return finding(check, 'bad', 'the stream brought no token', {
    evidence: `${events} events${fault === undefined ? '' : `; ${fault.detail}`}`,
    remedy: 'look into the log of the engine: it generated nothing, or a hop on the way ate it',
  });
}

function judgeHeaders({ plain, gzip, gateways }: StreamEvidence): readonly Finding[] {
  const { headers, framing } = plain;
  if (headers['content-type']?.includes('text/event-stream') !== true) return [];
  const findings: Finding[] = [];
  const encoding = gzip?.headers['content-encoding'] ?? headers['content-encoding'];
  findings.push(
    encoding === undefined || encoding === 'identity'
      ? finding('buffering.encoding', 'ok', 'the stream is not compressed', {
          evidence: gzip === undefined ? undefined : 'asked with Accept-Encoding: gzip',
        })
      : finding('buffering.encoding', 'warn', `the stream is compressed (${encoding}) for clients that offer it`, {
          remedy: `compressors hold events back: ${unbufferRemedy(gateways)}`,
        }),
  );
  if (framing === 'length') {
    findings.push(
      finding('buffering.length', 'bad', 'the event stream has a Content-Length: a hop waited for all of it', {
        evidence: `content-length: ${headers['content-length'] ?? ''}`,
        remedy: unbufferRemedy(gateways),
      }),
    );
  }
  const marker = headers['x-accel-buffering']?.toLowerCase() === 'no';
  const untransformed = headers['cache-control']?.includes('no-transform') === true;
  const missing = [
    marker ? undefined : 'X-Accel-Buffering: no',
    untransformed ? undefined : 'Cache-Control: no-transform',
  ];
  const absent = missing.filter((part) => part !== undefined);
  findings.push(
    absent.length === 0
      ? finding('buffering.markers', 'ok', 'the stream says that it must be neither buffered nor transformed')
      : finding('buffering.markers', marker ? 'ok' : 'warn', `the stream lacks ${absent.join(' and ')}`, {
          remedy: marker
            ? undefined
            : 'an nginx with its defaults in front would hold it back: add the header, set proxy_buffering off there, or put warmlane in front, which adds it',
        }),
  );
  return findings;
}
