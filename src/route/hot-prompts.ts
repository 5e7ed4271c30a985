/**
 * Which beginnings many prompts share: the borders between messages behind which prompts part, with how often each was seen.
 * Space-saving counts (Metwally, Agrawal, El Abbadi, 2005) over a bounded number of borders; of the hottest the text is kept,
 * within a bound, so that it can be sent to a backend that comes back. Pure but for its own state; sends nothing.
 *
 * A border is of use only if different prompts go on behind it: a conversation that grows turn by turn never parts.
 */
import { type PrefixChain, partHead } from '../domain/prefix.ts';

export interface HotPromptsSettings {
  /** Borders watched at one time. */
  readonly maxBorders: number;
  /** Text kept, all together. */
  readonly maxBytes: number;
  /** Shorter beginnings are not worth a prefill. */
  readonly minTokens: number;
}

/** A beginning whose text is worth keeping. */
export interface WantedText {
  readonly key: number;
  /** Messages that belong to it, from the first; 0: tools and the like alone. */
  readonly messages: number;
}

export interface HotPrompt {
  readonly key: number;
  readonly path: string;
  /** Request that brings it into a cache. */
  readonly body: Buffer;
  readonly messages: number;
  /** Requests that began with it, lately. */
  readonly count: number;
  readonly tokens: number;
}

export interface HotPrompts {
  /** Told of each prompt that comes in. @returns a beginning of it whose text is to be kept */
  saw(chain: PrefixChain): WantedText | undefined;
  /** @param body the request that brings it into a cache; undefined when none can be made of it */
  keep(wanted: WantedText, path: string, body: Buffer | undefined): void;
  /** Most worth first: requests times tokens. One that lies within a longer one of the list is not in it. */
  hottest(count: number): readonly HotPrompt[];
  readonly bytes: number;
}

interface Border {
  readonly key: number;
  /** The border before it in the same prompt. */
  readonly before: number | undefined;
  readonly messages: number;
  readonly tokens: number;
  count: number;
  /** How much of the count may be another border's, whose place it took. */
  over: number;
  /** What came behind it first; absent while every prompt ended here. */
  next: number | undefined;
  parts: boolean;
  text: { readonly path: string; readonly body: Buffer } | undefined;
  /** Its text could not be kept: not asked for again until the counts are halved. */
  refused: boolean;
}

const bytesPerToken = 4;
/** A shared beginning has few messages; behind these nobody looks. */
const mostBorders = 8;
/** Borders that are compared when one has to go. */
const lookedAt = 16;
/** After so many prompts all counts are halved: what was hot long ago gives way. */
const halveAfter = 10_000;
const leastCount = 2;

export function createHotPrompts(settings: HotPromptsSettings): HotPrompts {
  const borders = new Map<number, Border>();
  /** The same in a row, to find those that are seldom seen a few at a time. */
  const row: Border[] = [];
  let hand = 0;
  let bytes = 0;
  let seen = 0;

  /** The least seen of the next few: all of them are too many to look at for each prompt. */
  function victimAt(): number {
    let least = hand % row.length;
    for (let looked = 0; looked < lookedAt && looked < row.length; looked += 1) {
      const at = hand % row.length;
      hand = at + 1;
      if ((row[at]?.count ?? 0) < (row[least]?.count ?? 0)) least = at;
    }
    return least;
  }

  function watch(fresh: Pick<Border, 'key' | 'before' | 'messages' | 'tokens' | 'next'>): void {
    const at = row.length < settings.maxBorders ? row.length : victimAt();
    const victim = row[at];
    const over = victim?.count ?? 0;
    if (victim !== undefined) {
      bytes -= victim.text?.body.length ?? 0;
      borders.delete(victim.key);
    }
    const { key, before, messages, tokens, next } = fresh;
    const border: Border = {
      key,
      before,
      messages,
      tokens,
      count: over + 1,
      over,
      next,
      parts: false,
      text: undefined,
      refused: false,
    };
    row[at] = border;
    borders.set(key, border);
  }

  function halve(): void {
    for (const border of borders.values()) {
      border.count = Math.floor(border.count / 2);
      border.over = Math.floor(border.over / 2);
      border.refused = false;
    }
  }

  function isHot({ count, over, parts }: Border): boolean {
    return parts && count - over >= leastCount;
  }

  /** Makes room by letting go of what is worth less. @returns false when there is not enough of that; then all stays */
  function makeRoom(needed: number, worth: number): boolean {
    const cheaper = row.filter((border) => border.text !== undefined && worthOf(border) < worth);
    cheaper.sort((a, b) => worthOf(a) - worthOf(b));
    let room = settings.maxBytes - bytes;
    const going: Border[] = [];
    for (const border of cheaper) {
      if (room >= needed) break;
      room += border.text?.body.length ?? 0;
      going.push(border);
    }
    if (room < needed) return false;
    for (const border of going) {
      bytes -= border.text?.body.length ?? 0;
      border.text = undefined;
      border.refused = true;
    }
    return true;
  }

  return {
    saw(chain) {
      seen += 1;
      if (seen % halveAfter === 0) halve();
      let wanted: WantedText | undefined;
      let before: number | undefined;
      let looked = 0;
      for (const at of bordersOf(chain, settings.minTokens * bytesPerToken)) {
        const key = chain.keys[at] ?? 0;
        const next = chain.keys[at + 1];
        const border = borders.get(key);
        if (border === undefined) {
          const messages = Math.max(0, (chain.parts[at] ?? partHead) + 1);
          watch({ key, before, messages, tokens: Math.round((chain.ends[at] ?? 0) / bytesPerToken), next });
          // What lies behind it can't have been seen before.
          break;
        }
        border.count += 1;
        if (border.next === undefined) border.next = next;
        else if (next !== undefined && next !== border.next) border.parts = true;
        if (border.text === undefined && !border.refused && isHot(border)) wanted = { key, messages: border.messages };
        before = key;
        looked += 1;
        if (looked >= mostBorders) break;
      }
      return wanted;
    },
    keep({ key }, path, body) {
      const border = borders.get(key);
      if (border === undefined || border.text !== undefined) return;
      if (body === undefined || !makeRoom(body.length, worthOf(border))) {
        border.refused = true;
        return;
      }
      border.text = { path, body };
      bytes += body.length;
    },
    hottest(count) {
      const hot = [...borders.values()].filter((border) => border.text !== undefined && isHot(border));
      const chosen = hot.toSorted((a, b) => worthOf(b) - worthOf(a)).slice(0, count);
      const within = new Set(chosen.flatMap((border) => ancestors(border, borders)));
      return chosen.flatMap(({ key, text, messages, count: times, tokens }) =>
        text === undefined || within.has(key) ? [] : [{ key, ...text, messages, count: times, tokens }],
      );
    },
    get bytes() {
      return bytes;
    },
  };
}

function worthOf({ count, over, tokens }: Border): number {
  return (count - over) * tokens;
}

function ancestors(border: Border, borders: ReadonlyMap<number, Border>): readonly number[] {
  const keys: number[] = [];
  for (let key = border.before; key !== undefined && keys.length < mostBorders; key = borders.get(key)?.before)
    keys.push(key);
  return keys;
}

/** Last chunks of parts, from the first that is deep enough; the prompt's own end is one. */
function* bordersOf({ keys, ends, parts, bytes }: PrefixChain, leastBytes: number): Generator<number, void> {
  for (let at = 0; at < keys.length; at += 1) {
    const isLast = at === keys.length - 1;
    // More chunks than are kept: that is no border.
    if (isLast ? (ends[at] ?? 0) < bytes : parts[at] === parts[at + 1]) continue;
    if ((ends[at] ?? 0) >= leastBytes) yield at;
  }
}
