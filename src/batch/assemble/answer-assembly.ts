/** From a streamed answer's bytes to the object that they come to: events found, understood and put together. Bounded. */
import type { Engine } from '../../domain/names.ts';
import type { BatchEndpoint } from '../batch.ts';
import type { Assembled, Assembler } from './assembled.ts';
import { createChoicesAssembler } from './choices.ts';
import { createEventStream } from './event-stream.ts';
import { createResponsesAssembler } from './responses.ts';

export interface AnswerAssembly {
  push(chunk: Buffer): void;
  /** It came to more than the bound: nothing more is kept. */
  readonly tooLong: boolean;
  end(engine: Engine | undefined): Assembled;
}

/** @param maxChars of the whole answer, and of one event */
export function createAnswerAssembly(endpoint: BatchEndpoint, maxChars: number): AnswerAssembly {
  const assembler = assemblerFor(endpoint);
  const events = createEventStream(maxChars, (name, data) => assembler.event(name, data));
  let tooLong = false;
  return {
    push(chunk) {
      if (tooLong) return;
      events.push(chunk);
      tooLong = events.tooLong || assembler.keptChars > maxChars;
    },
    get tooLong() {
      return tooLong;
    },
    end(engine) {
      events.end();
      return assembler.end(engine);
    },
  };
}

function assemblerFor(endpoint: BatchEndpoint): Assembler {
  if (endpoint === '/v1/responses') return createResponsesAssembler();
  return createChoicesAssembler(endpoint === '/v1/completions' ? 'completions' : 'chat');
}
