/**
 * A model server that answers the lines of a batch at a small seeded pace and keeps book of each: which line, when it came,
 * whether its answer was sent whole. A line is known by the first word of its prompt. As vLLM it streams where it is asked to.
 * Lives in the test's process, so its book outlasts any kill of the proxy.
 */
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { answerProbe } from '../../src/sim/probe-answers.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { createSeededRandom } from '../../src/sim/seeded-random.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, USE, wholeAnswer } from '../../src/sim/sse-script.ts';

export interface SentLine {
  readonly id: string;
  readonly atMs: number;
  /** undefined: it was left, or runs still */
  answeredMs?: number;
}

export interface LineBackend {
  readonly server: ScriptedServer;
  readonly url: string;
  readonly sent: readonly SentLine[];
  answered(): number;
  /** Lines that were begun and neither answered nor left. */
  running(): number;
  close(): Promise<void>;
}

export interface LineBackendSettings {
  readonly seed: number;
  readonly engine: 'vllm' | 'openai';
  readonly minMs: number;
  readonly maxMs: number;
  /** Refused with 400. */
  readonly refuses: (id: string) => boolean;
}

export async function startLineBackend(settings: LineBackendSettings): Promise<LineBackend> {
  const sent: SentLine[] = [];
  const random = createSeededRandom(settings.seed);
  let running = 0;

  async function* answer(request: RawRequest): AsyncGenerator<string | Buffer | number> {
    const { id, streamed } = readLine(request);
    const line: SentLine = { id, atMs: performance.now() };
    sent.push(line);
    running += 1;
    try {
      const pauseMs = settings.minMs + random() * (settings.maxMs - settings.minMs);
      if (settings.refuses(id)) {
        yield pauseMs;
        yield wholeAnswer(400, { error: { message: `not ${id}`, type: 'invalid_request_error', code: 400 } });
      } else if (streamed) {
        yield sseHead();
        yield chunk(ROLE);
        yield pauseMs / 2;
        yield chunk(T('echo '));
        yield pauseMs / 2;
        yield Buffer.concat([chunk(T(id), FIN('stop'), USE(3, 2), DONE), Buffer.from(lastChunk)]);
      } else {
        yield pauseMs;
        yield wholeAnswer(200, whole(`echo ${id}`));
      }
      line.answeredMs = performance.now();
    } finally {
      running -= 1;
    }
  }

  const server = await createScriptedServer({
    // A line names warmlane as its client, as probes do.
    probes: false,
    onRequest: (request) =>
      request.target === '/v1/chat/completions'
        ? answer(request)
        : answerProbe(request, { engine: settings.engine, model: 'm' }),
  });
  return {
    server,
    url: server.url,
    sent,
    answered: () => sent.filter(({ answeredMs }) => answeredMs !== undefined).length,
    running: () => running,
    close: () => server.close(),
  };
}

function readLine(request: RawRequest): { readonly id: string; readonly streamed: boolean } {
  // What a line of `crashInput` says.
  const body = request.json() as { stream?: boolean; messages: readonly { content: string }[] };
  return { id: body.messages[0]?.content.split(' ')[0] ?? '', streamed: body.stream === true };
}

function whole(text: string): object {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_780_000_000,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  };
}
