/**
 * What was found at the URL, in findings: who answers, who stands before it, which of the engine's flags are wanting.
 * Pure.
 */
import { finding, type Finding, isKeyRefusal, printable } from './finding.ts';
import type { Endpoint } from './endpoint.ts';

export function judgeIdentity(endpoint: Endpoint): readonly Finding[] {
  const { facts, models, gateways, clockSkewMs } = endpoint;
  const name = facts?.engineKnown === true ? engineName(facts.engine, facts.version) : undefined;
  const listed = models.map(({ id }) => id);
  const shown =
    listed.length > 5 ? `${listed.slice(0, 5).join(', ')} and ${listed.length - 5} more` : listed.join(', ');
  const evidence = listed.length === 0 ? 'lists no models' : `models ${shown}`;
  const findings = [
    name === undefined
      ? finding('engine', 'unknown', 'an endpoint whose engine does not show itself', { evidence })
      : finding('engine', 'ok', name, { evidence }),
    gateways.length === 0
      ? finding('gateway', 'ok', 'none shows itself between here and the engine')
      : finding('gateway', 'ok', gateways.map((gateway) => gateway.name).join(', '), {
          evidence: printable(gateways.map(({ sign }) => sign).join('; ')),
        }),
  ];
  if (clockSkewMs !== undefined && Math.abs(clockSkewMs) > 5000) {
    const seconds = Math.round(clockSkewMs / 1000);
    findings.push(
      finding('clock', 'warn', `its clock is ${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} this one`, {
        remedy: 'set both by NTP, else logs and traces of the two can not be laid side by side',
      }),
    );
  }
  return findings;
}

function engineName(engine: string, version: string | undefined): string {
  return engine === 'openai'
    ? 'an OpenAI-compatible endpoint'
    : `${engine}${version === undefined ? '' : ` ${version}`}`;
}

/** What the engine's own pages say of its start-up flags. */
export function judgeFlags(endpoint: Endpoint, countersSeen: boolean): readonly Finding[] {
  const { facts, cacheConfig } = endpoint;
  if (facts === undefined) return [];
  const findings: Finding[] = [];
  for (const advice of facts.advice) {
    const [says = advice, ...remedy] = advice.split('; ');
    findings.push(finding('flags', 'warn', says, remedy.length === 0 ? {} : { remedy: remedy.join('; ') }));
  }
  const shape = [
    facts.slots === undefined ? undefined : `${facts.slots} slots`,
    facts.contextTokens === undefined ? undefined : `context ${facts.contextTokens} tokens`,
    facts.blockTokens === undefined ? undefined : `blocks of ${facts.blockTokens}`,
    facts.kvTokens === undefined ? undefined : `cache ${facts.kvTokens} tokens`,
  ].filter((part) => part !== undefined);
  if (shape.length > 0) findings.push(finding('shape', 'ok', shape.join(', ')));
  const caching = cacheConfig?.get('enable_prefix_caching');
  if (caching === 'True') findings.push(finding('prefix_caching', 'ok', 'on, as vLLM says'));
  if (facts.engine === 'llama-server') {
    findings.push(
      finding('http_threads', 'unknown', 'the size of its pool of HTTP threads can not be asked for', {
        remedy: 'when more requests than slots + 4 may be in flight, start it with --threads-http at that number',
      }),
    );
  }
  findings.push(judgeMetrics(endpoint, countersSeen));
  return findings;
}

function judgeMetrics({ facts, metricsStatus }: Endpoint, countersSeen: boolean): Finding {
  if (countersSeen) return finding('metrics', 'ok', "the engine's counters can be read at /metrics");
  if (isKeyRefusal(metricsStatus)) {
    const says =
      metricsStatus === 401
        ? 'who asks for /metrics must show a key (401): the counters can not be seen from here'
        : 'this key may not see /metrics (403): the counters can not be seen with it';
    const remedy = `${metricsStatus === 401 ? 'give a key with --api-key' : 'give a key that may'}, or run the doctor at the engine itself`;
    return finding('metrics', 'unknown', says, { remedy });
  }
  const isEngine = facts?.engineKnown === true && facts.engine !== 'openai';
  const remedy =
    facts?.engine === 'llama-server'
      ? 'start llama-server with --metrics'
      : 'let /metrics through, or run the doctor at the engine itself';
  return finding('metrics', isEngine ? 'warn' : 'unknown', 'no engine counters at /metrics', { remedy });
}
