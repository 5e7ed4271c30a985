/* One reading of what the machine did, taken by the client at both edges of the measured window:
 * CPU and run-queue wait of the proxy's processes (/proc/PID/task/<tid>/schedstat), CPU of backend and client,
 * and how busy each of the two cores was whoever ran there (/proc/stat, so in ticks). */
#ifndef BENCH_READING_H
#define BENCH_READING_H

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define MAX_PIDS 64

struct watch {
  int proxy_pids[MAX_PIDS];
  int proxy_count, backend_pid, proxy_core, load_core;
};

struct reading {
  uint64_t at_ns, proxy_cpu_ns, proxy_wait_ns, backend_cpu_ns, client_cpu_ns;
  uint64_t proxy_core_busy_ns, load_core_busy_ns, steal_ns;
  uint64_t proxy_rss_kb;
};

/* Adds CPU and run-queue wait of every thread of the process. A process that is gone adds nothing. */
static void add_process_time(int pid, uint64_t *cpu_ns, uint64_t *wait_ns) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  if (tasks == NULL) return;
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, entry->d_name);
    FILE *file = fopen(path, "r");
    uint64_t ran, waited;
    if (file == NULL) continue;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2) {
      *cpu_ns += ran;
      *wait_ns += waited;
    }
    fclose(file);
  }
  closedir(tasks);
}

static uint64_t process_rss_kb(int pid) {
  char path[64], line[256];
  uint64_t rss_kb = 0;
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "VmRSS: %" SCNu64, &rss_kb) == 1) break;
  fclose(file);
  return rss_kb;
}

static void read_cores(const struct watch *watch, struct reading *reading) {
  FILE *file = fopen("/proc/stat", "r");
  char line[512];
  uint64_t tick_ns = NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    int core;
    uint64_t user, nice, system, idle, wait, irq, softirq, steal;
    if (sscanf(line, "cpu%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &core, &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal) != 9)
      continue;
    uint64_t busy_ns = (user + nice + system + irq + softirq) * tick_ns;
    if (core == watch->proxy_core) reading->proxy_core_busy_ns = busy_ns;
    if (core == watch->load_core) reading->load_core_busy_ns = busy_ns;
    reading->steal_ns += steal * tick_ns;
  }
  fclose(file);
}

static struct reading take_reading(const struct watch *watch) {
  struct reading reading = {0};
  uint64_t backend_wait_ns = 0;
  for (int i = 0; i < watch->proxy_count; i++) {
    add_process_time(watch->proxy_pids[i], &reading.proxy_cpu_ns, &reading.proxy_wait_ns);
    reading.proxy_rss_kb += process_rss_kb(watch->proxy_pids[i]);
  }
  if (watch->backend_pid > 0) add_process_time(watch->backend_pid, &reading.backend_cpu_ns, &backend_wait_ns);
  read_cores(watch, &reading);
  struct timespec own;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  reading.client_cpu_ns = (uint64_t)own.tv_sec * NS_PER_SECOND + (uint64_t)own.tv_nsec;
  reading.at_ns = now_ns();
  return reading;
}

#endif
