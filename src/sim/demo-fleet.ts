/**
 * The demo: two simulated model servers, one in each dialect, and a little seeded traffic against whatever stands before them.
 * Everything says that it is simulated. Knows no proxy; who starts it and where its traffic goes is the caller's business.
 */
import type { Clock } from '../platform/clock.ts';
import { createDemoClient, type ChatTurnSent } from './demo-client.ts';
import { createSeededRandom, exponential, pick, wholeBetween, type Random } from './seeded-random.ts';
import { createSimServer, type SimServer } from './server.ts';
import { laptopLlamaServer, laptopVllmServer } from './server-settings.ts';

export interface DemoFleet {
  readonly backends: readonly { readonly name: string; readonly url: string }[];
  readonly servers: readonly SimServer[];
  close(): Promise<void>;
}

export interface DemoTraffic {
  /** No more requests; those under way are aborted. */
  stop(): void;
  /** Requests sent, and answered whole, so far. */
  readonly sent: number;
  readonly answered: number;
}

export async function startDemoFleet(deps: { readonly clock: Clock }): Promise<DemoFleet> {
  const servers = await Promise.all([
    createSimServer(laptopVllmServer, deps),
    createSimServer(laptopLlamaServer, deps),
  ]);
  const names = ['simulated-vllm', 'simulated-llama'];
  return {
    servers,
    backends: servers.map((server, index) => ({ name: names[index] ?? server.url, url: server.url })),
    async close() {
      await Promise.all(servers.map((server) => server.close()));
    },
  };
}

export interface DemoTrafficDeps {
  /** Origin of what serves the traffic. */
  readonly url: string;
  readonly clock: Clock;
  /** By default a seeded one, so that each demo asks the same. */
  readonly random?: Random;
  /** Mean pause between two requests. */
  readonly meanGapMs?: number;
}

const defaultGapMs = 2_000;
/** Conversations at a time; each begins with one of few system prompts, so that prefixes are shared. */
const conversations = 3;
const longestConversation = 8;

const systemPrompts = [
  'You help people who run model servers. Answer in short sentences. Name figures with their units. When you do not know, say so. Keep to the question, and never guess at a cause without a measurement.',
  'You explain queues and caches to newcomers. Use small examples with round numbers. Prefer everyday words. Begin with the answer, then give the reason, then one thing to try.',
];

const questions = [
  'Why is the first token late?',
  'What is a prefix cache good for?',
  'How long is one step of the engine?',
  'Which requests wait, and for what?',
  'What changes when eight people ask at once?',
  'Can the batch run beside this?',
  'Which of the two servers is warm?',
  'How many tokens a second is that?',
];

interface Draw {
  readonly question: string;
  readonly system: string;
  readonly maxTokens: number;
  /** Uniform in [0, 1). */
  readonly chance: number;
}

/** Begins to send chat requests, streamed, about one in `meanGapMs`; each continues one of a few conversations or begins a new one. */
export function startDemoTraffic(deps: DemoTrafficDeps): DemoTraffic {
  const random = deps.random ?? createSeededRandom(8484);
  const client = createDemoClient(deps.url);
  const open: ChatTurnSent[][] = [];
  const busy = new Set<ChatTurnSent[]>();
  let sent = 0;
  let answered = 0;
  let stopped = false;

  async function ask(): Promise<void> {
    // Everything is drawn each time, used or not, so that what is asked doesn't depend on how fast the answers come.
    const draw: Draw = {
      question: pick(random, questions),
      system: pick(random, systemPrompts),
      maxTokens: wholeBetween(random, 24, 120),
      chance: random(),
    };
    const turns = nextConversation(draw);
    if (turns === undefined) return;
    turns.push({ role: 'user', content: draw.question });
    busy.add(turns);
    sent += 1;
    const text = await client.chat(turns, draw.maxTokens);
    busy.delete(turns);
    if (text !== undefined) answered += 1;
    if (text === undefined || turns.length > 2 * longestConversation) open.splice(open.indexOf(turns), 1);
    else turns.push({ role: 'assistant', content: text });
  }

  /** One that waits for its next question, or a new one; undefined when all are being answered. */
  function nextConversation(draw: Draw): ChatTurnSent[] | undefined {
    const idle = open.filter((turns) => !busy.has(turns));
    if (open.length < conversations && (idle.length === 0 || draw.chance < 0.4)) {
      const turns = [{ role: 'system', content: draw.system }];
      open.push(turns);
      return turns;
    }
    return idle[Math.floor(draw.chance * idle.length)];
  }

  let timer = schedule();
  function schedule() {
    return deps.clock.timer(exponential(random, deps.meanGapMs ?? defaultGapMs), () => {
      if (stopped) return;
      timer = schedule();
      void ask();
    });
  }
  return {
    get sent() {
      return sent;
    },
    get answered() {
      return answered;
    },
    stop() {
      stopped = true;
      timer.cancel();
      client.close();
    },
  };
}
