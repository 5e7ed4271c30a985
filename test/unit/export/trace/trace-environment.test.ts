import { describe, expect, it } from 'vitest';

import { type Environment, shownEndpoint } from '../../../../src/export/otlp/otlp-environment.ts';
import { readTraceEnvironment } from '../../../../src/export/trace/trace-environment.ts';

const read = (env: Environment) => readTraceEnvironment(env).environment;

describe('whether traces are wanted', () => {
  it.each([
    [{}, false, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' }, true, false],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c:4318/x' }, true, false],
    [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://c:4318/x' }, false, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }, false, false],
    [{ OTEL_TRACES_EXPORTER: 'console' }, true, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_TRACES_EXPORTER: 'none' }, true, true],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_SDK_DISABLED: 'TRUE' }, true, true],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c', OTEL_SDK_DISABLED: '1' }, true, false],
  ])('%j: asked %s, disabled %s', (env, asked, disabled) => {
    expect(read(env)).toMatchObject({ asked, disabled });
  });
});

describe('where they go', () => {
  it.each([
    [{}, 'http://localhost:4318/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' }, 'http://c:4318/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/otlp/' }, 'https://c/otlp/v1/traces'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/?key=k' }, 'https://c/v1/traces?key=k'],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c/own' }, 'http://c/own'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/' }, 'http://b/'],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'http://localhost:4317'],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4317' }, 'http://c:4317'],
  ])('%j → %s', (env, url) => {
    expect(read(env).otlp.url).toBe(url);
  });

  it('says how: protocol, headers, compression, timeout, certificates; the signal’s own win', () => {
    const env = {
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
      OTEL_EXPORTER_OTLP_HEADERS: 'a=1,b=two%20words',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=3',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_TIMEOUT: '5000',
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '700',
      OTEL_EXPORTER_OTLP_CERTIFICATE: '/ca.pem',
    };
    expect(read(env).otlp).toEqual({
      protocol: 'http/json',
      url: 'http://localhost:4318/v1/traces',
      headers: { a: '3', b: 'two words' },
      compression: 'gzip',
      timeoutMs: 700,
      caFile: '/ca.pem',
    });
  });
});

it.each([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://user:secret@c:4318/?key=secret' }, 'http://c:4318/v1/traces'],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://secret@c/own#secret' }, 'https://c/own'],
  [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: 'user:secret@c:4317' }, 'c:4317'],
  [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: 'unix:///run/c@1' }, 'unix:///run/c@1'],
])('where they go is shown without credentials and query: %j', (env, shown) => {
  expect(shownEndpoint(read(env).otlp)).toBe(shown);
});

it.each(['a b=1', 'a=x%0Ay', 'a=%F0%9F%A6%99'])('what can’t stand in a header is named: %s', (headers) => {
  const { environment, problems } = readTraceEnvironment({ OTEL_EXPORTER_OTLP_HEADERS: `${headers},good=1` });
  expect(environment.otlp.headers).toEqual({ good: '1' });
  expect(problems).toEqual([expect.stringMatching(/^OTEL_EXPORTER_OTLP_HEADERS: "a( b)?" can't be sent as a header/)]);
});

describe('the sampler', () => {
  it.each([
    [undefined, undefined, true, 1],
    ['always_on', undefined, false, 1],
    ['always_off', undefined, false, 0],
    ['traceidratio', '0.25', false, 0.25],
    ['parentbased_always_on', undefined, true, 1],
    ['parentbased_always_off', undefined, true, 0],
    ['parentbased_traceidratio', '0', true, 0],
    ['parentbased_traceidratio', undefined, true, 1],
  ])('%s %s', (name, arg, parentBased, ratio) => {
    const { environment, problems } = readTraceEnvironment({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: arg });
    expect(environment.sampler).toEqual({ parentBased, ratio });
    expect(problems).toEqual([]);
  });
});

it('the resource has the service’s name, which OTEL_SERVICE_NAME says before OTEL_RESOURCE_ATTRIBUTES', () => {
  expect(read({}).resource).toEqual({ 'service.name': 'warmlane' });
  const attributes = 'service.name=b,deployment.environment.name=prod%2Ceu';
  expect(read({ OTEL_RESOURCE_ATTRIBUTES: attributes }).resource).toEqual({
    'service.name': 'b',
    'deployment.environment.name': 'prod,eu',
  });
  expect(read({ OTEL_RESOURCE_ATTRIBUTES: attributes, OTEL_SERVICE_NAME: 'c' }).resource).toMatchObject({
    'service.name': 'c',
  });
});

it('batches are as OTEL_BSP_* says', () => {
  expect(read({}).batch).toEqual({ delayMs: 5000, exportTimeoutMs: 30_000, maxQueueSpans: 16_384, maxBatchSpans: 64 });
  const env = {
    OTEL_BSP_SCHEDULE_DELAY: '0',
    OTEL_BSP_EXPORT_TIMEOUT: '2',
    OTEL_BSP_MAX_QUEUE_SIZE: '3',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '4',
  };
  expect(read(env).batch).toEqual({ delayMs: 0, exportTimeoutMs: 2, maxQueueSpans: 3, maxBatchSpans: 4 });
});

it.each([
  [{ OTEL_TRACES_SAMPLER: 'jaeger_remote' }, 'OTEL_TRACES_SAMPLER'],
  [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }, 'OTEL_TRACES_SAMPLER_ARG'],
  [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: 'x' }, 'OTEL_TRACES_SAMPLER_ARG'],
  [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'thrift' }, 'OTEL_EXPORTER_OTLP_PROTOCOL'],
  [{ OTEL_EXPORTER_OTLP_COMPRESSION: 'zstd' }, 'OTEL_EXPORTER_OTLP_COMPRESSION'],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, 'OTEL_EXPORTER_OTLP_ENDPOINT'],
  [{ OTEL_EXPORTER_OTLP_HEADERS: 'a' }, 'OTEL_EXPORTER_OTLP_HEADERS'],
  [{ OTEL_EXPORTER_OTLP_TIMEOUT: 'soon' }, 'OTEL_EXPORTER_OTLP_TIMEOUT'],
  [{ OTEL_BSP_MAX_QUEUE_SIZE: '-1' }, 'OTEL_BSP_MAX_QUEUE_SIZE'],
  [{ OTEL_TRACES_EXPORTER: 'zipkin' }, 'OTEL_TRACES_EXPORTER'],
  [{ OTEL_TRACES_EXPORTER: 'otlp,console' }, 'OTEL_TRACES_EXPORTER'],
  [{ OTEL_RESOURCE_ATTRIBUTES: 'a=%zz' }, 'OTEL_RESOURCE_ATTRIBUTES'],
])('what can’t be followed is said, with its name and without its secrets: %j', (env, name) => {
  const { problems } = readTraceEnvironment(env);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(new RegExp(`^${name}: `));
});
