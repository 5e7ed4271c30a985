/**
 * Which deadline of a running attempt is over, if any. Pure: the relay tells what it has seen, ten times a second.
 * Each silence has a limit of its own (C121); comments and pings end none of them but the connection's.
 */
import type { Phase } from '../domain/names.ts';
import type { Refusal } from '../domain/refusal.ts';
import { deadlineRefusal, lostRefusal } from './refusals.ts';
import type { RelaySettings } from './settings.ts';

/** What the relay has seen so far; all moments are monotonic ms. */
export interface Waiting {
  readonly backend: string;
  readonly phase: Phase;
  /** When the request was sent; until then, when the sending began. */
  readonly sentMs: number;
  /** Since when the backend takes no byte of the request; undefined while it does, or while the client is the slow one. */
  readonly uploadFullMs: number | undefined;
  readonly lastByteMs: number;
  readonly lastContentMs: number;
  /** When its port was seen to refuse, with no content since. */
  readonly lostMs: number | undefined;
  readonly bodyBytes: number;
  /** A stream was asked for. */
  readonly stream: boolean;
  readonly measured: boolean;
}

type Deadlines = RelaySettings['deadlines'];

/** sent → end: holds whatever else happens. */
export function totalExpired(waiting: Waiting, { totalMs }: Deadlines, nowMs: number): Refusal | undefined {
  return isOver(nowMs - waiting.sentMs, totalMs) ? deadlineRefusal('totalMs', totalMs, waiting.backend) : undefined;
}

/** The backend's silences. Not to be asked while the relay itself keeps the backend waiting. */
export function silenceExpired(waiting: Waiting, deadlines: Deadlines, nowMs: number): Refusal | undefined {
  return phaseExpired(waiting, deadlines, nowMs) ?? lostExpired(waiting, deadlines, nowMs);
}

function phaseExpired(waiting: Waiting, deadlines: Deadlines, nowMs: number): Refusal | undefined {
  const { backend, phase, sentMs, stream } = waiting;
  const forPromptMs = (waiting.bodyBytes / 1024) * deadlines.perBodyKibMs;
  const headMs = deadlines.headMs > 0 ? deadlines.headMs + forPromptMs : 0;
  switch (phase) {
    case 'sending': {
      // A client that left can't be seen while its upload stands still: without a limit this would be for ever.
      const { uploadFullMs } = waiting;
      const stalled = uploadFullMs !== undefined && isOver(nowMs - uploadFullMs, headMs);
      return stalled ? deadlineRefusal('headMs', headMs, backend) : undefined;
    }
    case 'waiting_head':
      return stream && isOver(nowMs - sentMs, headMs) ? deadlineRefusal('headMs', headMs, backend) : undefined;
    case 'waiting_first_token': {
      const limitMs = deadlines.firstTokenMs > 0 ? deadlines.firstTokenMs + forPromptMs : 0;
      return isOver(nowMs - sentMs, limitMs) ? deadlineRefusal('firstTokenMs', limitMs, backend) : undefined;
    }
    case 'streaming':
      return contentExpired(waiting, deadlines, nowMs - waiting.lastContentMs);
    case 'reading_answer':
      return waiting.measured ? contentExpired(waiting, deadlines, nowMs - waiting.lastByteMs) : undefined;
    default:
      return undefined;
  }
}

function contentExpired({ backend }: Waiting, { contentStallMs }: Deadlines, silentMs: number): Refusal | undefined {
  return isOver(silentMs, contentStallMs) ? deadlineRefusal('contentStallMs', contentStallMs, backend) : undefined;
}

/** R04, R07: silence on a backend whose port refuses is judged sooner. */
function lostExpired(waiting: Waiting, { refusedStallMs }: Deadlines, nowMs: number): Refusal | undefined {
  const { lostMs, lastContentMs, backend } = waiting;
  if (lostMs === undefined) return undefined;
  return isOver(nowMs - Math.max(lastContentMs, lostMs), refusedStallMs) ? lostRefusal(backend) : undefined;
}

/** @param limitMs 0: no limit */
function isOver(elapsedMs: number, limitMs: number): boolean {
  return limitMs > 0 && elapsedMs > limitMs;
}
