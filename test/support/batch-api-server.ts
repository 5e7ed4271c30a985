/**
 * A small server that speaks OpenAI's Files and Batch API as a script says: each look at the batch shows its next state, and
 * any request can be refused, left unanswered or cut. For the client's side of the API; it runs no line.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** Empty for an upload's file part that is over 1 MB: its digest stands for it. */
  readonly body: string;
  readonly bytes: number;
  readonly sha256: string;
}

export type Answer = { readonly status: number; readonly json?: unknown; readonly text?: string } | 'cut';

export interface ApiScript {
  /** What the batch is at each look; the last one stays. */
  readonly states?: readonly object[];
  /** Before anything else; undefined: as usual. */
  readonly instead?: (request: ApiRequest) => Answer | undefined;
  /** Content of files by id. */
  readonly contents?: Readonly<Record<string, string>>;
}

export interface ApiServer {
  readonly url: string;
  readonly requests: readonly ApiRequest[];
  close(): Promise<void>;
}

const heldBytes = 1_000_000;

export const batchObject = (more: object = {}) => ({
  id: 'batch_1',
  object: 'batch',
  endpoint: '/v1/chat/completions',
  model: 'm',
  errors: null,
  input_file_id: 'file-in',
  completion_window: '24h',
  status: 'validating',
  output_file_id: null,
  error_file_id: null,
  created_at: 1_800_000_000,
  expires_at: 1_800_086_400,
  request_counts: { total: 0, completed: 0, failed: 0 },
  metadata: null,
  ...more,
});

export async function startApiServer(script: ApiScript = {}): Promise<ApiServer> {
  const requests: ApiRequest[] = [];
  let looks = 0;
  const server = createServer((incoming, response) => {
    void take(incoming, response).catch(() => response.destroy());
  });
  async function take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await read(incoming);
    requests.push(request);
    const answer = script.instead?.(request) ?? usual(request);
    if (answer === 'cut') return void incoming.socket.destroy();
    const text = answer.text ?? JSON.stringify(answer.json);
    response.writeHead(answer.status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    });
    response.end(text);
  }
  function usual({ method, path }: ApiRequest): Answer {
    const [route = '', id = '', what = ''] = path.replace(/\?.*$/, '').split('/').slice(2);
    if (route === 'files' && method === 'POST') return { status: 200, json: { id: 'file-in', object: 'file' } };
    if (route === 'files' && method === 'DELETE') return { status: 200, json: { id, object: 'file', deleted: true } };
    const content = script.contents?.[id];
    if (route === 'files' && what === 'content' && content !== undefined) return { status: 200, text: content };
    const { states = [batchObject()] } = script;
    if (route === 'batches' && method === 'POST' && id === '') return { status: 200, json: batchObject() };
    if (route === 'batches' && id === '')
      return { status: 200, json: { object: 'list', data: states, has_more: false } };
    if (route === 'batches' && id === 'batch_1') {
      const state = states[Math.min(looks, states.length - 1)];
      looks += 1;
      return { status: 200, json: state };
    }
    return { status: 404, json: { error: { message: `no such thing: ${path}`, type: 'invalid_request_error' } } };
  }
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  // A server that listens on a TCP port has an address object.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function read(incoming: IncomingMessage): Promise<ApiRequest> {
  const hash = createHash('sha256');
  const held: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
    if (bytes <= heldBytes) held.push(chunk);
  }
  return {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    body: bytes <= heldBytes ? Buffer.concat(held).toString('utf8') : '',
    bytes,
    sha256: hash.digest('hex'),
  };
}
