/** What a start prints for a person: addresses, what was found, a line to paste, where to look next. Pure text. */
import type { FleetSnapshot } from '../domain/fleet.ts';
import { describeFleet } from '../fleet/describe.ts';
import type { LogFormat } from '../platform/log.ts';

export interface BannerFacts {
  readonly data: string;
  readonly admin: string;
  readonly fleet: FleetSnapshot;
  /** Why the servers are simulated; undefined: they are real. */
  readonly demo: 'asked' | 'nothing_found' | undefined;
  /** The form of the log's lines; undefined: requests are not logged. */
  readonly requestLog: LogFormat | undefined;
  /** Pause between two looks at a backend that is down or loading. */
  readonly downIntervalMs: number;
  /** Clients need a key of warmlane's own. */
  readonly asksForKeys: boolean;
  /** Where files and batches are kept; undefined: there is no Batch API. */
  readonly batchPlace: string | undefined;
  /** As this program was started, for a line to paste. */
  readonly program: string;
}

export function banner(facts: BannerFacts): string {
  const { data, admin, fleet, demo, requestLog, downIntervalMs, asksForKeys, batchPlace, program } = facts;
  const model = fleet.backends.flatMap(({ models }) => models)[0] ?? 'default';
  const lines = [
    '',
    `warmlane listens at ${data}`,
    ...(demo === undefined ? [] : [demoLine(demo, asksForKeys)]),
    ...describeFleet(fleet).map((line) => `  ${line}`),
    ...noneUp(fleet, downIntervalMs),
    '',
    'Try a measured stream:',
    `  curl -N ${data}/v1/chat/completions -H 'content-type: application/json' \\`,
    ...(asksForKeys ? ['    -H "Authorization: Bearer $KEY" \\'] : []),
    `    -d '${JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Name three colours.' }] })}'`,
    ...(asksForKeys
      ? ["  $KEY is a key that auth.keys in the configuration lets in; set it first, on a line of its own: KEY='…'"]
      : []),
    '',
    ...sampleLines(requestLog),
    'Whole, every token with its moment, it is at',
    `  ${admin}/records?limit=1     (running now: ${admin}/running, backends: ${admin}/backends)`,
    `Why it went to that backend: ${admin}/explain/ID     (ID: the answer's X-Request-Id, requestId in the line)`,
    `Percentiles, objectives, findings, what batching costs: all pages are listed at ${admin}/`,
    ...(batchPlace === undefined
      ? []
      : [
          `Batch API: ${data}/v1/batches, kept in ${batchPlace}; warmlane batch --help; how they stand: ${admin}/batches`,
        ]),
    ...(demo !== undefined ? ['', `With your own servers: ${program} --backend http://127.0.0.1:8000`] : []),
    '',
    '',
  ];
  return lines.join('\n');
}

/** The form of the line that follows, by the true names of its fields, in their order. */
function sampleLines(format: LogFormat | undefined): readonly string[] {
  if (format === undefined) return ['Requests are not logged, as the configuration says.'];
  const sample =
    format === 'json'
      ? '{… "msg":"request" … "outcome":"ok" … "promptTokens":… "cachedTokens":… "outputTokens":… "ttftMs":… "tpotMs":… }'
      : '… msg=request … outcome=ok … promptTokens=… cachedTokens=… outputTokens=… ttftMs=… tpotMs=… …';
  return [
    'Its measurements then appear here (on stderr), as a line of this form:',
    `  ${sample}`,
    '  ttftMs: until the first token; tpotMs: per token after it; tokens as the engine counted them.',
  ];
}

/** What to do when there is nobody to answer the line to paste. */
function noneUp({ backends }: FleetSnapshot, downIntervalMs: number): readonly string[] {
  const absent = backends.every(({ health }) => health === 'down' || health === 'unknown');
  const loading = !absent && backends.every(({ health }) => ['down', 'unknown', 'loading'].includes(health));
  if (!absent && !loading) return [];
  const often = downIntervalMs === 1000 ? 'every second' : `every ${downIntervalMs} ms`;
  if (loading) return ['', `No model is loaded yet; warmlane looks again ${often}.`];
  const advice = backends.length === 1 ? 'It does not answer: start it' : 'None of them answers: start one';
  return ['', `${advice}; warmlane looks again ${often}.`];
}

function demoLine(demo: 'asked' | 'nothing_found', asksForKeys: boolean): string {
  const why =
    demo === 'asked' ? 'as you asked' : 'no model server was named, and none answers at a usual place of this machine';
  const traffic = asksForKeys ? 'the demo sends no traffic of its own, as auth asks for a key' : 'so is some traffic';
  return `DEMO (${why}): these two servers are simulated, and ${traffic}:`;
}
