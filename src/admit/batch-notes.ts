/** What the settings of batch come to on a backend whose places are known, where that is hardly what was meant. Pure. */
import type { BackendView } from '../domain/fleet.ts';
import { shareOf } from './batch-room.ts';
import type { LaneSettings } from './lane-settings.ts';

/** @returns for people, with what to do; undefined: there is nothing to say, or its places are not known */
export function reserveNote(backend: BackendView, settings: LaneSettings): string | undefined {
  if (backend.slots === undefined) return undefined;
  const places = Math.max(1, backend.slots);
  const { reserveSlots } = settings.batch;
  if (reserveSlots < places) return undefined;
  const share = shareOf(backend, settings);
  const all = places === 1 ? 'its only place' : `all of its ${places} places`;
  const left = share === 0 ? 'nothing of batch runs there' : `batch has its guaranteed ${share} there and no more`;
  return `lanes.batch.reserveSlots (${reserveSlots}) keeps ${all} free of batch: ${left} while users are online; set it below ${places}`;
}
