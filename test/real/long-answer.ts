/**
 * A model server that says only long answers: so many chat chunks in vLLM's words, one token each, at a steady pace.
 * For what no small engine can give: ten thousand tokens in one answer.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { modelName } from './engine.ts';

export interface LongAnswerServer {
  readonly url: string;
  close(): Promise<void>;
}

const chunk = (delta: object, finish: string | null) =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: modelName,
    choices: [{ index: 0, delta, finish_reason: finish }],
  })}\n\n`;

/** @param tokens in each answer @param burst tokens written in one go, one burst a millisecond */
export function startLongAnswers(tokens: number, burst = 10): Promise<LongAnswerServer> {
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') {
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: [{ id: modelName, object: 'model' }] }));
      return;
    }
    if (request.method !== 'POST') {
      response.statusCode = 404;
      response.end();
      return;
    }
    request.resume();
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(chunk({ role: 'assistant', content: '' }, null));
    let sent = 0;
    const timer = setInterval(() => {
      let text = '';
      for (let i = 0; i < burst && sent < tokens; i += 1, sent += 1) text += chunk({ content: ` ${sent}` }, null);
      if (sent < tokens) {
        response.write(text);
        return;
      }
      clearInterval(timer);
      const usage = { prompt_tokens: 3, completion_tokens: tokens, total_tokens: tokens + 3 };
      response.end(`${text}${chunk({}, 'stop')}data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
    }, 1);
    response.on('close', () => clearInterval(timer));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      // A listening TCP server's address is an AddressInfo; the other types are for pipes and closed servers.
      const { port } = server.address() as AddressInfo;
      resolve({
        url: `http://127.0.0.1:${port}`,
        close: () =>
          new Promise((closed) => {
            server.closeAllConnections();
            server.close(() => closed());
          }),
      });
    });
  });
}
