/** A place in a prompt in words: which part of it, which bytes. Pure. */
import { partHead, partTools, type PromptPlace } from '../../domain/prefix.ts';

/** `message 0, bytes 0–256` */
export function placeText({ part, startBytes, endBytes }: PromptPlace): string {
  return `${partText(part)}, bytes ${startBytes}–${endBytes}`;
}

function partText(part: number): string {
  if (part === partTools) return 'tools';
  return part === partHead ? 'before the messages (model, adapter, salt or template inputs)' : `message ${part}`;
}

/** What to do about prompts that keep differing there, in a sentence. */
export function remedyText(place: PromptPlace): string {
  if (place.part === partTools)
    return 'tools are sent in another order or changed: send the same tools in the same order';
  const { startBytes, endBytes } = place;
  if (place.part === partHead)
    return 'model, adapter, salt or template inputs differ each time: send the same ones where a cache may be shared';
  const which = place.part === 0 ? 'message 0 (mostly the system prompt)' : `message ${place.part}`;
  return `${which}, bytes ${startBytes}–${endBytes} differ each time: move a timestamp, id or reordered tools behind the stable text`;
}
