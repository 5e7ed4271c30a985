/**
 * Drives an engine's steps on a clock: one after the other in ideal time while there is work, asleep while there is none.
 * Knows when a step begins and ends, not what is in it.
 */
import type { Clock, Timer } from '../platform/clock.ts';

export interface StepLoop {
  /** There may be work: begins a step unless one is under way. */
  wake(): void;
  /** Forgets the step under way. */
  cancel(): void;
  /** Stands still for good. */
  freeze(): void;
}

export interface StepLoopDeps {
  readonly clock: Clock;
  /** Fills a step that begins at `startMs`. @returns its length in ms, or undefined when there is nothing to do */
  begin(startMs: number): number | undefined;
  finish(atMs: number): void;
}

/** Behind the clock by no more than this, steps follow each other in ideal time; further behind, the lost time is lost. */
const maxLagMs = 25;

export function createStepLoop(deps: StepLoopDeps): StepLoop {
  const { clock } = deps;
  let timer: Timer | undefined;
  let endMs = 0;
  /** True inside `begin` and `finish`, which may call back for more work. */
  let inside = false;
  let frozen = false;

  function begin(startMs: number): boolean {
    const lengthMs = deps.begin(startMs);
    if (lengthMs === undefined || frozen) return false;
    endMs = startMs + lengthMs;
    return true;
  }

  function arm(): void {
    timer = clock.timer(endMs - clock.nowMs(), () => {
      timer = undefined;
      inside = true;
      const more = catchUp();
      inside = false;
      if (more) arm();
    });
  }

  /** Finishes what is due. @returns whether a step is under way then */
  function catchUp(): boolean {
    do {
      deps.finish(endMs);
      const nowMs = clock.nowMs();
      if (frozen || !begin(nowMs - endMs > maxLagMs ? nowMs : endMs)) return false;
    } while (endMs <= clock.nowMs());
    return true;
  }

  const cancel = () => {
    timer?.cancel();
    timer = undefined;
  };
  return {
    wake() {
      if (timer !== undefined || inside || frozen) return;
      inside = true;
      const began = begin(clock.nowMs());
      inside = false;
      if (began) arm();
    },
    cancel,
    freeze() {
      frozen = true;
      cancel();
    },
  };
}
