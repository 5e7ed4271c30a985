/**
 * `warmlane batch`: a client of the Files and Batch API, of warmlane's own or of any other server's. Keeps nothing: what
 * was submitted is on the server, and any later command finds it there.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { Process } from '../process.ts';
import { createBatchApi, type Got } from './batch-api.ts';
import { parseBatchArguments, type BatchRequest } from './batch-args.ts';
import { batchHelp } from './batch-help.ts';
import { listText, statusText } from './batch-text.ts';
import { cancelBatch, fetchResults, followBatch } from './follow.ts';
import { createScreen } from './screen.ts';
import type { ExitCode, Session } from './session.ts';
import { submitFile } from './submit.ts';
import { createWire } from './wire.ts';

export interface BatchDeps {
  readonly nowMs: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

const ownDeps: BatchDeps = {
  nowMs: Date.now,
  // That it was cut short shows in the signal.
  sleep: (ms, signal) => pause(ms, undefined, { signal }).catch(() => {}),
};

/** @param argv what follows the word `batch` */
export async function runBatch(
  argv: readonly string[],
  process: Process,
  deps: BatchDeps = ownDeps,
): Promise<ExitCode> {
  const request = parseBatchArguments(argv, process.env);
  if (request.kind === 'help') {
    process.out(batchHelp());
    return 0;
  }
  if (request.kind === 'wrong') {
    for (const problem of request.problems) process.err(`warmlane batch: ${problem}\n`);
    process.err('Try warmlane batch --help.\n');
    return 2;
  }
  const leaving = new AbortController();
  const unlisten = (['SIGINT', 'SIGTERM'] as const).map((name) => process.onSignal(name, () => leaving.abort()));
  const { signal } = leaving;
  const screen = createScreen(process, deps.nowMs, request.json);
  const session: Session = {
    api: createBatchApi(request.address, createWire(request.address, signal)),
    screen,
    process,
    nowMs: deps.nowMs,
    sleep: (ms) => deps.sleep(ms, signal),
    signal,
    fail({ says }) {
      screen.clear();
      process.err(`warmlane batch: ${says}\n`);
      return 1;
    },
  };
  try {
    return await perform(request, session);
  } finally {
    for (const stop of unlisten) stop();
  }
}

async function perform(request: BatchRequest, session: Session): Promise<ExitCode> {
  const { api, process, signal, nowMs } = session;
  switch (request.kind) {
    case 'submit':
      return submitFile(request, session);
    case 'results':
      return fetchResults(request, session);
    case 'cancel':
      return cancelBatch(request, session);
    case 'status': {
      if (request.wait) return followBatch(request, session);
      const got = await api.get(request.id);
      return print(
        got,
        ({ whole }) => whole,
        (batch) => statusText({ batch, nowMs: nowMs(), linesPerSecond: undefined }),
      );
    }
    case 'list': {
      const got = await api.list(request);
      return print(
        got,
        ({ whole }) => whole,
        ({ batches, hasMore }) => {
          if (batches.length === 0) return 'There is no batch.';
          const more = hasMore ? `\nOlder ones: warmlane batch list --after ${batches.at(-1)?.id ?? ''}` : '';
          return listText(batches, nowMs()) + more;
        },
      );
    }
  }

  function print<Value>(got: Got<Value>, whole: (value: Value) => unknown, text: (value: Value) => string): ExitCode {
    if (signal.aborted) return 130;
    if (!got.ok) return session.fail(got.failure);
    process.out(`${request.json ? JSON.stringify(whole(got.value), null, 2) : text(got.value)}\n`);
    return 0;
  }
}
