/**
 * The part of the schema that describes the model servers: one backend, their list, and that their names differ.
 * Like `schema.ts` it reads no file and looks nothing up.
 */
import * as v from 'valibot';

import type { Engine } from '../domain/names.ts';
import { hostPort, isServerName, parseBackendUrl } from './address.ts';
import { cachePolicy } from './cache-schema.ts';
import * as field from './field.ts';
import { hardware } from './hardware-schema.ts';

const engines = ['vllm', 'llama-server', 'sglang', 'tgi', 'ollama', 'openai'] as const satisfies readonly Engine[];

/** As long as a job carries one. */
export const modelName = field.text(512, 'A model name.');

const backendTls = field.section(
  {
    caFile: v.exactOptional(
      field.text(4096, "PEM file of the authorities to trust instead of the system's; relative to this file."),
    ),
    serverName: v.exactOptional(
      v.pipe(
        field.text(253, "Name for SNI and for the certificate check, when it is not the URL's host."),
        v.check(isServerName, 'must be a host name, not an address'),
      ),
    ),
    verify: v.optional(
      field.flag('false accepts any certificate; only for a test: anybody may be the backend then.'),
      true,
    ),
  },
  'How https:// is spoken with this backend.',
);

/** What may be said of a server whose address comes from elsewhere. */
export const backendTraits = {
  engine: v.exactOptional(field.oneOf(engines, 'What runs there; found out by a probe unless given.')),
  models: v.exactOptional(field.list(modelName, 1000, 'Models that it serves; asked of it unless given.')),
  maxInFlight: v.exactOptional(
    field.wholeNumber(
      { unit: 'jobs', min: 1, max: 65_535 },
      "Jobs in flight there at most. Unless given: llama-server's slots, no limit for others.",
    ),
  ),
  weight: v.exactOptional(field.positive('shares', 1000, 'Its capacity beside the others; 1 unless given.')),
  labels: v.exactOptional(
    v.pipe(
      v.record(
        field.label('A label.'),
        field.text(128, 'What it says.'),
        'must be a map of at most 16 labels, name: text',
      ),
      v.maxEntries(16, 'must be a map of at most 16 labels, name: text'),
      v.description('Shown on the admin pages: zone, rack, card …'),
    ),
  ),
  priorityField: v.exactOptional(
    field.flag(
      'SGLang started with --enable-priority-scheduling: "priority" is put into request bodies, 10 online and 0 batch.',
    ),
  ),
  drain: v.exactOptional(field.flag('Takes no new work; what runs there ends well.')),
  apiKey: v.exactOptional(
    field.bearerKey('Sent as "Authorization: Bearer …" on probes, and on requests without credentials of their own.'),
  ),
  tls: v.exactOptional(backendTls),
} as const;

export const backend = v.pipe(
  field.section(
    {
      url: field.backendUrl('Where it is: http(s)://host:port, with a path prefix if it has one, without /v1.'),
      name: v.exactOptional(field.label('Short unique name for logs and records; host:port unless given.')),
      ...backendTraits,
      hardware: v.exactOptional(hardware),
      cache: v.exactOptional(cachePolicy),
    },
    'One model server.',
    textInItsPlace,
  ),
  v.forward(
    v.partialCheck(
      [['url'], ['tls']],
      ({ url, tls }) => tls === undefined || url.startsWith('https:'),
      'has no use with an http:// URL; write https:// or leave it out',
    ),
    ['tls'],
  ),
);

/** Never the text itself: it may hold a key. */
function textInItsPlace(found: unknown): string | undefined {
  if (typeof found !== 'string') return undefined;
  const key =
    /^(url|name|engine|models|maxInFlight|weight|labels|priorityField|drain|apiKey|tls|hardware|cache):\S/.exec(
      found,
    )?.[1];
  if (key !== undefined) return `a blank is missing after ${key}:`;
  return /^https?:\/\//i.test(found) ? 'write - url: http://…' : undefined;
}

export const backends = v.pipe(
  field.list(backend, 1000, 'The model servers. None: usual places on this machine are tried, then the demo starts.'),
  v.rawCheck(({ dataset, addIssue }) => {
    // A list with another fault reaches this too: names are compared as far as they can be told.
    if (!Array.isArray(dataset.value)) return;
    const items: readonly unknown[] = dataset.value;
    const names = new Map<string, string | undefined>();
    const urls = new Map<string, string>();
    for (const [index, one] of items.entries()) {
      const name = nameOf(one);
      if (name === undefined) continue;
      const url = urlOf(one);
      const isSame = url !== undefined && names.get(name) === url;
      const other = url === undefined ? undefined : urls.get(url);
      const message = isSame
        ? `the same URL twice (${name}); name each backend once`
        : names.has(name)
          ? `the name ${name} is taken by a backend above; give each its own "name"`
          : other !== undefined
            ? `the same URL as ${other}; name each backend once`
            : undefined;
      if (message !== undefined) {
        const path: [v.ArrayPathItem] = [{ type: 'array', origin: 'value', input: [...items], key: index, value: one }];
        addIssue({ message, path });
      }
      names.set(name, url);
      if (url !== undefined && other === undefined) urls.set(url, name);
    }
  }),
);

/** The name of a backend that may be only half right. */
function nameOf(one: unknown): string | undefined {
  if (typeof one !== 'object' || one === null) return undefined;
  if ('name' in one) return typeof one.name === 'string' ? one.name : undefined;
  const url = urlOf(one);
  return url === undefined ? undefined : hostPort(url);
}

function urlOf(one: unknown): string | undefined {
  if (typeof one !== 'object' || one === null) return undefined;
  const url = 'url' in one && typeof one.url === 'string' ? parseBackendUrl(one.url) : undefined;
  return url?.ok === true ? url.value : undefined;
}
