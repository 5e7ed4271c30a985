/**
 * Takes in a multipart/form-data upload as it comes: its one file is handed on in a stream, its few short fields are kept, in
 * whatever order they come. Ends as soon as something is wrong, without waiting for the rest. Knows nothing of what fields mean.
 */
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy';
import type { Readable } from 'node:stream';
import { badRequest, type Fault, tooLarge } from './fault.ts';

export interface FormRequest {
  readonly contentType: string | undefined;
  readonly body: Readable;
  proceed(): void;
}

export interface FormRules {
  readonly maxFileBytes: number;
  /** The file's bytes; fails when the upload breaks off. What it fails with, `receiveForm` fails with. */
  readonly file: (filename: string, bytes: AsyncIterable<Buffer>) => Promise<Fault | undefined>;
  /** @returns what is wrong with a field: the upload ends at once */
  readonly field: (name: string, value: string) => Fault | undefined;
}

/** The client left. */
export type Gone = 'gone';

const maxFields = 32;
const maxFieldBytes = 4096;
const maxHeadBytes = 16 * 1024;
const fileBufferBytes = 128 * 1024;

/** Resolves once `rules.file` is over, too. @returns undefined: all came, and a file was among it or wasn't */
export async function receiveForm(request: FormRequest, rules: FormRules): Promise<Fault | Gone | undefined> {
  const form = openForm(request.contentType, rules);
  if (form === undefined) return badContentType(request.contentType);
  let file: BusboyFileStream | undefined;
  let taking: Promise<Fault | undefined> = Promise.resolve(undefined);
  const { body } = request;
  const end = await new Promise<Fault | Gone | undefined>((resolve) => {
    form.on('file', (name, stream, filename) => {
      // Who reads it is told all the same.
      stream.on('error', () => {});
      if (name !== 'file') {
        stream.resume();
        return resolve(unexpectedFile(name));
      }
      file = stream;
      stream.on('limit', () => resolve(fileTooLarge(rules.maxFileBytes)));
      taking = rules.file(filename ?? 'file', stream);
      // What it fails with is passed on below.
      taking.then(
        (fault) => (fault === undefined ? undefined : resolve(fault)),
        () => resolve(undefined),
      );
    });
    form.on('field', (name, value, _nameCut, valueCut) => {
      const fault = valueCut ? longField(name) : rules.field(name, value);
      if (fault !== undefined) resolve(fault);
    });
    form.on('filesLimit', () => resolve(secondFile()));
    form.on('fieldsLimit', () => resolve(malformed('it has too many fields')));
    form.on('error', () => resolve(malformed('it ends too early, or its parts are not delimited as RFC 7578 says')));
    form.on('finish', () => resolve(undefined));
    body.on('error', () => resolve('gone'));
    body.on('close', () => {
      if (!body.readableEnded) resolve('gone');
    });
    request.proceed();
    body.pipe(form);
  });
  body.unpipe(form);
  // Whoever reads it learns that there is no more to come. Has no effect on one that came whole.
  if (file !== undefined && !file.readableEnded && end !== undefined) file.destroy(new Error('the upload broke off'));
  // The fault is what ended the reading, not the other way round.
  const taken = end === undefined ? await taking : await taking.catch(() => undefined);
  return end ?? taken;
}

function openForm(contentType: string | undefined, { maxFileBytes }: FormRules): BusboyInstance | undefined {
  if (contentType === undefined || !/^multipart\/form-data\s*;/i.test(contentType)) return undefined;
  try {
    return Busboy({
      headers: { 'content-type': contentType },
      fileHwm: fileBufferBytes,
      isPartAFile: (name, _type, filename) => filename !== undefined || name === 'file',
      limits: {
        fileSize: maxFileBytes,
        files: 1,
        fields: maxFields,
        fieldSize: maxFieldBytes,
        headerSize: maxHeadBytes,
      },
    });
  } catch {
    // It has no boundary.
    return undefined;
  }
}

function badContentType(contentType: string | undefined): Fault {
  return badRequest({
    message: `Invalid Content-Type header (${JSON.stringify(contentType?.slice(0, 100) ?? '')}), expected multipart/form-data with a boundary.`,
    code: 'invalid_content_type',
  });
}

export function fileTooLarge(maxFileBytes: number): Fault {
  return tooLarge(
    `The file is too large; the limit is ${maxFileBytes} bytes (batch.maxFileBytes).`,
    'file_too_large',
    'file',
  );
}

function unexpectedFile(name: string): Fault {
  const message = `The file must come in the field 'file', not in ${JSON.stringify(name.slice(0, 100))}.`;
  return badRequest({ message, code: 'unknown_parameter', param: 'file' });
}

function secondFile(): Fault {
  return badRequest({ message: 'One upload may have one file only.', code: 'too_many_files', param: 'file' });
}

function longField(name: string): Fault {
  const param = name.slice(0, 100);
  return badRequest({ message: `\`${param}\` is longer than ${maxFieldBytes} bytes.`, code: 'invalid_value', param });
}

function malformed(why: string): Fault {
  return badRequest({ message: `The multipart/form-data body can't be read: ${why}.`, code: 'invalid_form' });
}
