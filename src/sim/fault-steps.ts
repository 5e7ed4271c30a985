/**
 * The steps of which a scripted answer is made, and the player that carries them out on one socket.
 * A script is any (async) iterable of steps, so a generator can decide as it goes. Strings and bytes are sent, numbers are pauses in ms.
 * Knows nothing of HTTP; `faults.ts` decides when a script starts.
 */
import type { Socket } from 'node:net';
import type { Clock } from '../platform/clock.ts';
import { toBuffer } from './sse-script.ts';

export type Step =
  | { readonly kind: 'send'; readonly bytes: Buffer }
  | { readonly kind: 'pause'; readonly ms: number }
  | { readonly kind: 'at'; readonly ms: number }
  | { readonly kind: 'trickle'; readonly bytes: Buffer; readonly bytesPerWrite: number; readonly pauseMs: number }
  | { readonly kind: 'repeat'; readonly bytes: Buffer; readonly everyMs: number }
  | { readonly kind: 'until'; readonly gate: PromiseLike<unknown> }
  | { readonly kind: 'run'; readonly effect: () => void | PromiseLike<void> }
  | { readonly kind: 'reset' | 'fin' | 'hang' | 'waitForClose' | 'stopReading' | 'readOn' };

export type ScriptStep = Step | string | Uint8Array | number;
export type Script = Iterable<ScriptStep> | AsyncIterable<ScriptStep>;

/** Writes these bytes; the next step waits until the socket takes more. */
export const send = (bytes: string | Uint8Array): Step => ({ kind: 'send', bytes: toBuffer(bytes) });
/** Waits, counted from the end of the step before. */
export const pause = (ms: number): Step => ({ kind: 'pause', ms });
/** Waits until so many ms after the script began. */
export const at = (ms: number): Step => ({ kind: 'at', ms });
/** TCP reset: what was written and not yet taken may be lost. */
export const reset = (): Step => ({ kind: 'reset' });
/** TCP FIN after everything written; the other side may still send. */
export const fin = (): Step => ({ kind: 'fin' });
/** Does nothing for ever, with the socket open. Ends the script. */
export const hang = (): Step => ({ kind: 'hang' });
/** Waits until the other side has ended or closed. */
export const waitForClose = (): Step => ({ kind: 'waitForClose' });
/** Waits for a promise that the test holds. */
export const until = (gate: PromiseLike<unknown>): Step => ({ kind: 'until', gate });
/** Calls back between two steps. */
export const run = (effect: () => void | PromiseLike<void>): Step => ({ kind: 'run', effect });
/** Cuts the bytes into small writes; with `pauseMs` 0 each write has its own turn of the event loop. */
export const trickle = (bytes: string | Uint8Array, bytesPerWrite = 1, pauseMs = 0): Step => {
  return { kind: 'trickle', bytes: toBuffer(bytes), bytesPerWrite, pauseMs };
};
/** Sends the same bytes again and again until the socket closes: pings for ever. */
export const repeat = (bytes: string | Uint8Array, everyMs: number): Step => ({
  kind: 'repeat',
  bytes: toBuffer(bytes),
  everyMs,
});
/** Stops taking bytes from the socket, so that the sender meets back-pressure. */
export const stopReading = (): Step => ({ kind: 'stopReading' });
export const readOn = (): Step => ({ kind: 'readOn' });

export interface ScriptSocket {
  readonly socket: Socket;
  readonly clock: Clock;
  /** Resolves when the other side has ended its half or the socket is closed. */
  readonly peerGone: Promise<void>;
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  /** Told before each write. */
  wrote(bytes: number): void;
}

/**
 * Plays a script to its end, or until the socket closes.
 * @returns `done` when the socket may carry another request, `over` when the script ended it or it closed
 */
export async function playScript(script: Script, target: ScriptSocket): Promise<'done' | 'over'> {
  const beganMs = target.clock.nowMs();
  for await (const entry of script) {
    const step = asStep(entry);
    // What a script does after the end, it does for the test: look, note, open a gate.
    const isForTheTest = step.kind === 'waitForClose' || step.kind === 'run';
    if (target.socket.destroyed && !isForTheTest) return 'over';
    if (!(await playStep(step, target, beganMs))) return 'over';
  }
  return target.socket.destroyed || target.socket.writableEnded ? 'over' : 'done';
}

function asStep(entry: ScriptStep): Step {
  if (typeof entry === 'number') return pause(entry);
  return typeof entry === 'string' || entry instanceof Uint8Array ? send(entry) : entry;
}

/** @returns false when the script is over */
async function playStep(step: Step, target: ScriptSocket, beganMs: number): Promise<boolean> {
  const { socket, clock } = target;
  switch (step.kind) {
    case 'send':
      await write(step.bytes, target);
      return true;
    case 'pause':
      await wait(step.ms, target);
      return true;
    case 'at':
      await wait(beganMs + step.ms - clock.nowMs(), target);
      return true;
    case 'trickle':
      for (let from = 0; from < step.bytes.length && !socket.destroyed; from += step.bytesPerWrite) {
        await write(step.bytes.subarray(from, from + step.bytesPerWrite), target);
        if (step.pauseMs > 0) await wait(step.pauseMs, target);
        else await new Promise((resolve) => setImmediate(resolve));
      }
      return true;
    case 'repeat':
      while (!socket.destroyed) {
        await write(step.bytes, target);
        await wait(step.everyMs, target);
      }
      return false;
    case 'until':
      await Promise.race([step.gate, target.closed]);
      return true;
    case 'run':
      await step.effect();
      return true;
    case 'stopReading':
      socket.pause();
      return true;
    case 'readOn':
      socket.resume();
      return true;
    case 'reset':
      socket.resetAndDestroy();
      return false;
    case 'fin':
      socket.end();
      return true;
    case 'hang':
      await target.closed;
      return false;
    case 'waitForClose':
      await target.peerGone;
      return true;
  }
}

async function write(bytes: Buffer, target: ScriptSocket): Promise<void> {
  const { socket } = target;
  if (socket.destroyed || socket.writableEnded) return;
  target.wrote(bytes.length);
  if (socket.write(bytes)) return;
  let release = () => {};
  const drained = new Promise<void>((resolve) => {
    release = resolve;
    socket.once('drain', resolve);
  });
  await Promise.race([drained, target.closed]);
  socket.removeListener('drain', release);
}

async function wait(ms: number, target: ScriptSocket): Promise<void> {
  if (ms <= 0) return;
  let cancel = () => {};
  const due = new Promise<void>((resolve) => {
    const timer = target.clock.timer(ms, resolve);
    cancel = () => timer.cancel();
  });
  await Promise.race([due, target.closed]);
  cancel();
}
