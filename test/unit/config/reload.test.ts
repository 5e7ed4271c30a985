import { describe, expect, it } from 'vitest';
import { changesBetween } from '../../../src/config/reload.ts';
import { configOf } from './load-text.ts';

const changes = (before: string, after: string) => changesBetween(configOf(before), configOf(after));
const backend = 'backends: [{ url: "http://a" }]';

describe('what a new configuration changes', () => {
  it.each([
    [backend, 'backends: [{ url: "http://b" }]', 'backends'],
    [backend, 'backends: [{ url: "http://a", hardware: { gpu: l4 } }]', 'backends'],
    [backend, 'backends: [{ url: "http://a", weight: 2 }]', 'backends'],
    ['', 'discovery: { dns: [{ name: a }] }', 'discovery'],
    ['', 'models: { aliases: { a: b } }', 'models.aliases'],
    ['', `auth: { keys: [{ name: a, sha256: ${'ab'.repeat(32)} }] }`, 'auth'],
    ['', 'lanes: { rules: [{ path: chat, lane: batch }] }', 'lanes.rules'],
    ['', 'routes: { open: [lora] }', 'routes'],
    ['', 'queue: { maxJobs: 5 }', 'queue'],
    ['', 'deadlines: { headMs: 5 }', 'deadlines'],
    ['', 'usage: passive', 'stream, usage or retry'],
    ['', 'responseHeaders: { routing: false }', 'responseHeaders'],
    ['', 'routing: { sessionHeaders: [x-chat] }', 'routing.sessionHeaders'],
    [backend, 'backends: [{ url: "http://a", cache: { reuse: none } }]', 'backends'],
    ['', 'log: { level: debug }', 'log.level'],
  ])('%j → %j takes effect: %s', (before, after, key) => {
    const { changed, needsRestart, inForce } = changes(before, after);
    expect([changed, needsRestart]).toEqual([[key], []]);
    expect(changesBetween(inForce, configOf(after)).changed).toEqual([]);
  });

  it.each([
    ['listen: 9000', 'listen'],
    ['admin: { listen: 9001 }', 'admin.listen'],
    ['admin: { changes: never }', 'admin.changes'],
    ['clients: { maxBodyBytes: 5 }', 'clients'],
    ['cors: { origins: ["*"] }', 'cors'],
    ['deadlines: { drainMs: 5 }', 'deadlines.drainMs'],
    ['records: { maxRecords: 5 }', 'records'],
    ['probes: { intervalMs: 5000 }', 'probes'],
    ['breaker: { failures: 9 }', 'breaker'],
    ['routing: { policy: round-robin }', 'routing'],
    ['answerCache: { enabled: true }', 'answerCache'],
    ['warmUp: { timeoutMs: 5 }', 'warmUp'],
    ['telemetry: { promptTrace: { file: /p } }', 'telemetry.promptTrace'],
    ['models: { shapes: [{ model: m, params: 1 }] }', 'models.shapes'],
    ['measure: { maxStamps: 5 }', 'measure'],
    ['slo: { default: reading }', 'slo'],
    ['telemetry: { traces: { enabled: true } }', 'telemetry.traces'],
    ['telemetry: { metrics: { otlp: true } }', 'telemetry.metrics'],
    ['log: { format: json }', 'log.format'],
    ['log: { requests: false }', 'log.requests'],
    ['upstreamClient: undici', 'upstreamClient'],
  ])('%j has to wait for a restart: %s', (after, key) => {
    const { changed, needsRestart, inForce } = changes('', after);
    expect([changed, needsRestart]).toEqual([[], [key]]);
    expect(inForce).toEqual(configOf(''));
  });

  it('names what follows from a part, too: the default objective sets how long prompts are held back', () => {
    const { changed, needsRestart, inForce } = changes('', 'slo: { default: chat }');
    expect([changed, needsRestart]).toEqual([[], ['routing', 'slo']]);
    expect(inForce.route.cost.holdMs).toBe(1250);
    expect(changes('routing: { holdMs: 5 }', 'slo: { default: chat }\nrouting: { holdMs: 5 }').needsRestart).toEqual([
      'slo',
    ]);
  });

  it('takes one part and names the other', () => {
    const { changed, needsRestart, inForce } = changes(backend, 'listen: 9000\nbackends: [{ url: "http://b" }]');
    expect([changed, needsRestart]).toEqual([['backends'], ['listen']]);
    expect(inForce.http.listen.port).toBe(8484);
    expect(inForce.fleet.backends[0]?.url).toBe('http://b');
  });

  it('is nothing where nothing differs', () => {
    expect(changes(backend, `# again\n${backend}`)).toMatchObject({ changed: [], needsRestart: [] });
  });
});
