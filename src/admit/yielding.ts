/**
 * Jobs that take a backend only while it idles and leave it as soon as anybody else comes: warmlane's own warm-ups.
 * They never wait, hold no place that another could want, and count for nothing in the load; who is granted a place there
 * meets a backend that was told to stop first. One at a time on each backend.
 */
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { Errand } from '../domain/routing.ts';
import type { Ask, LoadView, OwnerDeps, Permit } from './owner.ts';
import { notIdle } from './refusals.ts';

export interface Yielding {
  /** Answers at once. */
  ask(ask: Ask, answer: (result: Permit | Refusal) => void): void;
  /** Somebody is granted a place there: what yields is told to leave, before that one is answered. */
  makeWay(backend: string): void;
}

export interface YieldingDeps extends Pick<OwnerDeps, 'choose'> {
  readonly sent: OwnerDeps['sent'] | undefined;
  readonly load: (backend: string) => LoadView;
  /** Somebody waits for a place there. */
  readonly isWanted: (backend: string) => boolean;
}

export function createYielding({ choose, sent, load, isWanted }: YieldingDeps): Yielding {
  const running = new Map<string, () => void>();

  return {
    ask(ask, answer) {
      const choice = choose(ask, load);
      if (isRefusal(choice)) return answer(choice);
      const [target] = choice.ranked;
      const { yields } = ask;
      if (target === undefined || yields === undefined) return answer(notIdle());
      const { name, ghostSlots } = target.backend;
      const isIdle = load(name).jobs === 0 && ghostSlots === 0 && !isWanted(name) && !running.has(name);
      if (!isIdle) return answer(notIdle());
      const leave = () => yields();
      running.set(name, leave);
      let isComputed = false;
      const computed = () => {
        if (isComputed) return;
        isComputed = true;
        errand?.computed?.();
      };
      const errand: Errand | undefined = ask.job.generates
        ? sent?.(ask, target, { load: load(name), computed, overdue() {} })
        : undefined;
      const permit: Permit = {
        backend: target.backend,
        reason: target.reason,
        slots: 0,
        waitedMs: 0,
        decoding: computed,
        settle() {
          if (running.get(name) === leave) running.delete(name);
        },
      };
      answer(errand === undefined ? permit : { ...permit, errand });
    },
    makeWay(backend) {
      const leave = running.get(backend);
      if (leave === undefined) return;
      running.delete(backend);
      leave();
    },
  };
}
