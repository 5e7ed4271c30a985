/** Which relays work on which backend, so that a refusing port shortens their patience (R04, R07). */
import type { Fleet, Member } from './fleet/fleet.ts';
import type { Link } from './pipeline-deps.ts';
import { Bag } from './platform/bag.ts';
import type { Relay } from './relay/relay.ts';

export interface RelayRegistry {
  /** @returns ends it */
  add(link: Link, relay: Relay): () => void;
}

export function createRelayRegistry(fleet: Pick<Fleet, 'onRefused' | 'member'>): RelayRegistry {
  const byMember = new WeakMap<Member, Bag<Relay>>();
  fleet.onRefused((backend) => {
    const member = fleet.member(backend);
    if (member !== undefined) byMember.get(member)?.forEach((relay) => relay.backendRefuses());
  });
  return {
    add({ member }, relay) {
      if (member === undefined) return () => {};
      const relays = byMember.get(member) ?? new Bag();
      byMember.set(member, relays);
      const place = relays.add(relay);
      return () => relays.remove(place);
    },
  };
}
