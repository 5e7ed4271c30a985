/**
 * The cache experiment: asks what the plan says, in its order, and writes down what each request showed. The order
 * matters on servers whose slots keep only the last prompt. Effects only: what it means is said in `interpret.ts`.
 */
import { isObject, objectAt } from '../../../measure/dialect/facts.ts';
import type { Asker } from '../asker.ts';
import type { Message } from '../chat-body.ts';
import { fillerWords } from '../words.ts';
import { isSilent, isWebPage, jsonIn, type Call, type Seen } from '../wire.ts';
import { createBench, type Bench } from './bench.ts';
import { granularityOf } from './granularity.ts';
import { pairsOf } from './interpret.ts';
import type { Observation } from './observation.ts';
import { displacingTokens, shortTokens, type CachePlan } from './plan.ts';
import { createPromptMaker, type Prompt } from './prompts.ts';

export interface CacheRecord {
  readonly observations: readonly Observation[];
  /** The first chat failed: there is nothing to tell. */
  readonly refused?: Seen;
}

export async function runExperiment(asker: Asker, plan: CachePlan): Promise<CacheRecord> {
  const observations: Observation[] = [];
  const prompts = createPromptMaker(asker);
  const bench = createBench(asker, { plan, prompts, observations });
  const refused = await firstContact(bench);
  if (refused !== undefined) return { observations, refused };
  const counted = await lengths(bench, observations);
  if (counted) {
    await continuation(bench);
    await sharing(bench);
    await displacement(bench);
    await toolOrder(bench);
    await otherModel(bench);
  }
  await timed(bench, counted);
  return { observations };
}

/** @returns what went wrong, if the endpoint answers no chat at all */
async function firstContact({ send, prompts }: Bench): Promise<Seen | undefined> {
  const first = await send('first', prompts.fresh(shortTokens));
  if (first !== undefined && isAnswer(first)) return undefined;
  // Some templates know no system role.
  prompts.useUserRole();
  const second = await send('first', prompts.fresh(shortTokens));
  return second !== undefined && isAnswer(second) ? undefined : (second ?? first);
}

/** Other faults are told of request by request: the next one may go better. */
function isAnswer(seen: Seen): boolean {
  return seen.status === 200 && !isWebPage(seen) && !isSilent(seen) && seen.fault?.kind !== 'endless';
}

/** Whole prompts and prefixes of all lengths. @returns whether the server lets hits be counted */
async function lengths({ send, prompts, plan }: Bench, observations: readonly Observation[]): Promise<boolean> {
  const other = prompts.fresh(plan.longTokens);
  await send('fresh', other);
  if (observations.at(-1)?.cached === undefined) {
    // The counters were not read around that one: once more.
    await send('fresh', prompts.fresh(plan.longTokens));
    if (observations.at(-1)?.cached === undefined) return false;
  }
  const base = prompts.fresh(plan.longTokens);
  await send('fresh', base);
  await send('repeat', base, { after: base });
  for (const tokens of plan.prefixTokens) await send('prefix', prompts.branch(base, tokens), { after: base });
  await borders({ send, prompts, plan }, base, observations);
  const last = prompts.fresh(plan.longTokens);
  await send('fresh', last);
  await send('changed_first', prompts.changedFirst(last), { after: last });
  return true;
}

/** Where blocks were found: a prompt that parts exactly at a block's border, and one that parts a token before it. */
async function borders(
  { send, prompts, plan }: Pick<Bench, 'send' | 'prompts' | 'plan'>,
  base: Prompt,
  observations: readonly Observation[],
): Promise<void> {
  const found = granularityOf(pairsOf(observations));
  if (found.kind !== 'blocks') return;
  const border = found.tokens * Math.floor((plan.longTokens * 0.7) / found.tokens);
  for (const tokens of [border, border - 1]) {
    const prompt = border === 0 ? undefined : await prompts.branchAt(base, tokens);
    if (prompt !== undefined) await send('prefix', prompt, { after: base });
  }
}

async function continuation({ asker, send, prompts, plan }: Bench): Promise<void> {
  const base = prompts.fresh(plan.longTokens);
  const answer = await asker.chat({
    messages: base.messages,
    maxTokens: 12,
    stream: false,
    promptTokens: base.words + 30,
  });
  const text = answer === undefined ? undefined : answerIn(answer.body);
  if (text === undefined) return;
  const turns: readonly Message[] = [
    ...base.messages,
    { role: 'assistant', content: text },
    { role: 'user', content: 'And then?' },
  ];
  await send('continuation', { ...base, messages: turns }, { after: base });
}

function answerIn(body: string): string | undefined {
  const json = jsonIn(body);
  const choices: unknown = isObject(json) ? json['choices'] : undefined;
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const content = isObject(first) ? objectAt(first, 'message')?.['content'] : undefined;
  return typeof content === 'string' && content !== '' ? content : undefined;
}

/** Another session's prompt, and a prompt whose first request still runs. */
async function sharing({ asker, send, prompts, plan }: Bench): Promise<void> {
  const base = prompts.fresh(plan.longTokens);
  const mine = { user: `doctor-${asker.nonce()}` };
  await send('fresh', base, { extra: mine, request: { headers: ['x-session-id', mine.user] } });
  const theirs = { user: `doctor-${asker.nonce()}` };
  await send('session', base, { after: base, extra: theirs, request: { headers: ['x-session-id', theirs.user] } });

  const twice = prompts.fresh(plan.longTokens);
  let begun = (): void => {};
  const started = new Promise<void>((resolve) => (begun = resolve));
  let over = false;
  const call: Call | undefined = asker.open(
    { messages: twice.messages, maxTokens: 400, stream: true, promptTokens: twice.words + 30 },
    { onToken: () => begun() },
  );
  if (call === undefined) return;
  const ended = call.done.then(() => (over = true));
  await Promise.race([started, ended]);
  // A first one that was over by then shows a plain repetition.
  await send('concurrent', twice, { after: twice, spoilt: () => over });
  call.abort();
  await ended;
}

async function displacement({ asker, send, prompts, plan }: Bench): Promise<void> {
  // Blocks are shared by all, so there is no slot to be displaced from.
  if (asker.endpoint.facts?.engine === 'vllm') return;
  const base = prompts.fresh(displacingTokens);
  await send('short', base);
  for (let count = 0; count < plan.displacing; count += 1) await send('short', prompts.fresh(displacingTokens));
  await send('displaced', base, { after: base });
}

async function toolOrder({ asker, send, prompts, plan }: Bench): Promise<void> {
  const plain = prompts.fresh(shortTokens);
  const nonces = [asker.nonce(), asker.nonce()];
  const [one, two] = nonces.map((nonce) => ({
    type: 'function',
    function: {
      name: `look_up_${nonce}`,
      description: `${nonce} ${fillerWords(nonce, Math.floor((plan.toolTokens - shortTokens) / 2) - 40)}`,
      parameters: { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] },
    },
  }));
  if (one === undefined || two === undefined) return;
  await send('no_tools', plain);
  const inOrder = { ...plain, tools: [one, two], words: plain.words + plan.toolTokens - shortTokens };
  await send('tools', inOrder);
  await send('tools_same', inOrder, { after: inOrder });
  const reordered = { ...inOrder, tools: [two, one] };
  await send('tools_reordered', reordered, { after: inOrder });
}

async function otherModel({ asker, send, prompts, plan }: Bench): Promise<void> {
  const { facts, models, loraAdapters } = asker.endpoint;
  // Elsewhere another name may make the server load another model.
  const other = facts?.engine === 'vllm' || facts?.engine === 'sglang' ? otherOf(models, asker.model) : undefined;
  if (other === undefined && loraAdapters === 0) return;
  const base = prompts.fresh(plan.longTokens);
  await send('fresh', base);
  if (other === undefined) await send('other_model', base, { after: base, extra: { lora: [{ id: 0, scale: 0.25 }] } });
  else await send('other_model', base, { after: base, model: other });
}

/** A listed model of other weights; aliases of the same ones share their cache rightly. */
function otherOf(models: Asker['endpoint']['models'], model: string | undefined): string | undefined {
  const own = models.find(({ id }) => id === model);
  return models.find(
    ({ id, parent, root }) => id !== model && (parent !== own?.parent || (root !== undefined && root !== own?.root)),
  )?.id;
}

/** Repeated, one kind after the other, so that a slow moment of the machine meets all kinds alike. */
async function timed({ send, prompts, plan }: Bench, counted: boolean): Promise<void> {
  for (let round = 0; round < plan.rounds; round += 1) {
    if (!counted) await send('short', prompts.fresh(shortTokens));
    const prompt = prompts.fresh(plan.longTokens);
    await send('fresh', prompt);
    await send('repeat', prompt, { after: prompt });
    if (counted) continue;
    await send('prefix', prompts.branch(prompt, Math.floor(plan.longTokens * 0.9)), { after: prompt });
    await send('changed_first', prompts.changedFirst(prompt), { after: prompt });
  }
}
