/**
 * The part of the schema that says where backends come from beside the list in the file, and when a failing one is left
 * alone. Like `schema.ts` it reads no file and looks nothing up.
 */
import * as v from 'valibot';

import { breakerDefaults as breakerIs } from '../fleet/settings.ts';
import { backendTraits } from './backend-schema.ts';
import * as field from './field.ts';

const families = ['auto', 'ipv4', 'ipv6', 'both'] as const;

/** Letters, digits, hyphens and dots; SRV records begin with `_`. */
const hostName = (says: string) => {
  const message = 'must be a host name, or an SRV record such as _http._tcp.models.example';
  return v.pipe(
    v.string(message),
    v.regex(
      /^(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?$/,
      message,
    ),
    v.description(says),
  );
};

const pathPrefix = (says: string) => {
  const message = 'must begin with a slash and not end with one, without blanks, ? and #';
  return v.pipe(v.string(message), v.regex(/^(\/[^\s?#/]+)*$/, message), v.description(says));
};

const dnsEntry = v.pipe(
  field.section(
    {
      name: hostName('A host with one address for each server, or an SRV record.'),
      port: v.exactOptional(
        field.wholeNumber({ unit: 'port', min: 1, max: 65_535 }, 'Of all of them; SRV records bring their own.'),
      ),
      scheme: v.optional(field.oneOf(['http', 'https'], 'How they are spoken to.'), 'http'),
      path: v.optional(pathPrefix('Path prefix of all of them.'), ''),
      intervalMs: v.optional(
        field.milliseconds(1000, "Between two resolutions, whatever the records' TTL says."),
        10_000,
      ),
      family: v.optional(
        field.oneOf(
          families,
          'auto: IPv4 addresses if there are any, else IPv6; both counts a server with both twice.',
        ),
        'auto',
      ),
      ...backendTraits,
    },
    'Backends behind one name, one for each address.',
  ),
  v.forward(
    v.partialCheck(
      [['name'], ['port']],
      ({ name, port }) => port === undefined || !name.startsWith('_'),
      'has no use with an SRV record, which brings its ports',
    ),
    ['port'],
  ),
  v.forward(
    v.partialCheck(
      [['scheme'], ['tls']],
      ({ scheme, tls }) => tls === undefined || scheme === 'https',
      'has no use with scheme http; write scheme: https or leave it out',
    ),
    ['tls'],
  ),
);

export const discovery = field.section(
  {
    dns: v.nullish(
      v.pipe(
        field.list(dnsEntry, 100, 'Names that are resolved again and again.'),
        v.check(
          (entries) => new Set(entries.map(({ name }) => name.toLowerCase())).size === entries.length,
          'must name each host once',
        ),
      ),
      [],
    ),
    file: v.exactOptional(
      field.section(
        {
          path: field.text(4096, 'YAML or JSON with a list like that of backends; relative to this file.'),
        },
        'A file with a list of backends that is read again whenever it changes.',
        field.belongsTo('path'),
      ),
    ),
  },
  'Where else backends come from; they come and go while warmlane runs.',
);

export const breaker = field.section(
  {
    enabled: v.optional(field.flag('Leave a backend alone for a while that fails at its work.'), breakerIs.enabled),
    failures: v.optional(
      field.wholeNumber({ unit: 'failures', min: 1, max: 10_000 }, 'So many in a row open it.'),
      breakerIs.failures,
    ),
    share: v.optional(field.share('So does this share of failures within the window …'), breakerIs.share),
    minRequests: v.optional(
      field.wholeNumber({ unit: 'requests', min: 1, max: 1_000_000 }, '… from this many requests on.'),
      breakerIs.minRequests,
    ),
    windowMs: v.optional(field.milliseconds(1000, 'The window.'), breakerIs.windowMs),
    backoffMs: v.optional(
      field.milliseconds(10, 'How long it gets no work; doubled each time it fails again soon.'),
      breakerIs.backoffMs,
    ),
    maxBackoffMs: v.optional(field.milliseconds(10, 'At most so long.'), breakerIs.maxBackoffMs),
  },
  'When a backend that fails at its work is left alone. 4xx, 429 and 503 are no failures.',
);
