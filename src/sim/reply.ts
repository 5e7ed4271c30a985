/**
 * One HTTP answer with its headers in the dialect's own order and case, over node:http. Chunk borders are where the dialect puts them:
 * one `chunk` call is one HTTP chunk. Tells once when the client is gone.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Names and values in turn. */
export type HeaderPairs = readonly string[];

export interface ReplyHead {
  readonly status: number;
  readonly headers: HeaderPairs;
  /** Close the connection after the answer. Says nothing about it in the head: that is the headers' business. */
  readonly close?: boolean;
}

export interface WholeReply extends ReplyHead {
  readonly body: string | Buffer;
  /** The head goes out before the body, in a write of its own. */
  readonly inTwoWrites?: boolean;
}

export interface Reply {
  /** The client has closed or half-closed its side, or the answer is over. */
  readonly over: boolean;
  readonly headSent: boolean;
  whole(reply: WholeReply): void;
  /** Head of a chunked answer, sent at once. */
  open(head: ReplyHead): void;
  chunk(text: string): void;
  /** The last chunk. */
  end(): void;
  /** Cuts the connection without ending the answer. */
  cut(): void;
  /** Calls back at most once, when the client leaves before the answer is over. */
  onGone(gone: () => void): void;
}

export function createReply(response: ServerResponse): Reply {
  let over = false;
  const listeners: (() => void)[] = [];
  // Node adds a Connection header of its own unless it was removed; what becomes of the connection is then `shouldKeepAlive`'s say.
  response.sendDate = false;
  response.removeHeader('connection');
  response.on('error', () => response.destroy());
  response.once('close', () => {
    if (over) return;
    over = true;
    for (const gone of listeners) gone();
  });
  const writeHead = (head: ReplyHead) => {
    if (head.close === true) response.shouldKeepAlive = false;
    response.writeHead(head.status, [...head.headers]);
  };
  return {
    get over() {
      return over;
    },
    get headSent() {
      return response.headersSent;
    },
    whole(reply) {
      if (over) return;
      writeHead(reply);
      if (reply.inTwoWrites === true) response.flushHeaders();
      over = true;
      response.end(reply.body);
    },
    open(head) {
      if (over) return;
      writeHead(head);
      response.flushHeaders();
    },
    chunk(text) {
      if (!over) response.write(text);
    },
    end() {
      if (over) return;
      over = true;
      response.end();
    },
    cut() {
      over = true;
      // Not at once: what was written in this turn still goes out.
      response.socket?.destroySoon();
    },
    onGone(gone) {
      if (!over) listeners.push(gone);
    },
  };
}

/** Reads a request's body; undefined when it exceeds the limit or breaks off. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer | 'too_large' | undefined> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    request.on('data', (part: Buffer) => {
      bytes += part.length;
      if (bytes <= maxBytes) parts.push(part);
      else resolve('too_large');
    });
    request.on('end', () => resolve(parts.length === 1 ? parts[0] : Buffer.concat(parts)));
    request.on('error', () => resolve(undefined));
    request.on('close', () => resolve(undefined));
  });
}
