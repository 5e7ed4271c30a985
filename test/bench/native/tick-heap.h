/* The backend's streams by the moment of their next token: a binary heap, the earliest first. */
#ifndef BENCH_TICK_HEAP_H
#define BENCH_TICK_HEAP_H

#include <stdint.h>

#define MAX_STREAMS 16384

/* First member of what lies in the heap. */
struct tick {
  uint64_t due_ns;
  unsigned heap_at;
};

static struct tick *heap[MAX_STREAMS];
static unsigned heap_count;

static void heap_place(struct tick *tick, unsigned at) {
  heap[at] = tick;
  tick->heap_at = at;
}

/* Moves a tick, whose moment has changed, to where it belongs. */
static void heap_settle(struct tick *tick) {
  unsigned at = tick->heap_at;
  while (at > 0 && heap[(at - 1) / 2]->due_ns > tick->due_ns) {
    heap_place(heap[(at - 1) / 2], at);
    at = (at - 1) / 2;
  }
  for (unsigned child; (child = 2 * at + 1) < heap_count; at = child) {
    if (child + 1 < heap_count && heap[child + 1]->due_ns < heap[child]->due_ns) child++;
    if (heap[child]->due_ns >= tick->due_ns) break;
    heap_place(heap[child], at);
  }
  heap_place(tick, at);
}

static void heap_add(struct tick *tick) {
  heap_place(tick, heap_count++);
  heap_settle(tick);
}

static void heap_remove(struct tick *tick) {
  struct tick *last = heap[--heap_count];
  if (last == tick) return;
  heap_place(last, tick->heap_at);
  heap_settle(last);
}

#endif
