/**
 * What is allowed and still worth a loud word at start: settings that open something. Pure.
 */
import { isLoopback } from './address.ts';
import type { Config } from './config.ts';

/** @returns one sentence for each, naming the key */
export function noticesOf(config: Config): readonly string[] {
  const notices: string[] = [];
  const { admin, adminChanges } = config.http;
  if (!isLoopback(admin.host)) {
    notices.push(
      `admin.listen is ${admin.host}: whoever reaches that port sees all requests, and it asks for no password`,
    );
    if (adminChanges === 'always') {
      notices.push(
        'admin.changes is always: whoever reaches the admin listener may send all requests to a server of theirs',
      );
    }
  }
  const { auth } = config.access;
  const weak = new Set(auth?.keys.filter(({ isWeak }) => isWeak === true).map(({ tenant }) => tenant));
  if (weak.size > 0) {
    notices.push(`auth.keys: a key of ${[...weak].join(', ')} can be guessed; make one with: openssl rand -base64 32`);
  }
  if (auth !== undefined && config.http.tls === undefined && !isLoopback(config.http.listen.host)) {
    notices.push(
      `auth is on and listen (${config.http.listen.host}) speaks plain HTTP: keys pass readable, unless something in front of it speaks TLS`,
    );
  }
  for (const backend of config.fleet.backends) {
    if (backend.tls?.verify === false) {
      notices.push(`backend ${backend.name}: tls.verify is false, so anybody may answer in its place`);
    }
  }
  if (config.classify.openRoutes.length > 0) {
    notices.push(`routes.open lets every client change the engines: ${config.classify.openRoutes.join(', ')}`);
  }
  return notices;
}
