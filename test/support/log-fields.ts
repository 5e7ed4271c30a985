import type { RequestRecord } from '../../src/domain/record.ts';
import { logRequest } from '../../src/export/request-log.ts';
import type { LogFields } from '../../src/platform/log.ts';

/** What a request's log line says. */
export function logFields(record: RequestRecord): LogFields {
  let all: LogFields = {};
  logRequest({ info: (_message, fields, more) => void (all = { ...fields, ...more }) }, record);
  return all;
}
