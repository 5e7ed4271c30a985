/** From a batch that is there to its end and its results: what `--wait`, `results` and `cancel` do. */
import type { BatchRequest, Places } from './batch-args.ts';
import { isOver, type BatchObject } from './batch-object.ts';
import { endText, lineCountsText } from './batch-text.ts';
import { fetchToFile, fetchToOutput, placeProblem } from './fetch-results.ts';
import type { ExitCode, Session } from './session.ts';
import { waitForEnd, type Waited } from './wait.ts';

type Of<Kind extends BatchRequest['kind']> = Extract<BatchRequest, { readonly kind: Kind }>;

export interface Following {
  readonly id: string;
  readonly json: boolean;
  /** As it was when it was made. */
  readonly first?: BatchObject;
  readonly places?: Places;
}

/** Waits, says how it ended, and writes the files that are wanted. */
export async function followBatch({ id, json, first, places = {} }: Following, session: Session): Promise<ExitCode> {
  const { screen, process } = session;
  const waited = await waitForEnd(id, first, session);
  if (waited.kind !== 'found') return notOver(waited, id, session);
  const { batch } = waited;
  if (json) process.out(`${JSON.stringify(batch.whole, null, 2)}\n`);
  else screen.line(endText(batch));
  const written = await writeFiles(batch, places, session);
  if (written !== 0) return written;
  if (!json && places.output === undefined && batch.outputFileId !== undefined)
    screen.line(`Its answers: warmlane batch results ${id} -o FILE`);
  if (!json && lacksErrors(batch, places)) screen.line(errorsHint(id));
  return exitCodeOf(batch);
}

export async function fetchResults({ id, wait, places }: Of<'results'>, session: Session): Promise<ExitCode> {
  const { api, process, signal } = session;
  const refused = await probePlaces(places, session);
  if (refused !== undefined) return refused;
  const found = wait ? await waitForEnd(id, undefined, session) : await lookOnce(id, session);
  if (found.kind !== 'found') return notOver(found, id, session);
  const { batch } = found;
  if (!isOver(batch)) {
    const counts = batch.total === 0 ? '' : `, ${lineCountsText(batch)}`;
    return session.fail({
      says: `${id} is ${batch.status}${counts}; its results come at its end (--wait stays until then)`,
      passing: false,
    });
  }
  const { output, errors } = places;
  const written = await writeFiles(batch, places, session);
  if (written !== 0) return written;
  // Whoever asks for the errors alone wants no answers on stdout.
  if ((output === undefined && errors === undefined) || output === '-') {
    if (batch.outputFileId !== undefined) {
      const write = process.outBytes ?? ((bytes: Uint8Array) => Promise.resolve(process.out(String(bytes))));
      const got = await fetchToOutput(batch.outputFileId, { api }, write);
      if (signal.aborted) return 130;
      if (!got.ok) return session.fail(got.failure);
    }
  }
  if (batch.status !== 'completed' || batch.failed > 0) process.err(`${endText(batch)}\n`);
  if (lacksErrors(batch, places)) process.err(`${errorsHint(id)}\n`);
  return exitCodeOf(batch);
}

export async function cancelBatch({ id, json }: Of<'cancel'>, session: Session): Promise<ExitCode> {
  const { api, process, signal } = session;
  // What it answers looks the same for one that it ends now and one that was over.
  const before = await api.get(id);
  if (signal.aborted) return 130;
  if (!before.ok) return session.fail(before.failure);
  if (isOver(before.value)) {
    if (json) process.out(`${JSON.stringify(before.value.whole, null, 2)}\n`);
    else process.out(`Nothing to cancel, it had ended already: ${endText(before.value)}\n`);
    return 0;
  }
  const got = await api.cancel(id);
  if (signal.aborted) return 130;
  if (!got.ok) return session.fail(got.failure);
  const { value: batch } = got;
  if (json) process.out(`${JSON.stringify(batch.whole, null, 2)}\n`);
  else if (batch.status === 'cancelling')
    process.out(
      `${id} is cancelling: its lines under way are ended, the others don't begin. warmlane batch status ${id} --wait follows it.\n`,
    );
  else process.out(`${endText(batch)}\n`);
  return 0;
}

async function lookOnce(id: string, { api, signal }: Session): Promise<Waited> {
  const got = await api.get(id);
  if (signal.aborted) return { kind: 'left' };
  return got.ok ? { kind: 'found', batch: got.value } : { kind: 'failed', failure: got.failure };
}

function notOver(waited: Exclude<Waited, { kind: 'found' }>, id: string, session: Session): ExitCode {
  if (waited.kind === 'failed') {
    const back = waited.failure.passing ? `; the batch is kept: warmlane batch status ${id} --wait` : '';
    return session.fail({ ...waited.failure, says: waited.failure.says + back });
  }
  session.screen.line(
    `${id} goes on without you. To come back: warmlane batch status ${id} --wait; to stop it: warmlane batch cancel ${id}`,
  );
  return 130;
}

/** Where results are to go is tried before anybody waits for them. @returns the exit code where one can't be written */
export async function probePlaces({ output, errors }: Places, session: Session): Promise<1 | undefined> {
  for (const path of [output === '-' ? undefined : output, errors]) {
    const says = path === undefined ? undefined : await placeProblem(path);
    if (says !== undefined) return session.fail({ says, passing: false });
  }
  return undefined;
}

function lacksErrors({ errorFileId }: BatchObject, { errors }: Places): boolean {
  return errorFileId !== undefined && errors === undefined;
}

function errorsHint(id: string): string {
  return `Its lines without an answer, and why: warmlane batch results ${id} --errors FILE`;
}

async function writeFiles(batch: BatchObject, { output, errors }: Places, session: Session): Promise<0 | 1 | 130> {
  const wanted = [
    [output === '-' ? undefined : output, batch.outputFileId],
    [errors, batch.errorFileId],
  ] as const;
  for (const [path, fileId] of wanted) {
    if (path === undefined) continue;
    const got = await fetchToFile(fileId, path, session);
    if (session.signal.aborted) return 130;
    if (!got.ok) return session.fail(got.failure);
  }
  return 0;
}

function exitCodeOf({ status, failed }: BatchObject): 0 | 1 | 3 {
  if (status !== 'completed') return 1;
  return failed > 0 ? 3 : 0;
}
