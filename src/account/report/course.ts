/**
 * The moments of a request as its log line tells them, for the phases in which its time went. The line has durations where
 * the record has moments: here they are put back in their places. Pure.
 */
import type { Course } from '../slo/time-spent.ts';
import type { Row } from './row.ts';

export function courseOf(row: Row): Course {
  const { queueMs, connectMs, overheadMs = 0, ttftMs, headMs } = row;
  // What it waited for in vain, until it ended.
  const queueEndMs = row.admittedMs ?? (row.sentMs === undefined ? row.durationMs : queueMs);
  const queuedMs = queueMs === undefined || queueEndMs === undefined ? undefined : queueEndMs - queueMs;
  // Sent before its own last byte had come, if the backend was heard of and the line tells no moment.
  const sentMs = row.sentMs ?? (ttftMs === undefined && headMs === undefined ? undefined : 0);
  // The proxy's own time is either before the queue or between connection and last byte sent.
  const ownMs = Math.max(0, overheadMs - Math.max(0, queuedMs ?? 0));
  return {
    streamed: row.streamed,
    engine: row.engine,
    attempts: row.attempts ?? 1,
    queuedMs,
    admittedMs: queuedMs === undefined || queueMs === undefined ? undefined : queuedMs + queueMs,
    connectedMs: sentMs === undefined ? unsentConnectedMs(row) : sentMs - ownMs,
    sentMs,
    headMs,
    firstTokenMs: ttftMs,
    connectMs,
    engineQueueMs: row.engineQueueMs,
    prefillMs: row.prefillMs,
    stalledMs: row.stalledMs ?? row.stallMs ?? 0,
  };
}

/** It ended while it was sent. */
function unsentConnectedMs({ admittedMs, connectMs }: Row): number | undefined {
  return admittedMs === undefined || connectMs === undefined ? undefined : admittedMs + connectMs;
}
