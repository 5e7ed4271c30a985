/**
 * From a socket's error to the kind of fault it means, with a text that names every address that was tried.
 * Pure; shared by both upstream clients.
 */
import type { FaultKind } from './port.ts';

/** How far the connection had come. */
export type SocketStage = 'connecting' | 'handshake' | 'open';

export function socketFaultKind(error: Error, stage: SocketStage): FaultKind {
  const codes = leaves(error).map(codeOf);
  const code = codes[0] ?? '';
  if (stage === 'connecting') {
    if (codes.some(isLookupCode)) return 'dns';
    const timedOut = codes.every((each) => each === 'ETIMEDOUT' || each === 'ERR_SOCKET_CONNECTION_TIMEOUT');
    return timedOut ? 'connect_timeout' : 'refused';
  }
  if (code === 'ECONNRESET' || code === 'EPIPE') return 'reset';
  if (stage === 'handshake') return 'tls';
  return code === 'EPROTO' || code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') ? 'tls' : 'reset';
}

export function socketErrorText(error: Error): string {
  return leaves(error)
    .map((each) => each.message || codeOf(each))
    .join('; ');
}

/** Happy eyeballs report one error that holds one for each address tried. */
function leaves(error: Error): readonly Error[] {
  if (!(error instanceof AggregateError)) return [error];
  const inner = error.errors.filter((each): each is Error => each instanceof Error);
  return inner.length > 0 ? inner : [error];
}

export function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function isLookupCode(code: string): boolean {
  return code === 'ENOTFOUND' || code === 'ENODATA' || code.startsWith('EAI_');
}
