/** The words behind a status on the first line of an answer. */
import { STATUS_CODES } from 'node:http';

/** For heads that warmlane writes itself; what a backend wrote is passed on as it is. @returns '' for a status without any */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? '';
}
