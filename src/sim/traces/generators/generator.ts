/** Workloads that need no file, by name. Each is made of public figures; the same seed gives the same requests. */
import type { Trace } from '../trace.ts';
import { agents } from './agents.ts';
import { conversation } from './conversation.ts';
import { documents } from './documents.ts';
import { sharedPrompts } from './shared-prompts.ts';
import { bursty, smooth } from './unrelated.ts';

export interface GeneratorSettings {
  readonly requests: number;
  /** requests a second, on average */
  readonly ratePerSecond: number;
  readonly seed: number;
}

export interface Generator {
  readonly make: (settings: GeneratorSettings) => Trace;
  /** unless told otherwise */
  readonly ratePerSecond: number;
  readonly says: string;
}

export const generators = {
  conversation: {
    make: conversation,
    ratePerSecond: 3.4,
    says: 'people who talk with a model, long prompts, several turns',
  },
  'shared-prompts': {
    make: sharedPrompts,
    ratePerSecond: 6,
    says: '150 customers, each with a system prompt of 6,000 tokens',
  },
  agents: { make: agents, ratePerSecond: 6, says: 'agents with tools: many short steps behind one another' },
  documents: { make: documents, ratePerSecond: 2, says: 'long documents, a few questions about each' },
  smooth: { make: smooth, ratePerSecond: 5.5, says: 'short prompts that share nothing, a steady load' },
  bursty: { make: bursty, ratePerSecond: 2.6, says: 'prompts that share nothing, in bursts' },
} as const satisfies Readonly<Record<string, Generator>>;

export type GeneratorName = keyof typeof generators;
