/**
 * The life of one generating request on llama-server, from the slot to the end of the answer: when the head goes out, pings in silence,
 * which events share a chunk, and when a client's leaving is noticed.
 */
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Exchange } from '../dialect.ts';
import type { Engine } from '../engine.ts';
import type { Generation, GenerationSink } from '../generation.ts';
import type { SequenceEnd } from '../sequence.ts';
import type { LlamaFormat } from './format.ts';
import type { LlamaAsk } from './intake.ts';
import type { LlamaMetrics } from './metrics.ts';
import type { ChoiceRun } from './timings.ts';
import { errorBody, failed, openStream, refuse, sendJson } from './words.ts';

export interface StreamRunDeps {
  readonly clock: Clock;
  readonly engine: Engine;
  readonly metrics: LlamaMetrics;
  readonly exchange: Exchange;
  readonly ask: LlamaAsk;
  readonly format: LlamaFormat;
  readonly generation: Generation & { start(sink: GenerationSink): void };
  /** 0: none. */
  readonly pingIntervalMs: number;
  readonly abortPollMs: number;
  /** The server's latest sign of work that isn't the engine's: calls of `/slots` and `/metrics`. */
  lastTaskMs(): number;
  /** The server is dying: the next ping is the last thing that a stream gets. */
  isSilent(): boolean;
  /** A choice got its slot. */
  began(run: ChoiceRun): void;
  /** The request no longer holds anything. */
  released(): void;
}

export function runStream(deps: StreamRunDeps): void {
  const { clock, engine, ask, format, generation, exchange } = deps;
  const { reply } = exchange;
  const runs = new Map<number, ChoiceRun>();
  let lastWriteMs = clock.nowMs();
  let pingTimer: Timer | undefined;

  const write = (text: string) => {
    if (text === '') return;
    reply.chunk(text);
    lastWriteMs = clock.nowMs();
  };

  /** Comments are sent only after a whole interval without any other byte. */
  function armPing(): void {
    if (deps.pingIntervalMs === 0) return;
    pingTimer = clock.timer(lastWriteMs + deps.pingIntervalMs - clock.nowMs(), () => {
      if (reply.over) return;
      if (clock.nowMs() - lastWriteMs >= deps.pingIntervalMs) {
        write(':\n\n');
        if (deps.isSilent()) return reply.cut();
      }
      armPing();
    });
  }

  /** Nobody writes to the client, so its leaving is found by a poll, and any result of the engine puts the poll off. */
  function pollAbort(leftMs: number): void {
    const quietSinceMs = Math.max(leftMs, engine.view().lastResultMs, deps.lastTaskMs());
    const dueMs = quietSinceMs + deps.abortPollMs;
    if (clock.nowMs() >= dueMs) return generation.abort();
    clock.timer(dueMs - clock.nowMs(), () => pollAbort(leftMs));
  }

  reply.onGone(() => {
    const isWrittenTo = ask.stream && [...runs.values()].some((run) => run.tokens > 0);
    if (isWrittenTo) generation.abort();
    else pollAbort(clock.nowMs());
  });

  const sink: GenerationSink = {
    started(choice, start) {
      const run = newRun(choice, start, ask);
      runs.set(choice, run);
      deps.began(run);
      if (!ask.stream) return;
      if (!reply.headSent) {
        openStream(exchange);
        lastWriteMs = clock.nowMs();
        armPing();
      }
      // The children of a shared prompt have no progress of their own.
      if (ask.returnProgress && choice % ask.generation.choices === 0) write(format.progress(run));
    },
    progress(choice, processedTokens, atMs) {
      const run = runs.get(choice);
      if (run === undefined) return false;
      run.processedTokens = processedTokens;
      run.processedMs = atMs;
      if (!ask.stream || !ask.returnProgress) return false;
      write(format.progress(run));
      return true;
    },
    token(choice, index, atMs) {
      const run = runs.get(choice);
      if (run === undefined) return;
      if (index === 0) {
        run.firstTokenMs = atMs;
        run.processedTokens = run.promptTokens;
        if (choice % ask.generation.choices === 0)
          deps.metrics.prompt(run.promptTokens - run.cachedTokens, run.cachedTokens, atMs - run.startedMs);
      }
      run.lastTokenMs = atMs;
      run.tokens = index + 1;
      if (!ask.stream) return;
      if (reply.over) return generation.abort();
      const text = generation.plans[choice]?.deltas[index] ?? '';
      if (text !== '') write(format.token(run, text));
    },
    ended(choice, end) {
      const run = runs.get(choice);
      if (run === undefined) return;
      countEnd(deps.metrics, run, end);
      if (ask.stream && (end.reason === 'stop' || end.reason === 'length')) write(format.ended(run));
    },
    done(ends) {
      pingTimer?.cancel();
      finish(ends);
      deps.released();
    },
  };

  function finish(ends: readonly SequenceEnd[]): void {
    const failure = ends.find((end) => end.reason === 'failed');
    if (failure !== undefined && !reply.headSent) return refuse(exchange, failed(failure.error ?? 'failed'));
    if (failure !== undefined) {
      write(`data: ${errorBody(failed(failure.error ?? 'failed'))}\n\n`);
      return reply.end();
    }
    if (!ask.stream)
      return sendJson(exchange, format.body([...runs.values()].toSorted((left, right) => left.choice - right.choice)));
    write(format.endMarker);
    reply.end();
  }

  generation.start(sink);
}

function newRun(
  choice: number,
  start: { readonly atMs: number; readonly cachedTokens: number; readonly slot?: number },
  ask: LlamaAsk,
): ChoiceRun {
  const prompt = ask.generation.prompts[Math.floor(choice / ask.generation.choices)];
  return {
    choice,
    slot: start.slot ?? 0,
    promptTokens: prompt?.length ?? 0,
    cachedTokens: start.cachedTokens,
    startedMs: start.atMs,
    processedTokens: start.cachedTokens,
    processedMs: start.atMs,
    firstTokenMs: undefined,
    lastTokenMs: start.atMs,
    tokens: 0,
  };
}

/** Counters move at the slot's release; a prompt given up counts as far as it was computed. */
function countEnd(metrics: LlamaMetrics, run: ChoiceRun, end: SequenceEnd): void {
  if (run.firstTokenMs === undefined) metrics.prompt(end.computedTokens, run.cachedTokens, end.endMs - run.startedMs);
  else metrics.released(run.tokens, run.lastTokenMs - run.firstTokenMs);
}
