/**
 * The warm index beside a simulated engine: each prompt is looked up, sent, and answered with what the engine's cache really
 * gave. Conversations over shared system prompts, whose answers come back in the next turn, and documents asked about once
 * or a few times.
 */
import type { BackendView } from '../../../../src/domain/fleet.ts';
import type { PrefixChain } from '../../../../src/domain/prefix.ts';
import type { WarmIndex } from '../../../../src/route/warm/port.ts';
import { createEngine, type Engine } from '../../../../src/sim/engine.ts';
import { tokenPrompt, type SimPrompt } from '../../../../src/sim/prompt.ts';
import { createSeededRandom, exponential, pick, wholeBetween, type Random } from '../../../../src/sim/seeded-random.ts';
import type { EngineSettings } from '../../../../src/sim/settings.ts';
import type { VirtualClock } from '../../../../src/sim/virtual-clock.ts';
import { chainOf, freshMessage, type ChainShape, type Message } from './chains.ts';

export interface WorkloadShape {
  readonly requests: number;
  readonly gapMs: number;
  readonly systemPrompts: number;
  readonly openConversations: number;
  readonly maxTurns: number;
  /** tokens that the template puts before each message, and behind the last */
  readonly templateTokens: number;
  /** the client sends answers back as they came */
  readonly answersReturn: boolean;
  readonly chain: ChainShape;
  /** So many prompts at a time, the others wait before they are looked up, as they do where slots are known; absent: no limit. */
  readonly atOnce?: number;
}

export interface Measured {
  promptTokens: number;
  cachedTokens: number;
  predictedTokens: number;
  /** sum of |predicted − told| */
  offTokens: number;
  answers: number;
}

interface Conversation {
  readonly messages: Message[];
  turns: number;
  busy: boolean;
}

interface World {
  readonly index: WarmIndex;
  readonly backend: BackendView;
  readonly clock: VirtualClock;
  readonly engine: Engine;
  readonly random: Random;
  readonly shape: WorkloadShape;
  readonly waiting: (() => void)[];
  inFlight: number;
}

/** @returns figures of the requests from `from` on, by order of sending */
export function runWorkload(
  { index, backend, clock }: { index: WarmIndex; backend: BackendView; clock: VirtualClock },
  { engine, shape, seed, from }: { engine: EngineSettings; shape: WorkloadShape; seed: number; from: number },
): Measured {
  const random = createSeededRandom(seed);
  const world: World = {
    index,
    backend,
    clock,
    engine: createEngine(engine, { clock }),
    random,
    shape,
    waiting: [],
    inFlight: 0,
  };
  const measured: Measured = { promptTokens: 0, cachedTokens: 0, predictedTokens: 0, offTokens: 0, answers: 0 };
  const systems = Array.from({ length: shape.systemPrompts }, () => freshMessage(wholeBetween(random, 150, 1500)));
  const open: Conversation[] = [];
  const begin = (): Conversation => {
    // A few system prompts are used much more than the others.
    const system = systems[Math.floor(random() ** 2 * systems.length)] ?? [];
    return { messages: [system], turns: 0, busy: false };
  };
  for (let count = 0; count < shape.openConversations; count += 1) open.push(begin());
  let sent = 0;
  const next = () => {
    const at = Math.floor(random() * open.length);
    const conversation = open[at];
    if (conversation !== undefined && !conversation.busy) {
      ask(world, conversation, sent >= from ? measured : undefined);
      sent += 1;
      if (conversation.turns >= shape.maxTurns) open[at] = begin();
    }
    if (sent < shape.requests) clock.timer(exponential(random, shape.gapMs), next);
  };
  clock.timer(0, next);
  clock.runAll();
  return measured;
}

const templateId = 4_000_000_000;

function ask(world: World, conversation: Conversation, measured: Measured | undefined): void {
  const { random, shape } = world;
  conversation.messages.push(freshMessage(pick(random, [wholeBetween(random, 10, 80), wholeBetween(random, 80, 600)])));
  conversation.turns += 1;
  conversation.busy = true;
  const messages = [...conversation.messages];
  const chain = chainOf(messages, shape.chain);
  const template = Array.from({ length: shape.templateTokens }, (_, at) => templateId + at);
  const ids = [...messages.flatMap((message) => [...template, ...message]), ...template];
  const answer = freshMessage(wholeBetween(random, 20, 300));
  const send = () => {
    world.inFlight += 1;
    const prompt = tokenPrompt(Uint32Array.from(ids));
    sendPrompt(world, { chain, prompt, answer }, (told, predicted) => {
      // What comes back in another form shares nothing with what was generated.
      conversation.messages.push(shape.answersReturn ? answer : freshMessage(answer.length));
      conversation.busy = false;
      world.inFlight -= 1;
      world.waiting.shift()?.();
      if (measured === undefined) return;
      measured.answers += 1;
      measured.promptTokens += told.promptTokens;
      measured.cachedTokens += told.cachedTokens;
      measured.predictedTokens += predicted;
      measured.offTokens += Math.abs(predicted - told.cachedTokens);
    });
  };
  if (world.inFlight < (shape.atOnce ?? Infinity)) send();
  else world.waiting.push(send);
}

interface Told {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

function sendPrompt(
  { index, backend, engine }: World,
  { chain, prompt, answer }: { chain: PrefixChain; prompt: SimPrompt; answer: Message },
  over: (told: Told, predicted: number) => void,
): void {
  const predicted = index.look(chain, [backend], 'model').held.get(backend.name)?.tokens ?? 0;
  const visit = index.visit(backend, chain, 'model');
  engine.submit(
    {
      prompt,
      choices: [{ outputTokens: answer.length, endsBy: 'stop', output: { idAt: (at: number) => answer[at] ?? 0 } }],
    },
    {
      token(_choice, at) {
        if (at === 0) visit.computed();
      },
      ended({ promptTokens, cachedTokens, outputTokens }) {
        const told = { promptTokens, cachedTokens, outputTokens };
        visit.end({ computed: true, ...told });
        over(told, predicted);
      },
    },
  );
}
