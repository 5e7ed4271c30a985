/**
 * The reading of a cache in findings, each with its evidence and what follows from it. Pure.
 */
import type { Endpoint } from '../endpoint.ts';
import { finding, type Finding } from '../finding.ts';
import { leastEach, msText, spreadText } from '../statistics.ts';
import type { CacheKind, CacheReading, Hit } from './interpret.ts';
import { only, type Observation } from './observation.ts';

export function judgeCache(
  reading: CacheReading,
  observations: readonly Observation[],
  endpoint: Endpoint,
): readonly Finding[] {
  const longest = Math.max(0, ...observations.map(({ promptTokens }) => promptTokens ?? 0));
  const findings = [judgeKind(reading, endpoint, longest), judgeReports(reading, endpoint)];
  const { kind } = reading;
  if (kind !== 'none') {
    findings.push(judgeGranularity(reading, observations, endpoint));
    findings.push(...judgeSharing(reading));
  }
  findings.push(judgeFirstToken(reading), judgeOtherModel(reading, endpoint), judgeTools(reading, kind));
  findings.push(judgeSaving(reading), judgeSize(endpoint, reading));
  const failed = observations.find((seen) => seen.failed !== undefined && !expected.has(seen.step));
  if (failed !== undefined)
    findings.push(finding('cache.requests', 'warn', 'not every request was answered', { evidence: failed.failed }));
  return findings;
}

/** Steps that may fail without meaning anything: their findings say so themselves. */
const expected: ReadonlySet<string> = new Set([
  'first',
  'tools',
  'tools_same',
  'tools_reordered',
  'other_model',
  'concurrent',
]);

const kinds: Readonly<Record<CacheKind, string>> = {
  prefixes: 'prefixes are reused: whatever begins as an earlier prompt did',
  growing: 'only a prompt that goes on where an earlier one ended is reused: one that parts from it gains nothing',
  whole_prompts: 'only the very same prompt is reused',
  none: 'prompts are not cached: a repeated one is computed anew',
  unknown: "can't tell what is cached: times to first token are too alike, too noisy or too few",
};

function judgeKind(
  { kind, by, repeats, hits }: CacheReading,
  { facts, cacheConfig }: Endpoint,
  longest: number,
): Finding {
  const how = by === 'counts' ? 'by the hits that it reports' : 'by times to first token';
  const off = cacheConfig?.get('enable_prefix_caching') === 'False';
  if (kind === 'unknown')
    return finding('cache.kind', 'unknown', kinds.unknown, {
      remedy: 'longer prompts (--prompt-tokens) and more --rounds on a quiet machine may show it',
    });
  if (kind === 'none') {
    return finding('cache.kind', 'warn', off ? `prefix caching is switched off: ${kinds.none}` : kinds.none, {
      evidence: off
        ? `${how}; vLLM says enable_prefix_caching="False"`
        : `${how}; repeat: ${hits.repeat}, prefix: ${hits.prefix}${longest === 0 ? '' : `, with prompts of up to ${longest} tokens`}`,
      remedy:
        facts?.engine === 'vllm'
          ? 'start vLLM without --no-enable-prefix-caching'
          : facts?.engine === 'llama-server'
            ? 'start llama-server without --no-cache-prompt, and send no "cache_prompt": false'
            : "switch the engine's prefix cache on, or tell warmlane, under backends in its config: cache: { reuse: none }",
    });
  }
  if (by === 'counts' && repeats.hit < repeats.tried) {
    return finding('cache.kind', 'warn', `${kinds[kind]}, but not every time`, {
      evidence: `${repeats.hit} of ${repeats.tried} repeated prompts hit`,
      remedy: 'several engines take turns, or the cache is too small: route by prefix, or enlarge it',
    });
  }
  const evidence = by === 'counts' ? `${how}: ${repeats.hit} of ${repeats.tried} repeated prompts hit` : how;
  if (kind === 'prefixes') return finding('cache.kind', 'ok', kinds.prefixes, { evidence });
  const reuse = hits.session === 'miss' ? 'session' : 'whole';
  return finding('cache.kind', 'warn', kinds[kind], {
    evidence,
    remedy: `tell warmlane, under backends in its config: cache: { reuse: ${reuse} }`,
  });
}

const sourceNames = {
  usage: 'usage.prompt_tokens_details.cached_tokens',
  timings: 'timings.cache_n',
  progress: 'prompt_progress.cache, before the first token',
  counters: "the engine's counters at /metrics",
} as const;

function judgeReports({ sources }: CacheReading, { facts }: Endpoint): Finding {
  const answers = sources.filter((source) => source !== 'counters');
  if (answers.length > 0) {
    return finding('cache.reports', 'ok', 'answers report hits', {
      evidence: answers.map((source) => sourceNames[source]).join('; '),
    });
  }
  const remedy =
    facts?.engine === 'vllm'
      ? 'start vLLM with --enable-prompt-tokens-details'
      : facts?.engine === 'sglang'
        ? 'start SGLang with --enable-cache-report'
        : undefined;
  return sources.length > 0
    ? finding('cache.reports', 'warn', 'answers do not report hits; counters do', {
        evidence: sourceNames.counters,
        remedy,
      })
    : finding('cache.reports', 'warn', 'hits are not reported: they only show in the time to first token', { remedy });
}

function judgeGranularity(
  { granularity, by, kind }: CacheReading,
  observations: readonly Observation[],
  { facts }: Endpoint,
): Finding {
  const told = facts?.blockTokens;
  const toldText = told === undefined ? undefined : `the engine says blocks of ${told}`;
  if (by === 'times') {
    return finding('cache.granularity', 'unknown', "can't tell from times to first token", { evidence: toldText });
  }
  const seen = only(observations, 'prefix')
    .filter(({ cached }) => cached !== undefined)
    .map(
      ({ cached, shared }) =>
        `${shared === undefined ? '?' : `${shared.exact ? '' : '~'}${shared.tokens}`} shared: ${cached ?? ''} hit`,
    );
  const evidence = [...seen, toldText].filter((part) => part !== undefined).join(', ');
  // Whole prompts that hit say nothing of what less than one would.
  if (kind === 'growing' || kind === 'whole_prompts')
    return finding('cache.granularity', 'unknown', 'no prefix was hit', { evidence });
  switch (granularity.kind) {
    case 'tokens':
      return finding('cache.granularity', 'ok', 'single tokens', { evidence });
    case 'blocks':
      return told !== undefined && told !== granularity.tokens
        ? finding('cache.granularity', 'warn', `blocks of ${granularity.tokens} tokens, not what the engine says`, {
            evidence,
          })
        : finding('cache.granularity', 'ok', `blocks of ${granularity.tokens} tokens`, { evidence });
    case 'unclear':
      return finding(
        'cache.granularity',
        'unknown',
        granularity.atMost === undefined
          ? 'no prefix was hit'
          : `can't tell; hits are multiples of ${granularity.atMost}`,
        {
          evidence: evidence === '' ? undefined : evidence,
          remedy: 'longer prompts (--prompt-tokens) show larger blocks',
        },
      );
  }
}

function judgeSharing({ hits }: CacheReading): readonly Finding[] {
  const { session, concurrent, displaced } = hits;
  return [
    say('cache.sessions', session, {
      hit: 'hits cross sessions and users',
      miss: 'hits stay within one session or user',
      missVerdict: 'warn',
    }),
    say('cache.running', concurrent, {
      hit: 'a prompt is shared while its first request still runs (hits cross slots)',
      miss: 'a prompt in use is not shared: the same one beside it is computed anew, in another slot',
      missVerdict: 'warn',
    }),
    ...(displaced === 'untried'
      ? []
      : [
          say('cache.displaced', displaced, {
            hit: 'a prompt is found again after others took its slot',
            miss: 'a prompt is lost once others took its slot',
            missVerdict: 'warn',
          }),
        ]),
  ];
}

function say(
  check: string,
  hit: Hit,
  texts: { readonly hit: string; readonly miss: string; readonly missVerdict: 'ok' | 'warn' },
): Finding {
  if (hit === 'hit') return finding(check, 'ok', texts.hit);
  if (hit === 'miss') return finding(check, texts.missVerdict, texts.miss);
  return finding(check, 'unknown', hit === 'untried' ? "could not be tried, or can't be seen from here" : "can't tell");
}

function judgeFirstToken({ changedFirst, by }: CacheReading): Finding {
  const check = 'cache.first_token';
  const { hit, cached, shared } = changedFirst;
  const seen =
    cached === undefined
      ? undefined
      : `${cached} tokens reported as hit${shared === undefined ? '' : `, ${shared} shared`}`;
  if (hit === 'miss')
    return finding(check, 'ok', 'a changed first word spoils the rest, as it must', { evidence: seen });
  if (hit !== 'hit') return finding(check, 'unknown', hit === 'untried' ? 'not tried' : "can't tell");
  // A template may hold much before the first word of the user.
  if (cached !== undefined && shared !== undefined && cached <= shared)
    return finding(check, 'ok', 'hits end where the prompts part', { evidence: seen });
  return finding(check, 'bad', 'STALE HIT: a prompt with another first word is answered from the cache', {
    evidence: seen ?? (by === 'times' ? 'its time to first token is that of a hit' : undefined),
    remedy:
      'answers may belong to another prompt: switch that cache off, or look whether it shifts chunks (llama-server --cache-reuse, an approximation)',
  });
}

function judgeOtherModel({ otherModel }: CacheReading, { models, loraAdapters }: Endpoint): Finding {
  const check = 'cache.other_model';
  if (otherModel.hit === 'miss') return finding(check, 'ok', 'another model or adapter gets no hit on it, as it must');
  if (otherModel.hit === 'hit') {
    return finding(check, 'bad', 'STALE HIT: another model or adapter is answered from the cache of the first', {
      evidence: otherModel.cached === undefined ? undefined : `${otherModel.cached} tokens reported as hit`,
      remedy: 'do not serve both behind one cache until its keys hold the model and the adapter',
    });
  }
  return finding(
    check,
    'unknown',
    models.length <= 1 && loraAdapters === 0
      ? 'not tried: one model and no adapter'
      : 'not tried: another name may load another model, or they are aliases of one',
  );
}

function judgeTools({ tools }: CacheReading, kind: CacheKind): Finding {
  const check = 'cache.tools';
  const { state, same, reordered } = tools;
  if (state === 'untried') return finding(check, 'unknown', "not tried, or can't be seen from here");
  if (state === 'refused') return finding(check, 'unknown', 'it refuses a list of tools');
  if (state === 'ignored') return finding(check, 'ok', "the template ignores tools: their order can't matter");
  if (kind === 'none' || same === undefined || reordered === undefined)
    return finding(check, 'unknown', 'no hits to lose');
  const evidence = `same order ${same} tokens hit, another order ${reordered}`;
  return reordered < same - 8
    ? finding(check, 'ok', 'another order of the same tools loses the hit', {
        evidence,
        remedy: 'send tools always in one order',
      })
    : finding(check, 'ok', 'another order of the same tools keeps the hit', { evidence });
}

function judgeSaving({ ttft, savedMs, kind }: CacheReading): Finding {
  const { first, resident, hit } = ttft;
  const parts = [
    first === undefined ? undefined : `first contact ${msText(first)}`,
    `without a hit ${spreadText(resident)}`,
    hit === undefined ? undefined : `with a hit ${spreadText(hit)}`,
  ];
  const evidence = `time to first token: ${parts.filter((part) => part !== undefined).join(', ')}`;
  if (kind === 'none' || hit === undefined || resident === undefined)
    return finding('cache.saving', kind === 'none' ? 'ok' : 'unknown', 'no hit to measure', { evidence });
  if (savedMs === undefined && Math.min(hit.count, resident.count) < leastEach)
    return finding('cache.saving', 'unknown', "can't tell: too few were timed", { evidence, remedy: 'more --rounds' });
  if (savedMs === undefined)
    return finding('cache.saving', 'unknown', "can't tell: the two are not clearly apart", { evidence });
  const share = Math.round((100 * savedMs) / resident.median);
  return finding('cache.saving', 'ok', `a hit saves ${msText(savedMs)} (${share} %)`, { evidence });
}

function judgeSize({ facts }: Endpoint, { hits, kind }: CacheReading): Finding {
  const check = 'cache.size';
  if (facts?.kvTokens !== undefined) {
    const blocks =
      facts.blockTokens === undefined ? '' : ` (${facts.kvTokens / facts.blockTokens} blocks of ${facts.blockTokens})`;
    return finding(check, 'ok', `${facts.kvTokens} tokens${blocks}, as the engine says`);
  }
  if (facts?.engine === 'llama-server' && facts.slots !== undefined && facts.contextTokens !== undefined) {
    const beside =
      hits.displaced === 'hit'
        ? '; and a RAM cache beside them, whose size (--cache-ram) it does not tell'
        : hits.displaced === 'miss' && kind !== 'none'
          ? '; no RAM cache beside them (--cache-ram 0)'
          : '';
    return finding(check, 'ok', `${facts.slots} slots of ${facts.contextTokens} tokens${beside}`);
  }
  return finding(check, 'unknown', 'not told', {
    remedy: '--fill finds it out, at the price of as many prompt tokens',
  });
}
