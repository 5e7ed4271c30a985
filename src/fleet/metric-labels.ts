/**
 * Reads the labels of one metric out of Prometheus text: just enough for vLLM's `cache_config_info`, whose facts are
 * all in its labels. Format: https://prometheus.io/docs/instrumenting/exposition_formats/
 */

const pair = /[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*)"[ \t]*,?/y;

/** The labels of every series of `metric`, in the order of the text. */
export function labelsOf(text: string, metric: string): ReadonlyMap<string, string>[] {
  const series: ReadonlyMap<string, string>[] = [];
  const prefix = `${metric}{`;
  for (let at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at + prefix.length)) {
    if (at > 0 && text[at - 1] !== '\n') continue;
    const labels = new Map<string, string>();
    pair.lastIndex = at + prefix.length;
    for (let found = pair.exec(text); found !== null; found = pair.exec(text)) {
      labels.set(found[1] ?? '', unescape(found[2] ?? ''));
    }
    series.push(labels);
  }
  return series;
}

function unescape(value: string): string {
  return value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
}
