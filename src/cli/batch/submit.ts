/** `warmlane batch submit`: the file goes up, a batch is made of it, and with `--wait` is followed to its end. */
import { printable } from '../doctor/finding.ts';
import type { BatchRequest } from './batch-args.ts';
import { count } from './batch-text.ts';
import { followBatch, probePlaces } from './follow.ts';
import { lookAtInput, multipartOf } from './input-file.ts';
import type { ExitCode, Session } from './session.ts';

type SubmitRequest = Extract<BatchRequest, { readonly kind: 'submit' }>;

export async function submitFile(request: SubmitRequest, session: Session): Promise<ExitCode> {
  const { api, screen, process, signal } = session;
  const input = await lookAtInput(request.file, request.endpoint);
  if (!input.ok) {
    process.err(`warmlane batch: ${input.problem}\n`);
    return 2;
  }
  const refused = await probePlaces(request.places, session);
  if (refused !== undefined) return refused;
  const { bytes, endpoint, model } = input;
  const sent = (done: number) => screen.show(uploadText(done, bytes));
  const file = await api.upload(multipartOf(request.file, bytes, sent));
  if (signal.aborted) return leave('The upload was broken off; nothing was submitted.');
  if (!file.ok) return session.fail(file.failure);

  const { window, metadata } = request;
  const made = await api.create({ inputFileId: file.value, endpoint, window, metadata });
  if (signal.aborted) return leave('Left while the batch was being made; warmlane batch list shows whether it was.');
  if (!made.ok) {
    // After a clear no nothing will ever read that file. Otherwise the batch may be there, and need it.
    if ((made.failure.status ?? 500) < 500) await api.removeFile(file.value);
    else screen.line('Whether the batch was made is not known; warmlane batch list shows it.');
    return session.fail(made.failure);
  }
  const batch = made.value;
  screen.clear();
  // Asked last, of a server that just answered: whatever comes of it holds nothing up.
  if (model !== undefined) await warnOfModel(model, session);
  if (request.wait) {
    if (!request.json) screen.line(`${batch.id} is submitted, ${endpoint}, ${sizeText(bytes)}.`);
    return followBatch({ ...request, id: batch.id, first: batch }, session);
  }
  if (request.json) process.out(`${JSON.stringify(batch.whole, null, 2)}\n`);
  else if (process.terminal === true)
    process.out(`${batch.id} is submitted. To follow it: warmlane batch status ${batch.id} --wait\n`);
  // For scripts: ID=$(warmlane batch submit FILE)
  else process.out(`${batch.id}\n`);
  return 0;

  function leave(says: string): ExitCode {
    screen.line(says);
    return 130;
  }
}

/**
 * A name that nobody lists is served all the same where the only backend takes any name, as llama-server does: with whatever model it
 * has loaded. Whoever misspelt it hears of it before fifty thousand lines are answered.
 */
async function warnOfModel(model: string, { api, process }: Session): Promise<void> {
  const names = await api.models();
  if (names === undefined || names.includes(model)) return;
  const shown =
    names.slice(0, mostNames).join(', ') + (names.length > mostNames ? ` and ${names.length - mostNames} more` : '');
  process.err(
    `warmlane batch: no backend lists the model ${printable(JSON.stringify(model))} of this file; listed: ${printable(shown)}. ` +
      'A single llama-server answers it with the model that it has loaded; elsewhere its lines fail.\n',
  );
}

const mostNames = 10;

function uploadText(done: number, bytes: number): string {
  return `uploading  ${Math.floor((100 * done) / bytes)} %  of ${sizeText(bytes)}`;
}

function sizeText(bytes: number): string {
  if (bytes < 10_000) return `${count(bytes)} bytes`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
