/**
 * The goals, as figures computed from the rows of one repetition, so that every ratio compares neighbours in time;
 * the median over the repetitions is what is judged. `guard` marks those whose breach fails the short form.
 */

/** @typedef {import('./measure.mjs').RunResult & { scenario: string, candidate: string, repetition: number }} Row */
/** @typedef {(scenario: string, candidate: string) => Row | undefined} Pick rows of one repetition */
/**
 * @typedef {object} Goal
 * @property {string} title
 * @property {(pick: Pick) => number | undefined} figure undefined: not measured in this repetition
 * @property {number} must
 * @property {number} [reach] absent: reported only
 * @property {boolean} [atLeast] the figure shall be no smaller; else no larger
 * @property {boolean} [guard]
 * @property {'×' | 'ms' | 'MB' | 'KB'} unit
 */

/** @typedef {(row: Row) => number | undefined} Figure */

/** @type {Record<string, Figure>} */
export const figures = {
  cpuPerToken: (row) => row.cpuMicrosPerToken,
  cpuPerRequest: (row) => row.cpuMicrosPerRequest,
  requestsPerSecond: (row) => row.requestsPerSecond,
  p50: (row) => row.tokenLatencyMicros?.p50,
  p99: (row) => row.tokenLatencyMicros?.p99,
  firstToken: (row) => row.firstTokenMicros?.p50,
};

/** @param {Figure | undefined} figure @param {string} scenario @param {string} against @returns {Goal['figure']} */
function ratio(figure, scenario, against) {
  return (pick) => {
    const own = pick(scenario, 'warmlane');
    const other = pick(scenario, against);
    const above = own === undefined ? undefined : figure?.(own);
    const below = other === undefined ? undefined : figure?.(other);
    return above === undefined || below === undefined || below === 0 ? undefined : above / below;
  };
}

/** Ratio of what the proxies add to the direct figure. @param {Figure | undefined} figure @param {string} scenario @param {string} against @returns {Goal['figure']} */
function addedRatio(figure, scenario, against) {
  return (pick) => {
    const of = (/** @type {string} */ name) => {
      const row = pick(scenario, name);
      return row === undefined ? undefined : figure?.(row);
    };
    const [direct, other, own] = [of('direct'), of(against), of('warmlane')];
    if (direct === undefined || other === undefined || own === undefined || other <= direct) return undefined;
    return (own - direct) / (other - direct);
  };
}

/** The worst of several figures; measured only when all are. @param {Goal['figure'][]} parts @returns {Goal['figure']} */
function worst(parts) {
  return (pick) => {
    const values = parts.map((part) => part(pick)).filter((value) => value !== undefined);
    return values.length === parts.length ? Math.max(...values) : undefined;
  };
}

const { cpuPerToken, cpuPerRequest, requestsPerSecond, p50, p99, firstToken } = figures;

/** @param {string} name @param {(row: Row) => number | undefined} figure @returns {Goal['figure']} */
const own = (name, figure) => (pick) => {
  const row = pick(name, 'warmlane');
  return row === undefined ? undefined : figure(row);
};

/** @param {Row} row memory that the streams added, per stream, KiB */
function memoryPerStreamKb(row) {
  return row.rssBeforeKb === undefined ? undefined : (row.proxyRssKb - row.rssBeforeKb) / 4000;
}

/**
 * Where a request's own cost is measured, it weighs most how nginx is set up: as well as it can be, or as it comes with
 * `proxy_buffering off`.
 */
const nginxes = ['nginx', 'nginx-plain'];

/** @type {readonly Goal[]} */
export const goals = [
  {
    title: 'CPU per token, 128 streams, against nginx',
    figure: ratio(cpuPerToken, 'streams-128', 'nginx'),
    must: 1.6,
    reach: 1.3,
    guard: true,
    unit: '×',
  },
  {
    title: 'CPU per token, 1,000 streams, against nginx',
    figure: ratio(cpuPerToken, 'streams-1000', 'nginx'),
    must: 1.6,
    reach: 1.3,
    guard: true,
    unit: '×',
  },
  {
    title: 'CPU per token, 128 synchronised streams, against nginx',
    figure: ratio(cpuPerToken, 'sync-128', 'nginx'),
    must: 2,
    reach: 1.45,
    guard: true,
    unit: '×',
  },
  {
    title: 'CPU per token, 1 and 4 streams, against nginx (the worse)',
    figure: worst([ratio(cpuPerToken, 'streams-1', 'nginx'), ratio(cpuPerToken, 'streams-4', 'nginx')]),
    must: 5,
    reach: 3,
    unit: '×',
  },
  ...['smg', 'vllm-router'].map((peer) => ({
    title: `CPU per token, 128 and 1,000 streams, against ${peer} (the worse)`,
    figure: worst([ratio(cpuPerToken, 'streams-128', peer), ratio(cpuPerToken, 'streams-1000', peer)]),
    must: 1.1,
    reach: 1,
    unit: /** @type {const} */ ('×'),
  })),
  {
    title: 'CPU per token, 128 and 1,000 streams, against Hono + fetch (the worse)',
    figure: worst([ratio(cpuPerToken, 'streams-128', 'hono-fetch'), ratio(cpuPerToken, 'streams-1000', 'hono-fetch')]),
    must: 0.65,
    reach: 0.5,
    unit: '×',
  },
  {
    title: 'added latency per token, p50, 128 streams, against nginx',
    figure: addedRatio(p50, 'streams-128', 'nginx'),
    must: 1.6,
    reach: 1.1,
    unit: '×',
  },
  {
    title: 'p99 per token, 128 streams, against nginx',
    figure: ratio(p99, 'streams-128', 'nginx'),
    must: 5,
    unit: '×',
  },
  {
    title: 'p50 per token, 128 synchronised streams, against nginx',
    figure: ratio(p50, 'sync-128', 'nginx'),
    must: 1.5,
    reach: 1.1,
    unit: '×',
  },
  {
    title: '20,000 tokens/s on one core, p99',
    figure: own('tokens-20k', (row) =>
      row.tokenLatencyMicros === null ? undefined : row.tokenLatencyMicros.p99 / 1000,
    ),
    must: 10,
    reach: 3,
    unit: 'ms',
  },
  ...nginxes.map((nginx) => ({
    title: `added time to the first token, p50, 400 requests/s, against ${nginx}`,
    figure: addedRatio(firstToken, 'first-token', nginx),
    must: 3,
    reach: 2.2,
    unit: /** @type {const} */ ('×'),
  })),
  ...nginxes.map((nginx) => ({
    title: `short requests per second, against ${nginx}`,
    figure: ratio(requestsPerSecond, 'short-requests', nginx),
    must: 0.2,
    reach: 0.26,
    atLeast: true,
    unit: /** @type {const} */ ('×'),
  })),
  ...['smg', 'vllm-router'].map((peer) => ({
    title: `CPU per short request, against ${peer}`,
    figure: ratio(cpuPerRequest, 'short-requests', peer),
    must: 1.3,
    reach: 1,
    unit: /** @type {const} */ ('×'),
  })),
  ...nginxes.map((nginx) => ({
    title: `CPU per 400 KiB body, against ${nginx}`,
    figure: ratio(cpuPerRequest, 'body-400k', nginx),
    must: 1.8,
    reach: 1.3,
    guard: nginx === 'nginx-plain',
    unit: /** @type {const} */ ('×'),
  })),
  {
    title: 'p99 per token of 128 streams while 20 × 400 KiB/s arrive, against nginx',
    figure: ratio(p99, 'bodies-beside', 'nginx'),
    must: 3,
    reach: 1.5,
    unit: '×',
  },
  {
    title: 'memory with 4,000 streams',
    figure: own('memory-4000', (row) => row.proxyRssKb / 1024),
    must: 200,
    reach: 140,
    unit: 'MB',
  },
  { title: 'memory per idle stream', figure: own('memory-idle', memoryPerStreamKb), must: 30, reach: 12, unit: 'KB' },
  { title: 'start to ready', figure: own('memory-idle', (row) => row.startMs), must: 1100, reach: 400, unit: 'ms' },
];

/** @param {number[]} values not empty */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/**
 * @typedef {{ goal: Goal, verdict: 'reached' | 'must' | 'missed' | 'not measured', median?: number, min?: number, max?: number, repetitions: number }} Judgement
 */

/** @param {Goal} goal @param {readonly Row[]} rows @returns {Judgement} */
function judge(goal, rows) {
  const repetitions = [...new Set(rows.map((row) => row.repetition))];
  const values = repetitions
    .map((number) =>
      goal.figure((scenario, candidate) =>
        rows.find((row) => row.repetition === number && row.scenario === scenario && row.candidate === candidate),
      ),
    )
    .filter((value) => value !== undefined);
  if (values.length === 0) return { goal, verdict: 'not measured', repetitions: 0 };
  const middle = median(values);
  const meets = (/** @type {number} */ bound) => (goal.atLeast === true ? middle >= bound : middle <= bound);
  const verdict = goal.reach !== undefined && meets(goal.reach) ? 'reached' : meets(goal.must) ? 'must' : 'missed';
  return {
    goal,
    verdict,
    median: middle,
    min: Math.min(...values),
    max: Math.max(...values),
    repetitions: values.length,
  };
}

/** @param {readonly Row[]} rows */
export function judgeGoals(rows) {
  return goals.map((goal) => judge(goal, rows));
}

/** Guarded goals broken by more than a tenth, which is what interleaved runs resolve. @param {readonly Judgement[]} judgements */
export function breaches(judgements) {
  return judgements.filter(
    ({ goal, median: figure }) => goal.guard === true && figure !== undefined && figure > goal.must * 1.1,
  );
}
