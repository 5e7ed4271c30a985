/**
 * Sums over the last minutes in a ring of equal time slots: each slot is made when its time comes and dropped when the ring
 * comes round. Bounded by its number of slots. Knows no clock: the caller gives the moment.
 */

export interface TimeRing<Slot> {
  /** The slot of a moment; undefined for one that the ring has passed. */
  at(ms: number): Slot | undefined;
  /** Slots that lie wholly in the last `windowMs`, and the one under way; newest first. */
  within(nowMs: number, windowMs: number): Slot[];
  /** Time that `within` covers, ms: no more than since the ring began. */
  coveredMs(nowMs: number, windowMs: number): number;
  /** Calls `add` for each slot that [fromMs, toMs] touches, with the milliseconds of it that lie inside. */
  spread(fromMs: number, toMs: number, add: (slot: Slot, ms: number) => void): void;
}

interface Held<Slot> {
  readonly index: number;
  readonly slot: Slot;
}

/** @param beganMs when counting began: no window covers time before it */
export function createTimeRing<Slot>(
  size: { readonly slotMs: number; readonly slots: number },
  beganMs: number,
  make: () => Slot,
): TimeRing<Slot> {
  const { slotMs, slots } = size;
  const ring: (Held<Slot> | undefined)[] = [];
  let newest = Math.floor(beganMs / slotMs);

  function at(ms: number): Slot | undefined {
    const index = Math.floor(ms / slotMs);
    if (index <= newest - slots) return undefined;
    if (index > newest) newest = index;
    const place = ((index % slots) + slots) % slots;
    const held = ring[place];
    if (held?.index === index) return held.slot;
    const slot = make();
    ring[place] = { index, slot };
    return slot;
  }

  /** Index of the oldest slot in a window. */
  function oldest(nowMs: number, windowMs: number): number {
    const first = Math.floor((nowMs - windowMs) / slotMs) + 1;
    return Math.max(first, Math.floor(nowMs / slotMs) - slots + 1, Math.floor(beganMs / slotMs));
  }

  return {
    at,
    within(nowMs, windowMs) {
      const found: Slot[] = [];
      const first = oldest(nowMs, windowMs);
      for (let index = Math.floor(nowMs / slotMs); index >= first; index -= 1) {
        const held = ring[((index % slots) + slots) % slots];
        if (held?.index === index) found.push(held.slot);
      }
      return found;
    },
    coveredMs: (nowMs, windowMs) => Math.max(0, nowMs - Math.max(oldest(nowMs, windowMs) * slotMs, beganMs)),
    spread(fromMs, toMs, add) {
      const from = Math.max(fromMs, (Math.floor(toMs / slotMs) - slots + 1) * slotMs);
      for (let startMs = from; startMs < toMs;) {
        const endMs = Math.min(toMs, (Math.floor(startMs / slotMs) + 1) * slotMs);
        const slot = at(startMs);
        if (slot !== undefined) add(slot, endMs - startMs);
        startMs = endMs;
      }
    },
  };
}
