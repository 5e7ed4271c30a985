/** Classification for tests: a request line and a body in, what classify makes of them out. */
import { classify } from '../../src/classify/classify.ts';
import type { ClassifySettings } from '../../src/classify/settings.ts';
import { wantedKeys } from '../../src/classify/wanted-keys.ts';
import type { Job } from '../../src/domain/job.ts';
import { isRefusal, type Refusal } from '../../src/domain/refusal.ts';
import { scanJson } from '../../src/platform/json-scan.ts';
import { createMultipartScan } from '../../src/platform/multipart-scan.ts';

export interface Asked {
  /** `POST /v1/chat/completions` unless given. */
  readonly line?: string;
  readonly body?: string | Buffer;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly settings?: Partial<ClassifySettings>;
}

export function classified(asked: Asked): Job | Refusal {
  const [method = '', target = ''] = (asked.line ?? 'POST /v1/chat/completions').split(' ');
  const body = Buffer.from(asked.body ?? '');
  const head = { requestId: 'r1', method, target, header: (name: string) => asked.headers?.[name] };
  const settings = { openRoutes: [], modelAliases: {}, ...asked.settings };
  if (asked.contentType === undefined) {
    return classify(
      head,
      { bytes: body.length, ...(body.length === 0 ? {} : { scan: scanJson(body, wantedKeys) }) },
      settings,
    );
  }
  const form = createMultipartScan(asked.contentType);
  form.push(body);
  return classify(head, { bytes: body.length, multipart: form.fields }, settings);
}

/** As `classified`, for a request that must become a job. */
export function jobOf(asked: Asked): Job {
  const job = classified(asked);
  if (isRefusal(job)) throw new Error(`refused: ${job.code}`);
  return job;
}
