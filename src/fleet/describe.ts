/** The lines that a start prints for each backend: what it is, and what is missing there. Pure text. */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';

const maxNamedModels = 5;

export function describeFleet(snapshot: FleetSnapshot): string[] {
  return snapshot.backends.flatMap(describeBackend);
}

/** One line, then one indented line for each piece of advice. */
export function describeBackend(view: BackendView): string[] {
  const engine = view.engineKnown ? view.engine : 'unknown engine';
  const parts = [
    `${engine}${view.version === undefined ? '' : ` ${view.version}`} at ${withoutCredentials(view.url)}`,
    view.models.length === 0 ? undefined : `models ${nameModels(view.models)}`,
    describeSlots(view),
    view.contextTokens === undefined ? undefined : `context ${view.contextTokens} tokens`,
    view.blockTokens === undefined ? undefined : `block ${view.blockTokens}`,
    view.kvTokens === undefined ? undefined : `cache ${view.kvTokens} tokens`,
    describeHealth(view),
  ];
  return [parts.filter((part) => part !== undefined).join(' · '), ...view.advice.map((line) => `  ${line}`)];
}

function nameModels(models: readonly string[]): string {
  const more = models.length - maxNamedModels;
  return models.slice(0, maxNamedModels).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

function describeSlots(view: BackendView): string | undefined {
  if (view.slots !== undefined) {
    return view.engine === 'llama-server' ? `${view.slots} slots` : `at most ${view.slots} in flight`;
  }
  return view.maxSequences === undefined ? undefined : `runs ${view.maxSequences} at once`;
}

const reasons: Readonly<Record<string, string>> = {
  refused: 'connection refused',
  connect_timeout: 'no connection in time',
  timeout: 'no answer in time',
  reset: 'connection reset',
  dns: 'its name does not resolve',
  tls: 'TLS failed: see its ca, serverName or verify',
  engine_dead: 'its engine is dead',
  bad_status: 'its health route answers with an error',
  other: 'no usable answer',
  ejected: 'it failed at its work, and is left alone for a while',
};

function describeHealth(view: BackendView): string {
  switch (view.health) {
    case 'unknown':
      return 'not probed yet';
    case 'loading':
      return 'loading its model';
    case 'draining':
      return view.healthReason === 'asked' ? 'drained, takes no new work' : 'shutting down';
    case 'auth':
      return 'refuses the key: set its apiKey';
    case 'up':
      return view.onTrial === true ? 'up, on trial' : 'up';
    case 'down': {
      const reason = reasons[view.healthReason ?? ''];
      return reason === undefined ? 'down' : `down (${reason})`;
    }
  }
}

function withoutCredentials(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//');
}
