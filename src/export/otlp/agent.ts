/**
 * The connections that exports over HTTP go by: ours, so that an export can be let go of. Reads the PEM files that the
 * environment names; one that can't be read is told and left out, as the standard has it.
 */
import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { OtlpTarget } from './otlp-environment.ts';

export function createAgent(target: OtlpTarget, onProblem: (sentence: string) => void): HttpAgent | HttpsAgent {
  const pooled = { keepAlive: true, maxSockets: 2, maxFreeSockets: 1 };
  if (!target.url.startsWith('https:')) return new HttpAgent(pooled);
  const pem = (name: string, file: string | undefined) => {
    if (file === undefined) return undefined;
    try {
      return readFileSync(file);
    } catch {
      onProblem(`OTEL_EXPORTER_OTLP_${name}: the file ${file} can't be read`);
      return undefined;
    }
  };
  const ca = pem('CERTIFICATE', target.caFile);
  const cert = pem('CLIENT_CERTIFICATE', target.certFile);
  const key = pem('CLIENT_KEY', target.keyFile);
  return new HttpsAgent({
    ...pooled,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
}
