/**
 * The pace of each backend and the length of each model's answers, learnt from the answers as they end. A backend that has
 * shown nothing yet is taken to be like its mates: same engine, same models. Bounded by the names of backends and models.
 */
import { LRUCache } from 'lru-cache';
import type { BackendView } from '../domain/fleet.ts';
import type { AnswerTold } from '../domain/routing.ts';
import { DecodeModel, type DecodeSample } from './decode-model.ts';
import type { EngineSpeed } from './policy.ts';
import { PrefillRate, prefillSample } from './prefill-rate.ts';
import { type Begun, SeenSlots } from './seen-slots.ts';

/** How it stood when the job was sent there, without the job; where two moments are known, their mean. */
export interface SentState {
  readonly promptTokens: number;
  readonly uncachedTokens: number;
  /** prompt tokens before it when it was sent */
  readonly pendingTokens: number;
  /** sequences that decoded there while it did, its own included, and their KV tokens */
  readonly streams: number;
  readonly contextTokens: number;
  /** of others' prompts, computed there while it decoded; absent: 0 */
  readonly prefillTokens?: number;
  /** asked for: answers to the one prompt, side by side; absent: 1 */
  readonly choices?: number;
}

export interface Speeds {
  /** The same object until something new is learnt. */
  of(backend: BackendView): EngineSpeed;
  networkSeconds(backend: string): number;
  /** Streams beyond which jobs were seen to wait there; undefined: none waited, or nothing is known of its pace. */
  seenSlots(backend: string): number | undefined;
  /** A first token came there. */
  began(backend: BackendView, begun: Omit<Begun, 'stepMs'>): void;
  /** Tokens of one choice of an answer of this model, as expected. */
  outputTokens(model: string | undefined): number;
  learn(backend: BackendView, model: string | undefined, answer: { sent: SentState; told: AnswerTold }): void;
  forget(backend: string): void;
}

/** As of a 32 B model on two large cards: what is not known yet is better thought too fast than too slow. */
export const speedDefaults: EngineSpeed = {
  prefillTokensPerSecond: 8000,
  decodeBaseMs: 15,
  decodePerStreamMs: 0.02,
  decodePerContextTokenMs: 0.000_06,
};

const firstOutputTokens = 300;
const outputWeight = 0.05;
const networkWeight = 0.1;
const newConnectionMs = 0.5;
const maxModels = 1000;
/** How much the latest answer counts for whether a backend decodes slower or faster than its mates. */
const paceWeight = 0.05;
/** Tokens of an answer from which its mean step can be told. */
const fewestOutputTokens = 8;
/** Two backends whose figures differ by less are taken for equal: so much is noise. */
const noiseShare = 0.25;

interface Learnt {
  /** As it was seen last: the same object needs no second look. */
  view: BackendView;
  readonly group: Group;
  readonly rate: PrefillRate;
  /** Of its steps, against what its group's model says. */
  pace: number;
  readonly slots: SeenSlots;
  networkMs: number | undefined;
  speed: EngineSpeed;
  /** Of its group when `speed` was made. */
  version: number;
}

interface Group {
  readonly key: string;
  readonly members: Set<Learnt>;
  /** Median of its members; undefined while none has learnt. */
  rate: number | undefined;
  /** Of all its members: one alone shows too few loads to tell streams from tokens. */
  readonly decode: DecodeModel;
  version: number;
}

export function createSpeeds(): Speeds {
  const byBackend = new Map<string, Learnt>();
  const groups = new Map<string, Group>();
  const outputs = new LRUCache<string, { tokens: number; answers: number }>({ max: maxModels });

  function learntOf(backend: BackendView): Learnt {
    const known = byBackend.get(backend.name);
    if (known?.view === backend) return known;
    const key = `${backend.engine} ${backend.models.join(' ')}`;
    if (known?.group.key === key) {
      known.view = backend;
      return known;
    }
    const group = groups.get(key) ?? newGroup(key);
    groups.set(key, group);
    if (known !== undefined) leave(known);
    const { rate, pace, slots, networkMs } = known ?? newcomer();
    // The same machine, even with other models, is better known by what it showed than by nothing.
    const made: Learnt = { view: backend, group, rate, pace, slots, networkMs, speed: speedDefaults, version: -1 };
    group.members.add(made);
    byBackend.set(backend.name, made);
    summarise(group);
    return made;
  }

  function leave(learnt: Learnt): void {
    learnt.group.members.delete(learnt);
    if (learnt.group.members.size === 0) groups.delete(learnt.group.key);
    else summarise(learnt.group);
  }

  function learnLength(model: string | undefined, outputTokens: number | undefined): void {
    if (outputTokens === undefined || outputTokens <= 0) return;
    const { tokens, answers } = outputs.get(model ?? '') ?? { tokens: firstOutputTokens, answers: 1 };
    // The guess counts as one answer.
    const weight = Math.max(outputWeight, 1 / (answers + 1));
    outputs.set(model ?? '', { tokens: nearer(tokens, outputTokens, weight), answers: answers + 1 });
  }

  return {
    of(backend) {
      const learnt = learntOf(backend);
      const { group } = learnt;
      if (learnt.version !== group.version) {
        learnt.speed = speedOf(learnt, group);
        learnt.version = group.version;
      }
      return learnt.speed;
    },
    networkSeconds: (backend) => (byBackend.get(backend)?.networkMs ?? 0) / 1000,
    seenSlots: (backend) => byBackend.get(backend)?.slots.limit,
    began(backend, begun) {
      const { rate, slots, speed } = byBackend.get(backend.name) ?? learntOf(backend);
      if (rate.tokensPerSecond !== undefined) slots.learn({ ...begun, stepMs: speed.decodeBaseMs });
    },
    outputTokens: (model) => outputs.get(model ?? '')?.tokens ?? firstOutputTokens,
    learn(backend, model, { sent, told }) {
      // It may have been sent when the backend had other models: what it is now doesn't change by that.
      const learnt = byBackend.get(backend.name) ?? learntOf(backend);
      const { promptTokens = sent.promptTokens, cachedTokens, tpotMs } = told;
      // Told is the sum over all choices, which come side by side: a step yields a token of each.
      const choices = Math.max(1, told.choices ?? sent.choices ?? 1);
      const outputTokens = told.outputTokens === undefined ? undefined : told.outputTokens / choices;
      learnLength(model, outputTokens);
      const sample = prefillSample({
        uncachedTokens: cachedTokens === undefined ? sent.uncachedTokens : promptTokens - cachedTokens,
        pendingTokens: sent.pendingTokens,
        ttftMs: told.upstreamTtftMs,
        tokensPerSecond: told.prefillTokensPerSecond,
        fixedMs: learnt.speed.decodeBaseMs + (learnt.networkMs ?? 0),
      });
      if (sample !== undefined) learnt.rate.learn(sample);
      if (tpotMs !== undefined && outputTokens !== undefined && outputTokens >= fewestOutputTokens)
        learnSteps(learnt, {
          tpotMs,
          streams: sent.streams,
          contextTokens: sent.contextTokens + (outputTokens * choices) / 2,
          prefillTokens: (sent.prefillTokens ?? 0) / (outputTokens - 1),
        });
      // One that takes no time was open already.
      if (told.connectMs !== undefined && told.connectMs >= newConnectionMs)
        // From 0 on: whoever is not chosen for one slow connection would never be known to be better.
        learnt.networkMs = nearer(learnt.networkMs ?? 0, told.connectMs, networkWeight);
      summarise(learnt.group);
    },
    forget(backend) {
      const learnt = byBackend.get(backend);
      if (learnt === undefined) return;
      byBackend.delete(backend);
      leave(learnt);
    },
  };
}

function newGroup(key: string): Group {
  const { decodeBaseMs, decodePerStreamMs, decodePerContextTokenMs } = speedDefaults;
  const decode = new DecodeModel([
    decodeBaseMs,
    decodePerStreamMs,
    decodePerContextTokenMs,
    1000 / speedDefaults.prefillTokensPerSecond,
  ]);
  return { key, members: new Set(), rate: undefined, decode, version: 0 };
}

function newcomer(): Pick<Learnt, 'rate' | 'pace' | 'slots' | 'networkMs'> {
  return { rate: new PrefillRate(), pace: 1, slots: new SeenSlots(), networkMs: undefined };
}

function learnSteps(learnt: Learnt, sample: DecodeSample): void {
  const { decode } = learnt.group;
  const expectedMs = decode.expectedMs(sample);
  const before = decode.samples;
  decode.learn(sample);
  if (decode.samples > before && expectedMs > 0)
    learnt.pace = nearer(learnt.pace, sample.tpotMs / expectedMs, paceWeight);
}

function summarise(group: Group): void {
  const rates: number[] = [];
  for (const { rate } of group.members) if (rate.tokensPerSecond !== undefined) rates.push(rate.tokensPerSecond);
  group.rate = median(rates);
  if (group.rate !== undefined) group.decode.expectPrefill(1000 / group.rate);
  group.version += 1;
}

function speedOf({ rate, pace }: Learnt, group: Group): EngineSpeed {
  const [base, perStream, perContextToken] = group.decode.terms;
  const factor = settled(pace, 1) ?? 1;
  return {
    prefillTokensPerSecond: settled(rate.tokensPerSecond, group.rate) ?? speedDefaults.prefillTokensPerSecond,
    decodeBaseMs: base * factor,
    decodePerStreamMs: perStream * factor,
    decodePerContextTokenMs: perContextToken * factor,
  };
}

/** A figure of its own, unless that differs from its mates' by no more than noise. */
function settled(own: number | undefined, usual: number | undefined): number | undefined {
  if (own === undefined || usual === undefined) return own ?? usual;
  return Math.abs(own - usual) <= noiseShare * Math.max(own, usual) ? usual : own;
}

/** An average in which the latest counts by `weight`. */
function nearer(before: number | undefined, value: number, weight: number): number {
  return before === undefined ? value : before + weight * (value - before);
}

/** The lower one of two in the middle: thought of as slower, a backend is not overrun. */
function median(values: number[]): number | undefined {
  values.sort((a, b) => a - b);
  return values[Math.floor((values.length - 1) / 2)];
}
