/**
 * Waits until a batch is over: looks at it again and again, shows how far it is, and goes on looking when the connection is
 * lost. Ends early only when nobody answers for long, when the server says no, or when it is told to.
 */
import type { BatchApi } from './batch-api.ts';
import { isOver, type BatchObject } from './batch-object.ts';
import { progressBar, progressLine, time } from './batch-text.ts';
import type { Failure } from './failure.ts';
import { createPace } from './pace.ts';
import type { Screen } from './screen.ts';

export interface WaitDeps {
  readonly api: Pick<BatchApi, 'get'>;
  readonly screen: Screen;
  /** wall clock, ms */
  readonly nowMs: () => number;
  /** Ends early, without an error, when `signal` fires. */
  readonly sleep: (ms: number) => Promise<void>;
  /** The user wants to leave. */
  readonly signal: AbortSignal;
}

export type Waited =
  | { readonly kind: 'found'; readonly batch: BatchObject }
  | { readonly kind: 'left' }
  | { readonly kind: 'failed'; readonly failure: Failure };

const firstLookMs = 250;
const terminalLookMs = 1000;
const plainLookMs = 5000;
const firstRetryMs = 1000;
const lastRetryMs = 10_000;
/** Nobody answered for so long: the batch may go on, but this command gives up. */
const patienceMs = 15 * 60_000;

/** @param first as it was when it was made; undefined: it is looked at now */
export async function waitForEnd(id: string, first: BatchObject | undefined, deps: WaitDeps): Promise<Waited> {
  const { api, screen, nowMs, sleep, signal } = deps;
  const pace = createPace();
  let lookMs = firstLookMs;
  let lostMs: number | undefined;
  let retryMs = firstRetryMs;
  let status = first?.status;
  let isFirstLook = first === undefined;
  if (first !== undefined) show(first);
  for (;;) {
    if (signal.aborted) return { kind: 'left' };
    if (!isFirstLook) await sleep(lostMs === undefined ? lookMs : retryMs);
    isFirstLook = false;
    if (signal.aborted) return { kind: 'left' };
    const got = await api.get(id);
    if (signal.aborted) return { kind: 'left' };
    if (!got.ok) {
      const { failure } = got;
      if (!failure.passing) return { kind: 'failed', failure };
      if (lostMs === undefined) screen.line(`${failure.says}\nThe batch itself goes on there; trying again.`);
      else retryMs = Math.min(lastRetryMs, retryMs * 2);
      lostMs ??= nowMs();
      retryMs = Math.min(lastRetryMs, Math.max(retryMs, failure.retryAfterMs ?? 0));
      if (nowMs() - lostMs > patienceMs) return { kind: 'failed', failure };
      screen.show(`no answer for ${time((nowMs() - lostMs) / 1000)}, trying again`);
      continue;
    }
    if (lostMs !== undefined) screen.line(`warmlane answers again after ${time((nowMs() - lostMs) / 1000)}.`);
    lostMs = undefined;
    retryMs = firstRetryMs;
    const batch = got.value;
    if (isOver(batch)) {
      screen.clear();
      return { kind: 'found', batch };
    }
    show(batch);
    // Short batches are seen to end at once, long ones cost few questions.
    lookMs = Math.min(screen.terminal ? terminalLookMs : plainLookMs, lookMs * 1.5);
  }

  function show(batch: BatchObject): void {
    const done = batch.completed + batch.failed;
    const linesPerSecond = batch.status === 'in_progress' ? pace.look(nowMs(), done) : undefined;
    const progress = { batch, nowMs: nowMs(), linesPerSecond };
    screen.show(progressBar(progress, screen.columns), progressLine(progress), batch.status !== status);
    status = batch.status;
  }
}
