/** Starts a real Prometheus that scrapes one address each second, and asks it; has `promtool` check a page of metrics. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild, until, untilReady, type ChildProcess } from './child-process.ts';
import { inCi } from './installed.ts';
import { findFreePort } from './vllm.ts';

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Prometheus {
  readonly process: ChildProcess;
  query(expression: string): Promise<Sample[]>;
  /** Resolves once a scrape has begun after this call. */
  scraped(): Promise<void>;
  stop(): Promise<void>;
}

/** True when both programs are there. Says so loudly otherwise, and throws in CI. */
export function hasPrometheus(): boolean {
  const found = ['prometheus', 'promtool'].every((name) => spawnSync(name, ['--version']).status === 0);
  if (found) return true;
  const remedy = 'Prometheus is not installed: its tests cannot run. Remedy: apt-get install prometheus';
  if (inCi) throw new Error(remedy);
  console.warn(`\n*** ${remedy}\n`);
  return false;
}

/** @param address host:port whose `/metrics` is scraped */
export async function startPrometheus(address: string): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'prometheus-'));
  const port = await findFreePort();
  writeFileSync(
    join(folder, 'prometheus.yml'),
    `global: { scrape_interval: 1s }
scrape_configs:
  - job_name: warmlane
    static_configs: [{ targets: ['${address}'] }]
`,
  );
  const child = startChild({
    command: 'prometheus',
    args: [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
  });
  const api = `http://127.0.0.1:${port}`;
  const query = async (expression: string): Promise<Sample[]> => {
    const answer = await fetch(`${api}/api/v1/query?query=${encodeURIComponent(expression)}`);
    const body = (await answer.json()) as {
      status: string;
      error?: string;
      data: { result: { metric: Record<string, string>; value: [number, string] }[] };
    };
    if (body.status !== 'success') throw new Error(`${expression}: ${body.error ?? ''}`);
    return body.data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
  };
  await untilReady(
    child,
    'Prometheus to be ready',
    async () => {
      const answer = await fetch(`${api}/-/ready`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
      return answer?.ok === true ? true : undefined;
    },
    30_000,
  );
  return {
    process: child,
    query,
    async scraped() {
      const since = Date.now() / 1000;
      await until('a scrape', async () => {
        const [sample] = await query('timestamp(up{job="warmlane"} == 1)');
        return sample !== undefined && sample.value > since ? true : undefined;
      });
    },
    stop: () => child.stop(),
  };
}

/** What `promtool check metrics` says of a page: empty when it is content. */
export function checkMetrics(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('promtool', ['check', 'metrics']);
    let said = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (piece: string) => (said += piece));
    }
    child.on('error', reject);
    child.on('close', (code) => resolve(code === 0 ? said.trim() : `exit ${code}: ${said.trim()}`));
    child.stdin.end(text);
  });
}
