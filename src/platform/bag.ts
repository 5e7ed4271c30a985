/**
 * What is under way: added and removed once per request, walked now and then. Not a Set, for the garbage collector's sake:
 * V8's Set leaves its old tables behind, each linked to the next, and one of them that has grown old keeps all later ones,
 * and every request they ever held, until a full collection (seen as 25 KB promoted per short request).
 */

/** Where an item lies; given back to remove it. */
export interface Place {
  index: number;
}

export class Bag<T> {
  readonly #items: T[] = [];
  readonly #places: Place[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: T): Place {
    const place = { index: this.#items.length };
    this.#items.push(item);
    this.#places.push(place);
    return place;
  }

  /** Idempotent. The last item takes the place: order means nothing here. */
  remove(place: Place): void {
    const { index } = place;
    if (index < 0) return;
    place.index = -1;
    const item = this.#items.pop();
    const last = this.#places.pop();
    if (item === undefined || last === undefined || last === place) return;
    this.#items[index] = item;
    this.#places[index] = last;
    last.index = index;
  }

  /** `visit` may remove any item; one that is moved meanwhile may be visited twice, none is missed but those removed. */
  forEach(visit: (item: T) => void): void {
    for (let i = this.#items.length - 1; i >= 0; i -= 1) {
      const item = this.#items[i];
      if (item !== undefined) visit(item);
    }
  }

  toArray(): readonly T[] {
    return [...this.#items];
  }
}
