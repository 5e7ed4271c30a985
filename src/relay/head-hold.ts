/**
 * The beginning of an answer that is kept back before its head is committed: until its first event (R03), or until an
 * error's whole body is here. Bounded in bytes here, in time by whoever begins it. Decides nothing.
 */
import type { Engine } from '../domain/names.ts';
import type { Timer } from '../platform/clock.ts';
import type { BodyRead } from '../platform/upstream/port.ts';
import { joinSegments } from './segments.ts';

/** Error answers are read whole before they are passed on when they may mean something for the fleet; up to this size. */
const maxHeldBytes = 64 * 1024;

export type HoldReason = 'first_event' | 'error_body';

/** They answer 200 and then an error: the head waits for the first event. */
export const answersBeforeErrors: ReadonlySet<Engine> = new Set(['vllm', 'sglang', 'tgi']);
/** How long a head waits for the body of an error, ms. */
export const peekMs = 1000;

export class HeadHold {
  #waitsFor: HoldReason | undefined;
  #pieces: Buffer[] = [];
  #bytes = 0;
  #timer: Timer | undefined;

  /** Undefined: nothing is kept back. */
  get waitsFor(): HoldReason | undefined {
    return this.#waitsFor;
  }

  /** More than is kept came. */
  get full(): boolean {
    return this.#bytes > maxHeldBytes;
  }

  begin(waitsFor: HoldReason, timer: Timer): void {
    this.#waitsFor = waitsFor;
    this.#timer = timer;
  }

  /** @param output the read's bytes where they are not the read's own */
  keep(read: BodyRead, output: readonly Buffer[] | undefined): void {
    for (const piece of output ?? [joinSegments(read)]) {
      this.#pieces.push(piece);
      this.#bytes += piece.length;
    }
  }

  text(): string {
    return Buffer.concat(this.#pieces).toString('latin1');
  }

  /** Ends the hold. Idempotent. @returns what was kept */
  release(): readonly Buffer[] {
    const pieces = this.#pieces;
    this.#waitsFor = undefined;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#pieces = [];
    this.#bytes = 0;
    return pieces;
  }
}
