/* Exact percentiles: every sample is kept (32 bits of nanoseconds, 4.29 s at most; longer ones count as that)
 * and sorted at the end. Twenty thousand tokens a second for a minute take 5 MB. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct samples {
  uint32_t *ns;
  size_t count, room;
};

static void samples_add(struct samples *s, uint64_t ns) {
  if (s->count == s->room) {
    s->room = s->room > 0 ? s->room * 2 : 65536;
    s->ns = realloc(s->ns, s->room * sizeof *s->ns);
    if (s->ns == NULL) abort();
  }
  s->ns[s->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static int compare_samples(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

/* Nearest rank: the smallest sample that at least `share` of all don't exceed. */
static double sample_micros(const struct samples *s, double share) {
  size_t rank = (size_t)(share * (double)s->count);
  if ((double)rank < share * (double)s->count) rank++;
  return s->ns[rank > 0 ? rank - 1 : 0] / 1000.0;
}

/* Prints `"name":{…}` in microseconds, or `"name":null` when there is no sample. */
static void samples_print(struct samples *s, const char *name) {
  if (s->count == 0) {
    printf("\"%s\":null", name);
    return;
  }
  qsort(s->ns, s->count, sizeof *s->ns, compare_samples);
  double sum = 0;
  for (size_t i = 0; i < s->count; i++) sum += s->ns[i];
  printf("\"%s\":{\"count\":%zu,\"mean\":%.2f,\"p50\":%.2f,\"p90\":%.2f,\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f}", name,
         s->count, sum / (double)s->count / 1000.0, sample_micros(s, 0.5), sample_micros(s, 0.9), sample_micros(s, 0.99),
         sample_micros(s, 0.999), sample_micros(s, 1.0));
}

#endif
