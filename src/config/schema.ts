/**
 * The one schema of `warmlane.yaml`: types, defaults, limits and the sentence that explains each key.
 * `config/warmlane.schema.json` is generated from it and `config/warmlane.example.yaml` is checked against it.
 * It reads no file and knows no environment.
 */
import * as v from 'valibot';

import { controlKeys } from '../classify/settings.ts';
import type { LogFormat, LogLevel } from '../platform/log.ts';
import { isOwnAddress } from './address.ts';
import { answerCache } from './answer-cache-schema.ts';
import { auth } from './auth-schema.ts';
import { backends, modelName } from './backend-schema.ts';
import { batch } from './batch-schema.ts';
import { breaker, discovery } from './discovery-schema.ts';
import * as field from './field.ts';
import { shapes } from './hardware-schema.ts';
import { issuePath } from './issue-path.ts';
import { lanes } from './lanes-schema.ts';
import { clients, deadlines, measure, queue, stream } from './limits-schema.ts';
import { responseHeaders } from './response-headers-schema.ts';
import { aliasesInPools, routing } from './routing-schema.ts';
import { slo } from './slo-schema.ts';
import { telemetry } from './telemetry-schema.ts';
import { warmUp } from './warm-up-schema.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

const logLevels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly LogLevel[];
const logFormats = ['logfmt', 'json'] as const satisfies readonly LogFormat[];

/** A section that is left out, or stands there with all its keys commented out (null), has its defaults. */
export const configFileSchema = v.pipe(
  field.section(
    {
      listen: v.optional(field.listenAddress('Where clients connect.'), '127.0.0.1:8484'),
      tls: v.exactOptional(
        field.section(
          {
            certFile: field.text(4096, 'PEM file of the certificate with its chain; relative to this file.'),
            keyFile: field.text(4096, 'PEM file of its private key.'),
          },
          'Own certificate for clients; plain HTTP without it.',
        ),
      ),
      admin: v.nullish(
        field.section(
          {
            listen: v.optional(
              field.listenAddress('Where the admin pages listen. They ask for no password.'),
              '127.0.0.1:8485',
            ),
            changes: v.optional(
              field.oneOf(
                ['loopback', 'always', 'never'],
                'Who may add, remove and drain backends there: whoever reaches it, if it is on loopback (loopback), or wherever it is (always).',
              ),
              'loopback',
            ),
          },
          'The admin listener: health, running requests, records.',
        ),
        {},
      ),
      auth: v.exactOptional(auth),
      backends: v.nullish(backends, []),
      discovery: v.nullish(discovery, {}),
      models: v.nullish(
        field.section(
          {
            aliases: v.nullish(
              v.pipe(
                v.record(modelName, modelName, 'must be a map of alias: model'),
                v.description('alias: model, for clients that ask for another name.'),
              ),
              {},
            ),
            shapes: v.nullish(shapes, []),
          },
          'Model names, and what is known of models.',
        ),
        {},
      ),
      routes: v.nullish(
        field.section(
          {
            open: v.nullish(
              field.list(
                field.oneOf(controlKeys, 'A group of engine-changing routes.'),
                controlKeys.length,
                'Engine-changing routes that clients may call; all others of these answer 403.',
              ),
              [],
            ),
            passConversationId: v.optional(
              field.flag('Pass X-Conversation-Id on to llama-server, where it makes aborted requests run on.'),
              false,
            ),
          },
          'Routes that are closed unless opened here.',
        ),
        {},
      ),
      clients: v.nullish(clients, {}),
      cors: v.nullish(
        field.section(
          {
            origins: v.nullish(
              field.list(
                field.webOrigin('An origin that may read answers, or *.'),
                1000,
                'Web pages of these origins may call; * for all.',
              ),
              [],
            ),
          },
          'For browsers. Without origins, what the backends say of cross-origin access passes through.',
        ),
        {},
      ),
      routing: v.nullish(routing, {}),
      queue: v.nullish(queue, {}),
      lanes: v.nullish(lanes, {}),
      deadlines: v.nullish(deadlines, {}),
      stream: v.nullish(stream, {}),
      responseHeaders: v.nullish(responseHeaders, {}),
      usage: v.optional(
        field.oneOf(
          ['ask', 'passive', 'per_event'],
          'ask: token usage is asked of vLLM and SGLang and stripped again; passive: requests stay as they are; per_event: counts are asked for in every event (vLLM continuous_usage_stats, llama-server timings_per_token), which clients then see.',
        ),
        'ask',
      ),
      retry: v.nullish(
        field.section(
          {
            afterCrash: v.optional(
              field.flag('Send a request once more after its backend crashed while working on it.'),
              false,
            ),
          },
          'Sending again, before the first byte of an answer.',
        ),
        {},
      ),
      probes: v.nullish(
        field.section(
          {
            // Engines answer probes from the thread that also serves; 2 s is gentle enough on all of them.
            intervalMs: v.optional(field.milliseconds(2000, 'Pause between two probes of a healthy backend.'), 2000),
            downIntervalMs: v.optional(
              field.milliseconds(100, 'Pause between two probes of one that is down or loading.'),
              1000,
            ),
            timeoutMs: v.optional(field.milliseconds(100, 'Longest wait for the answer to a probe.'), 2000),
            engineMetrics: v.optional(
              field.flag("Read the engines' own /metrics with the probes, for /engines and /findings."),
              true,
            ),
          },
          'How backends are watched.',
        ),
        {},
      ),
      breaker: v.nullish(breaker, {}),
      records: v.nullish(
        field.section(
          {
            maxRecords: v.optional(
              field.wholeNumber(
                { unit: 'records', min: 0, max: 1_000_000 },
                'Finished requests kept for the admin listener.',
              ),
              1000,
            ),
            maxRecordBytes: v.optional(
              field.bytes(0, 64 * GiB, "Memory of the kept records' token times, all together."),
              32 * MiB,
            ),
          },
          'Finished requests kept in memory.',
        ),
        {},
      ),
      measure: v.nullish(measure, {}),
      slo: v.nullish(slo, {}),
      warmUp: v.nullish(warmUp, {}),
      answerCache: v.nullish(answerCache, {}),
      batch: v.nullish(batch, {}),
      telemetry: v.nullish(telemetry, {}),
      log: v.nullish(
        field.section(
          {
            level: v.optional(field.oneOf(logLevels, 'Least level that is written.'), 'info'),
            format: v.optional(field.oneOf(logFormats, 'Form of a line on stderr.'), 'logfmt'),
            requests: v.optional(field.flag('One line per finished request.'), true),
          },
          'Log on stderr; never a prompt, an answer or a key.',
        ),
        {},
      ),
      upstreamClient: v.optional(
        field.oneOf(['h1', 'undici'], "HTTP client towards backends: warmlane's own HTTP/1.1 reader, or undici."),
        'h1',
      ),
    },
    'Configuration of warmlane. Every key may be left out.',
  ),
  v.forward(
    v.partialCheck(
      [['listen'], ['admin', 'listen']],
      ({ listen, admin }) =>
        listen.port === 0 || listen.port !== admin.listen.port || listen.host !== admin.listen.host,
      'must not be the same address as listen',
    ),
    ['admin', 'listen'],
  ),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const { listen, admin, backends: named, models } = dataset.value;
    for (const { message, keys } of aliasesInPools(dataset.value.routing.pools, models.aliases))
      addIssue({ message, path: issuePath(dataset.value, keys) });
    for (const [index, backend] of named.entries()) {
      if (!isOwnAddress(backend.url, listen) && !isOwnAddress(backend.url, admin.listen)) continue;
      addIssue({
        message: "this is warmlane's own address; name the model server's",
        path: [
          { type: 'object', origin: 'value', input: { ...dataset.value }, key: 'backends', value: named },
          { type: 'array', origin: 'value', input: named, key: index, value: backend },
          { type: 'object', origin: 'value', input: { ...backend }, key: 'url', value: backend.url },
        ],
      });
    }
  }),
);

/** The file's content, checked, with its defaults. */
export type ConfigFile = v.InferOutput<typeof configFileSchema>;
