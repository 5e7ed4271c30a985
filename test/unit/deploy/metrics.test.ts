/**
 * The table in `deploy/metrics.md` is what the catalogue says now.
 * `WARMLANE_UPDATE=1 npx vitest run test/unit/deploy/metrics.test.ts` writes it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { catalogue, metricNames, prometheusName } from '../../../src/domain/catalogue.ts';
import { bucketBounds } from '../../../src/domain/metrics/buckets.ts';
import { labelSpecs, type LabelName, type MetricSpec } from '../../../src/domain/metrics/metric-spec.ts';

const file = new URL('../../../deploy/metrics.md', import.meta.url);
const begin = /(<!-- table: [^\n]*-->\n)[\s\S]*?(<!-- end of table -->)/;

function table(): string {
  const metrics = metricNames.map((name) => {
    const { kind, unit, labels, help, buckets }: MetricSpec = catalogue[name];
    const of = buckets === undefined ? kind : `${kind} (${buckets})`;
    const worded = labels.map((label) => `\`${label}\``).join(' ');
    return `| \`${prometheusName(name)}\`<br>\`${name}\` | ${of} | ${unit} | ${worded} | ${help} |`;
  });
  // Every key of the object is the name of a label.
  const labels = (Object.keys(labelSpecs) as LabelName[]).map(
    (label) => `| \`${label}\` | \`${labelSpecs[label].attribute}\` | ${labelSpecs[label].about} |`,
  );
  const bounds = Object.entries(bucketBounds).map(([name, of]) => `| ${name} | ${of.join(' ')} |`);
  return [
    '| metric | kind | unit | labels | what it is |',
    '| --- | --- | --- | --- | --- |',
    ...metrics,
    '',
    '| label | over OTLP | values |',
    '| --- | --- | --- |',
    ...labels,
    '',
    'Over OTLP follow from them: `gen_ai.operation.name` (from `endpoint`, on `gen_ai.*` metrics), `error.type` (the',
    '`outcome` where it is a failure, see above), `url.scheme` (on `http.server.*`).',
    '',
    '| bounds | in Prometheus text |',
    '| --- | --- |',
    ...bounds,
    '',
  ].join('\n');
}

describe('deploy/metrics.md', () => {
  it('has the catalogue as its table', () => {
    const page = readFileSync(file, 'utf8');
    const made = page.replace(begin, (_, first: string, last: string) => `${first}\n${table()}\n${last}`);
    expect(page).toMatch(begin);
    if (process.env['WARMLANE_UPDATE'] === '1') writeFileSync(file, made);
    expect(readFileSync(file, 'utf8')).toBe(made);
  });

  it('names in its examples only metrics, labels and bounds that there are', () => {
    const page = readFileSync(file, 'utf8');
    const examples = /```promql\n([\s\S]*?)```/.exec(page)?.[1]?.replace(/^#.*$/gm, '') ?? '';
    const known = new Set(metricNames.map(prometheusName));
    const named = [...examples.matchAll(/\b[a-z][a-z_]*_(?:bucket|total)\b/g)].map(([name]) =>
      name.replace(/_bucket$/, ''),
    );
    expect(named.length).toBeGreaterThan(8);
    for (const name of named) expect([...known]).toContain(name);
    for (const [, label = ''] of examples.matchAll(/([a-z]+)!?="/g))
      expect(['le', ...Object.keys(labelSpecs)]).toContain(label);
    for (const [, bound] of examples.matchAll(/le="([^"]*)"/g)) expect(bucketBounds.seconds).toContain(Number(bound));
  });
});

describe('deploy/slo.md', () => {
  const page = readFileSync(new URL('../../../deploy/slo.md', import.meta.url), 'utf8');
  const examples = /```promql\n([\s\S]*?)```/.exec(page)?.[1]?.replace(/^#.*$/gm, '') ?? '';

  it('sums and filters in its examples only by labels that the metric has', () => {
    const labelsOf = new Map<string, readonly string[]>(
      metricNames.map((name) => [prometheusName(name), catalogue[name].labels]),
    );
    const sums = [
      ...examples.matchAll(/(?:(?:sum|max)(?: by \(([^)]*)\))? )?\((?:rate\()?(warmlane_\w+)(?:\{(\w+)!?=)?/g),
    ];
    // Each metric in them is read in this way.
    expect(sums.length).toBe(examples.match(/warmlane_\w+/g)?.length);
    for (const [, by = '', name = '', filter] of sums) {
      const labels = labelsOf.get(name);
      expect(labels, name).toBeDefined();
      for (const label of [...by.split(', '), filter ?? ''].filter((word) => word !== ''))
        expect(labels).toContain(label);
    }
    expect(sums.filter(([, by = '']) => by.includes('warmth'))).toHaveLength(2);
  });
});
