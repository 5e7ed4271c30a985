/** One line's request body, as it stands in the input file: read by its place, cut out byte for byte. */
import { scanJson } from '../../platform/json-scan.ts';
import type { RangeReader } from '../shelf/port.ts';
import { StoreError } from '../store/port.ts';

const bodyKey = new Map([['body', 0]]);

/** @throws StoreError `broken`: the file or its line is not there (any more); what the reader throws */
export async function readLineBody(
  input: Pick<RangeReader, 'read'>,
  line: { readonly at: number; readonly bytes: number },
): Promise<Buffer> {
  const text = await input.read(line);
  const field = scanJson(text, bodyKey).fields.get('body');
  if (field === undefined) throw new StoreError('broken', `what is at byte ${line.at} is no line of a batch`);
  return text.subarray(field.start, field.end);
}
