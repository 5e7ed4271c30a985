/**
 * Which lane a request gets: the lowest of what its key allows, what the first matching rule says, what its body asks for and
 * what its header asks for. Nothing that a client sends can raise it. Pure.
 */
import type { Job } from '../domain/job.ts';
import type { Lane } from '../domain/names.ts';
import type { AccessHead } from './port.ts';
import type { LaneRule } from './settings.ts';

const laneHeader = 'x-warmlane-lane';

/** @param job its lane is what the body asks for (`service_tier`) */
export function chooseLane(
  rules: readonly LaneRule[],
  asked: { readonly lane: Lane; readonly tenant: string; readonly head: AccessHead; readonly job: Job },
): Lane {
  const { lane, tenant, head, job } = asked;
  if (lane === 'batch' || job.lane === 'batch') return 'batch';
  if (head.header(laneHeader)?.trim().toLowerCase() === 'batch') return 'batch';
  if (rules.length === 0) return 'online';
  const path = pathOf(head.target);
  for (const rule of rules) if (matches(rule, { tenant, head, job, path })) return rule.lane;
  return 'online';
}

interface Asked {
  readonly tenant: string;
  readonly head: AccessHead;
  readonly job: Job;
  readonly path: string;
}

function matches(rule: LaneRule, { tenant, head, job, path }: Asked): boolean {
  if (rule.tenant !== undefined && rule.tenant !== tenant) return false;
  if (rule.path !== undefined && !isLike(path, rule.path) && rule.path !== job.endpoint) return false;
  if (rule.model !== undefined && !isLike(job.model, rule.model) && !isLike(job.servedModel, rule.model)) return false;
  if (rule.header === undefined) return true;
  const value = head.header(rule.header.name)?.trim();
  return value !== undefined && (rule.header.value === undefined || rule.header.value === value);
}

function isLike(text: string | undefined, pattern: string): boolean {
  if (text === undefined) return false;
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
}

/** Without query, and decoded as servers do: another spelling must not leave a lane. */
function pathOf(target: string): string {
  const end = target.search(/[?#]/);
  const path = end < 0 ? target : target.slice(0, end);
  const decoded = path.includes('%')
    ? path.replace(/%([0-9a-f]{2})/gi, (_, byte: string) => String.fromCharCode(Number.parseInt(byte, 16)))
    : path;
  return decoded.includes('//') ? decoded.replace(/\/{2,}/g, '/') : decoded;
}
