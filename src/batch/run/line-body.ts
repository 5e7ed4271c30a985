/** One line's request body, as it stands in the input file: read by its place, cut out byte for byte. */
import { scanJson } from '../../platform/json-scan.ts';
import type { Shelf } from '../shelf/port.ts';
import { StoreError } from '../store/port.ts';

const bodyKey = new Map([['body', 0]]);

/** @throws StoreError `broken`: the file or its line is not there (any more); what the shelf throws */
export async function readLineBody(
  shelf: Pick<Shelf, 'read'>,
  fileId: string,
  line: { readonly at: number; readonly bytes: number },
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of shelf.read(fileId, line) as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
  const field = scanJson(text, bodyKey).fields.get('body');
  if (field === undefined) throw new StoreError('broken', `byte ${line.at} of ${fileId} is no line of a batch`);
  return text.subarray(field.start, field.end);
}
