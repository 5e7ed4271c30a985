/** What a start prints for a person: addresses, what was found, a line to paste, where to look next. Pure text. */
import type { FleetSnapshot } from '../domain/fleet.ts';
import { describeFleet } from '../fleet/describe.ts';

export interface BannerFacts {
  readonly data: string;
  readonly admin: string;
  readonly fleet: FleetSnapshot;
  readonly demo: boolean;
}

export function banner({ data, admin, fleet, demo }: BannerFacts): string {
  const model = fleet.backends.flatMap(({ models }) => models)[0] ?? 'default';
  const lines = [
    '',
    `warmlane listens at ${data}`,
    ...(demo ? ['DEMO: no model server was found or named, so these two are simulated, and so is some traffic:'] : []),
    ...describeFleet(fleet).map((line) => `  ${line}`),
    '',
    'Try a measured stream:',
    `  curl -N ${data}/v1/chat/completions -H 'content-type: application/json' \\`,
    `    -d '${JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Name three colours.' }] })}'`,
    '',
    'Its measurements then appear here, as a line with msg=request:',
    '  ttftMs           until the first token                 tpotMs   per token after it',
    '  promptTokens, cachedTokens, outputTokens               as the engine counted them',
    'and whole, every token with its moment, at',
    `  ${admin}/records?limit=1     (running now: ${admin}/running, backends: ${admin}/backends)`,
    ...(demo ? ['', 'With your own servers: warmlane --backend http://127.0.0.1:8000'] : []),
    '',
    '',
  ];
  return lines.join('\n');
}
