import { describe, expect, it } from 'vitest';
import type { Decoding, DecodeStarts } from '../../../src/domain/decoding.ts';
import { createObserver } from '../../../src/measure/observer.ts';
import { jobOf, measureSettings } from '../../support/observe.ts';

/** Writes down what it hears; every stream had three beside it. */
function listening(): DecodeStarts & { readonly heard: string[] } {
  const heard: string[] = [];
  return {
    heard,
    began(backend, sequences, atMs): Decoding {
      heard.push(`${backend} began ${sequences} at ${atMs}`);
      return {
        concurrency: 4,
        end: (endMs) => void heard.push(`${backend} ended at ${endMs}`),
      };
    },
  };
}

const token = Buffer.from('{"choices":[{"index":0,"delta":{"content":"a"}}]}');

function observed(decodes: DecodeStarts) {
  const observer = createObserver(measureSettings, {
    head: { requestId: 'r', method: 'POST', target: '/v1/chat/completions', receivedMs: 1 },
    wallMs: 0,
    decodes,
  });
  observer.classified(jobOf({ choices: 2 }));
  return observer;
}

function read(observer: ReturnType<typeof observed>, atMs: number): void {
  observer.beginRead(atMs);
  observer.event(token, 0, token.length, '');
  observer.endRead();
}

const ending = { outcome: 'ok', spokenBy: 'backend', atMs: 90 } as const;

describe('a stream that decodes', () => {
  it('is told of once with its first token, and ends with its answer', () => {
    const decodes = listening();
    const observer = observed(decodes);
    observer.attempt({ backend: 'b', engine: 'vllm' });
    for (const atMs of [10, 20, 30]) read(observer, atMs);
    observer.mark('end', 40);
    expect(decodes.heard).toEqual(['b began 2 at 10', 'b ended at 40']);
    expect(observer.finish(ending).assessment).toEqual({ decodeConcurrency: 4 });
  });

  it('ends with its request where the answer never did', () => {
    const decodes = listening();
    const observer = observed(decodes);
    observer.attempt({ backend: 'b', engine: 'vllm' });
    read(observer, 10);
    observer.finish({ ...ending, outcome: 'client_abort' });
    expect(decodes.heard.at(-1)).toBe('b ended at 90');
  });

  it('ends on one backend before it begins on another', () => {
    const decodes = listening();
    const observer = observed(decodes);
    observer.attempt({ backend: 'b', engine: 'vllm' });
    read(observer, 10);
    observer.attempt({ backend: 'c', engine: 'vllm', atMs: 50 });
    read(observer, 60);
    expect(decodes.heard).toEqual(['b began 2 at 10', 'b ended at 50', 'c began 2 at 60']);
  });

  it('was none without a token: nothing is said of what ran beside it', () => {
    const decodes = listening();
    const observer = observed(decodes);
    observer.attempt({ backend: 'b', engine: 'vllm' });
    expect(observer.finish(ending).assessment).toBeUndefined();
    expect(decodes.heard).toEqual([]);
  });
});
