/** Reads the parameters of the Files and Batch API. Each gives its value or what is wrong with it. Pure. */
import type { Page } from '../store/port.ts';
import { isStorable } from '../storable-text.ts';
import { badRequest, type Fault, missing } from './fault.ts';

/** @param limits of `limit`: the most, and what holds unless it is given */
export function pageOf(
  query: URLSearchParams,
  limits: { readonly most: number; readonly fallback: number },
): Page | Fault {
  const limitText = query.get('limit');
  const limit = limitText === null || limitText === '' ? limits.fallback : wholeNumber(limitText);
  if (limit === undefined || limit < 1 || limit > limits.most)
    return invalid('limit', `\`limit\` must be a whole number from 1 to ${limits.most}.`);
  const order = query.get('order') ?? 'desc';
  if (order !== 'asc' && order !== 'desc') return invalid('order', "`order` must be 'asc' or 'desc'.");
  const after = query.get('after') ?? '';
  return after === '' ? { limit, order } : { limit, order, after };
}

export function unknownAfter(): Fault {
  return invalid('after', '`after` must be the id of one of the listed objects; none has this one.');
}

const minExpirySeconds = 3600;
const maxExpirySeconds = 30 * 86_400;

/**
 * @param anchor, seconds undefined: not given
 * @param param name of the object that both lie in
 * @returns seconds after creation; undefined when neither is there
 */
export function expirySeconds(
  { anchor, seconds }: { readonly anchor: unknown; readonly seconds: unknown },
  param: string,
): number | undefined | Fault {
  if (anchor === undefined && seconds === undefined) return undefined;
  if (anchor === undefined) return missing(`${param}[anchor]`);
  if (seconds === undefined) return missing(`${param}[seconds]`);
  if (anchor !== 'created_at') return invalid(`${param}[anchor]`, `\`${param}.anchor\` must be 'created_at'.`);
  const value = typeof seconds === 'string' ? wholeNumber(seconds) : seconds;
  const isRight =
    typeof value === 'number' && Number.isInteger(value) && value >= minExpirySeconds && value <= maxExpirySeconds;
  const says = `\`${param}.seconds\` must be a whole number from ${minExpirySeconds} to ${maxExpirySeconds}.`;
  return isRight ? value : invalid(`${param}[seconds]`, says);
}

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
const maxWindowSeconds = 30 * 86_400;

/** OpenAI's one window is `24h`; others are warmlane's own. @returns seconds */
export function windowSeconds(window: unknown): number | Fault {
  const says = "`completion_window` must be '24h', or another time between '1s' and '30d'.";
  if (typeof window !== 'string')
    return window === undefined ? missing('completion_window') : invalid('completion_window', says);
  const [, count = '', unit = ''] = /^([1-9]\d{0,6})([smhd])$/.exec(window) ?? [];
  const seconds = Number(count) * (unitSeconds[unit] ?? 0);
  return seconds >= 1 && seconds <= maxWindowSeconds ? seconds : invalid('completion_window', says);
}

const maxPairs = 16;
const maxKeyChars = 64;
const maxValueChars = 512;

export function metadataOf(value: unknown): Readonly<Record<string, string>> | undefined | Fault {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'object' || Array.isArray(value)) return invalid('metadata', '`metadata` must be an object.');
  const pairs = Object.entries(value);
  if (pairs.length > maxPairs) return invalid('metadata', `\`metadata\` may have up to ${maxPairs} keys.`);
  const kept: [string, string][] = [];
  for (const [key, text] of pairs) {
    const fault = pairFault(key, text);
    if (fault !== undefined) return invalid('metadata', fault);
    kept.push([key, text as string]);
  }
  return Object.fromEntries(kept);
}

function pairFault(key: string, text: unknown): string | undefined {
  if (characters(key) > maxKeyChars) return `Keys of \`metadata\` may have up to ${maxKeyChars} characters.`;
  if (typeof text !== 'string') return 'Values of `metadata` must be strings.';
  if (characters(text) > maxValueChars) return `Values of \`metadata\` may have up to ${maxValueChars} characters.`;
  if (isStorable(key) && isStorable(text)) return undefined;
  return '`metadata` may hold neither U+0000 nor half of a surrogate pair.';
}

/** A character beyond U+FFFF counts once. */
function characters(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
}

export function textOf(value: unknown, param: string): string | Fault {
  if (value === undefined || value === null) return missing(param);
  return typeof value === 'string' ? value : invalid(param, `\`${param}\` must be a string.`);
}

export function invalid(param: string, message: string): Fault {
  return badRequest({ message, code: 'invalid_value', param });
}

function wholeNumber(text: string): number | undefined {
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}
