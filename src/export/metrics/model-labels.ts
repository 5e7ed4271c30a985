/**
 * Which model names may be labels. Names that the config or the backends know always keep theirs; any other, which clients
 * may make up, has one while there is room for it, first come, first served, and is `other` after that (C189, C190).
 */
import { labelText } from './label-text.ts';
import { otherLabel } from './series.ts';

/** Nothing was named. */
export const noLabel = 'none';

export interface ModelLabels {
  /** These names keep their labels from now on. */
  pin(names: Iterable<string>): void;
  labelOf(model: string | undefined): string;
  /** The same for a finished request, which counts where it is `other` for want of room. */
  labelFinished(model: string | undefined): string;
  /** Finished requests whose name was called `other`. */
  readonly overflows: number;
}

export interface ModelLabelSettings {
  /** Names that only clients gave. */
  readonly maxUnknown: number;
  /** Names that the config or backends gave: a bound against a backend that lists without end. */
  readonly maxPinned: number;
}

export function createModelLabels({ maxUnknown, maxPinned }: ModelLabelSettings): ModelLabels {
  const pinned = new Map<string, string>();
  const unknown = new Map<string, string>();
  let overflows = 0;

  /** @returns undefined for want of room */
  function find(model: string | undefined): string | undefined {
    if (model === undefined || model === '') return noLabel;
    const known = pinned.get(model) ?? unknown.get(model);
    if (known !== undefined || unknown.size >= maxUnknown) return known;
    const label = labelText(model);
    unknown.set(model, label);
    return label;
  }

  return {
    pin(names) {
      for (const name of names) {
        if (pinned.has(name) || pinned.size >= maxPinned) continue;
        pinned.set(name, labelText(name));
        unknown.delete(name);
      }
    },
    labelOf: (model) => find(model) ?? otherLabel,
    labelFinished(model) {
      const label = find(model);
      if (label === undefined) overflows += 1;
      return label ?? otherLabel;
    },
    get overflows() {
      return overflows;
    },
  };
}
