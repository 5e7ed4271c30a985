/** What is wrong with the standard `OTEL_*` variables is said once, whoever reads them. */
import { afterEach, expect, it } from 'vitest';
import { startProxy, type Proxy } from '../support/proxy.ts';
import { eventually } from '../support/stage.ts';

let proxy: Proxy | undefined;
afterEach(() => proxy?.close());

it('a variable that traces and metrics share is warned of once', async () => {
  const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protbuf' };
  proxy = await startProxy(['http://127.0.0.1:9'], {}, variables);
  const said = (text: string) => proxy?.logged.filter(({ msg }) => String(msg).includes(text)) ?? [];
  await eventually(() => said('metrics go out by OTLP').length === 1, 'metrics are on');
  expect(said('traces are on')).toHaveLength(1);
  expect(said('http/protbuf')).toHaveLength(1);
});
