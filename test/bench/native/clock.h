/* Time for the bench's C programs: CLOCK_MONOTONIC in nanoseconds, the clock whose stamps travel inside the tokens,
 * and a timerfd that fires at a moment of it. Both programs run on one machine, so their readings compare. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <sys/timerfd.h>
#include <time.h>

#define NS_PER_SECOND 1000000000ull

static inline uint64_t now_ns(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (uint64_t)at.tv_sec * NS_PER_SECOND + (uint64_t)at.tv_nsec;
}

/* Arms the timer for the moment `at_ns`; 0 disarms it. A moment in the past fires at once. */
static inline void arm_timer(int timer_fd, uint64_t at_ns) {
  struct itimerspec when = {.it_value = {(time_t)(at_ns / NS_PER_SECOND), (long)(at_ns % NS_PER_SECOND)}};
  timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

#endif
