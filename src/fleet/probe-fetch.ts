/**
 * The real `ProbeFetch`: one request on a connection of its own, closed after it, so that a probe never shares or
 * poisons the pool that carries streams. The answer is bounded, the time absolute, failures are sorted by error code.
 */
import http from 'node:http';
import https from 'node:https';
import type { Clock } from '../platform/clock.ts';
import type {
  ProbeFailure,
  ProbeFailureKind,
  ProbeFetch,
  ProbeOptions,
  ProbeResult,
  ProbeTarget,
} from './probe-port.ts';

/** vLLM's `/metrics`, the largest answer wanted, is 60 kB; a thousand models list in under 300 kB. */
export const maxProbeBytes = 1024 * 1024;

/** @param clock drives the time limit */
export function createProbeFetch(target: ProbeTarget, clock: Clock): ProbeFetch {
  const base = target.url.replace(/\/+$/, '');
  return async (path, options) => {
    if (options.signal?.aborted === true) return calledOff;
    try {
      return await exchange(openProbe(new URL(base + path), target, options), clock, options);
    } catch (error) {
      // A key that can't stand in a header makes Node throw: no reason to bring the process down.
      return failureOf(error);
    }
  };
}

const calledOff: ProbeFailure = { failure: 'other', detail: 'called off' };

function exchange(probe: http.ClientRequest, clock: Clock, options: ProbeOptions): Promise<ProbeResult> {
  const { timeoutMs, signal } = options;
  return new Promise((resolve) => {
    let connected = false;
    const settle = (result: ProbeResult): void => {
      timer.cancel();
      signal?.removeEventListener('abort', callOff);
      probe.destroy();
      resolve(result);
    };
    const callOff = (): void => settle(calledOff);
    const timer = clock.timer(timeoutMs, () => {
      const what = connected ? 'answer' : 'connection';
      settle({
        failure: connected ? 'timeout' : 'connect_timeout',
        detail: `no ${what} within ${Math.round(timeoutMs)} ms`,
      });
    });
    signal?.addEventListener('abort', callOff, { once: true });
    probe.on('socket', (socket) => {
      socket.once('connect', () => {
        connected = true;
      });
    });
    // Stays attached after settling: the destroyed request may still report that, which changes nothing.
    probe.on('error', (error) => settle(failureOf(error)));
    probe.on('response', (response) => readAnswer(response, settle));
    probe.end();
  });
}

function openProbe(url: URL, target: ProbeTarget, options: ProbeOptions): http.ClientRequest {
  const headers: Record<string, string> = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'warmlane' };
  const { credentials } = options;
  if (credentials !== undefined) Object.assign(headers, credentials);
  else if (target.apiKey !== undefined) headers['authorization'] = `Bearer ${target.apiKey}`;
  const common = { method: options.method ?? 'GET', headers, agent: false as const };
  if (url.protocol !== 'https:') return http.request(url, common);
  const { tls } = target;
  return https.request(url, {
    ...common,
    rejectUnauthorized: tls?.verify ?? true,
    ...(tls?.ca === undefined ? {} : { ca: tls.ca }),
    ...(tls?.serverName === undefined ? {} : { servername: tls.serverName }),
  });
}

function readAnswer(response: http.IncomingMessage, settle: (result: ProbeResult) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxProbeBytes) settle({ failure: 'other', detail: `answer longer than ${maxProbeBytes} bytes` });
    else chunks.push(chunk);
  });
  response.on('error', (error) => settle(failureOf(error)));
  response.on('end', () => {
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(response.headers)) {
      if (value !== undefined) headers[name] = typeof value === 'string' ? value : value.join(', ');
    }
    settle({ status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks).toString('utf8') });
  });
}

function failureOf(error: unknown): ProbeFailure {
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return { failure: kindOf(code), detail: (code === '' ? message : `${code}: ${message}`) + beginOf(error) };
}

/** Where what came is no HTTP: how it begins. */
function beginOf(error: unknown): string {
  if (!(error instanceof Error && 'rawPacket' in error && Buffer.isBuffer(error.rawPacket))) return '';
  return `; it began ${JSON.stringify(error.rawPacket.toString('latin1', 0, 40))}`;
}

/** Happy eyeballs report one error that holds one per address; the first one's code speaks for all. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  if ('code' in error && typeof error.code === 'string') return error.code;
  return error instanceof AggregateError ? codeOf(error.errors[0]) : '';
}

const kinds: Readonly<Record<string, ProbeFailureKind>> = {
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENETUNREACH: 'refused',
  ETIMEDOUT: 'connect_timeout',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  ENOTFOUND: 'dns',
  EPROTO: 'tls',
  SELF_SIGNED_CERT_IN_CHAIN: 'tls',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'tls',
};

function kindOf(code: string): ProbeFailureKind {
  const kind = kinds[code];
  if (kind !== undefined) return kind;
  if (code.startsWith('EAI_')) return 'dns';
  return /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|HOSTNAME_MISMATCH)/.test(code) ? 'tls' : 'other';
}
