/* What the client is told: its load, its window, and whom to watch. */
#ifndef BENCH_CLIENT_OPTIONS_H
#define BENCH_CLIENT_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "reading.h"

static struct {
  int port;
  unsigned streams, closed, open_tokens, tokens;
  double rate, ramp_s, warmup_s, window_s, open_rate;
  size_t open_bytes, closed_bytes;
  bool sync, spread, again;
  struct watch watch;
} options = {.rate = 50, .ramp_s = 1, .warmup_s = 1, .window_s = 5, .spread = true, .watch = {.proxy_core = -1, .load_core = -1}};

static void read_pids(const char *list) {
  for (char *end; options.watch.proxy_count < MAX_PIDS && *list != 0; list = *end == ',' ? end + 1 : end) {
    options.watch.proxy_pids[options.watch.proxy_count++] = (int)strtol(list, &end, 10);
    if (*end != ',' && *end != 0) break;
  }
}

static void read_options(int argc, char **argv) {
  static const char *const names[] = {"port", "streams", "rate", "sync", "spread", "tokens", "ramp", "warmup", "seconds", "open-rate", "open-tokens",
                                      "open-bytes", "closed", "closed-bytes", "proxy-pids", "backend-pid", "proxy-core", "load-core", "again"};
  struct option known[sizeof names / sizeof *names + 1] = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) known[i] = (struct option){names[i], required_argument, NULL, (int)i};
  for (int which; (which = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    double number = optarg != NULL ? strtod(optarg, NULL) : 0;
    switch (which) {
      case 0: options.port = (int)number; break;
      case 1: options.streams = (unsigned)number; break;
      case 2: options.rate = number; break;
      case 3: options.sync = number > 0; break;
      case 4: options.spread = number > 0; break;
      case 5: options.tokens = (unsigned)number; break;
      case 6: options.ramp_s = number; break;
      case 7: options.warmup_s = number; break;
      case 8: options.window_s = number; break;
      case 9: options.open_rate = number; break;
      case 10: options.open_tokens = (unsigned)number; break;
      case 11: options.open_bytes = (size_t)number; break;
      case 12: options.closed = (unsigned)number; break;
      case 13: options.closed_bytes = (size_t)number; break;
      case 14: read_pids(optarg); break;
      case 15: options.watch.backend_pid = (int)number; break;
      case 16: options.watch.proxy_core = (int)number; break;
      case 17: options.watch.load_core = (int)number; break;
      case 18: options.again = number > 0; break;
      default: exit(2);
    }
  }
  if (options.port == 0 || optind < argc) {
    fprintf(stderr, "usage: client --port N [--streams N --rate R …]; the options are listed in read_options\n");
    exit(2);
  }
}

#endif
