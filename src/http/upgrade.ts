/**
 * Requests with an Upgrade header. WebSockets are handed on; anything else (`h2c`, which some HTTP clients offer with
 * every request) is served as if it had not offered, as RFC 9110, 7.8 allows. Node 20 hands all of them to one listener,
 * so the latter are put back on the socket without the offer and read again.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';

export type UpgradeListener = (incoming: IncomingMessage, socket: Socket, first: Buffer) => void;

export function onUpgrade(server: Server | https.Server, tunnel: UpgradeListener): void {
  /** Answers under way on each connection: an offer behind one of them would be answered out of turn. */
  const busy = new WeakMap<Socket, number>();
  server.on('request', ({ socket }: IncomingMessage, outgoing: ServerResponse) => {
    busy.set(socket, (busy.get(socket) ?? 0) + 1);
    outgoing.once('close', () => busy.set(socket, (busy.get(socket) ?? 1) - 1));
  });
  // Node's HTTPS server begins the TLS handshake at `connection`; what is decrypted comes in here.
  const readAgain = server instanceof https.Server ? 'secureConnection' : 'connection';
  server.on('upgrade', (incoming: IncomingMessage, socket: Socket, first: Buffer) => {
    if ((busy.get(socket) ?? 0) > 0) {
      socket.destroy();
      return;
    }
    const offers = (incoming.headers.upgrade ?? '').toLowerCase().split(',');
    if (incoming.method === 'GET' && offers.some((offer) => offer.trim() === 'websocket')) {
      tunnel(incoming, socket, first);
      return;
    }
    socket.unshift(Buffer.concat([Buffer.from(headWithoutOffer(incoming), 'latin1'), first]));
    server.emit(readAgain, socket);
  });
}

function headWithoutOffer(incoming: IncomingMessage): string {
  const { rawHeaders } = incoming;
  let text = `${incoming.method} ${incoming.url} HTTP/${incoming.httpVersion}\r\n`;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    const value = rawHeaders[i + 1] ?? '';
    switch (name.toLowerCase()) {
      case 'upgrade':
      case 'http2-settings':
        break;
      case 'connection': {
        const kept = value.split(',').filter((item) => !/^\s*(upgrade|http2-settings)\s*$/i.test(item));
        if (kept.length > 0) text += `${name}: ${kept.join(',')}\r\n`;
        break;
      }
      default:
        text += `${name}: ${value}\r\n`;
    }
  }
  return `${text}\r\n`;
}
