/**
 * The demo's own chat client: sends one streamed request and gathers the answer's text.
 * Forgives everything, since a demo must not die of a refusal or a broken stream. Used by `demo-fleet.ts` alone.
 */
import { Agent, request } from 'node:http';
import { isJsonObject, readObject, readString } from './json-fields.ts';

export interface ChatTurnSent {
  readonly role: string;
  readonly content: string;
}

export interface DemoClient {
  /** @returns the answer's text, or undefined when there was none (refused, broken off, not an event stream) */
  chat(turns: readonly ChatTurnSent[], maxTokens: number): Promise<string | undefined>;
  /** Aborts what is under way. */
  close(): void;
}

/** An answer longer than this is not gathered further. */
const maxAnswerBytes = 256 * 1024;

export function createDemoClient(url: string): DemoClient {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const controller = new AbortController();
  return {
    chat(turns, maxTokens) {
      const body = JSON.stringify({ model: 'simulated', messages: turns, max_tokens: maxTokens, stream: true });
      const headers = {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'User-Agent': 'warmlane-demo',
      };
      return new Promise((resolve) => {
        const sent = request(
          `${url}/v1/chat/completions`,
          { method: 'POST', agent, headers, signal: controller.signal },
          (response) => {
            const parts: Buffer[] = [];
            let bytes = 0;
            response.on('data', (part: Buffer) => {
              bytes += part.length;
              if (bytes <= maxAnswerBytes) parts.push(part);
            });
            response.on('error', () => resolve(undefined));
            response.on('close', () =>
              resolve(
                response.complete && response.statusCode === 200
                  ? answerText(Buffer.concat(parts).toString())
                  : undefined,
              ),
            );
          },
        );
        sent.on('error', () => resolve(undefined));
        sent.end(body);
      });
    },
    close() {
      controller.abort();
      agent.destroy();
    },
  };
}

/** Text of all deltas of a chat stream; undefined when there is none. */
export function answerText(stream: string): string | undefined {
  let text = '';
  for (const line of stream.split('\n')) {
    if (line.startsWith('data: {')) text += deltaText(line.slice(6));
  }
  return text === '' ? undefined : text;
}

function deltaText(json: string): string {
  let event: unknown;
  try {
    event = JSON.parse(json);
  } catch {
    // A broken event has no text to add.
    return '';
  }
  const choices: unknown = isJsonObject(event) ? event['choices'] : undefined;
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
  return isJsonObject(first) ? (readString(readObject(first, 'delta'), 'content') ?? '') : '';
}
