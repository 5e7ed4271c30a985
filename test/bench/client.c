/* Load client of the bench: one thread, epoll. Three kinds of load, alone or together:
 *   streams   N of them, started over the ramp, each lasting past the measured window; every token is checked and timed
 *             with `--tokens T --again 1` each ends after T tokens and begins anew, so that the ends' work is measured too
 *   open      R requests a second whatever the answers do, streamed (for the time to the first token) or not
 *   closed    C connections, each sending its next request when its answer has come
 * Prints one JSON object: latencies in microseconds, counts, errors, and what the CPUs did between the window's edges.
 * Everything is counted between these edges, except errors, which count always. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "native/client-options.h"
#include "native/clock.h"
#include "native/message.h"
#include "native/reading.h"
#include "native/requests.h"
#include "native/samples.h"

#define MAX_IN_FLIGHT 4096
#define MAX_LINE_BYTES 4096
#define GRACE_NS (15 * NS_PER_SECOND)

enum kind { STREAM, OPEN, CLOSED };

struct connection {
  int fd;
  enum kind kind;
  bool busy, reused, closed, done_seen, finish_seen, watching_out;
  struct message answer;
  struct request request;
  struct wish wish;
  char *line; /* an event line that a read cut in two */
  size_t line_bytes;
  unsigned next_token;
  uint64_t sent_ns;
  struct connection *next;
};

static struct {
  uint64_t lost, doubled, reordered, crossed, status, refused, cut, unfinished, overflow;
} errors;
static char first_error[300];
static uint64_t stale, reads_with_tokens, open_answers, closed_answers, tokens_of_streams;
static struct samples token_latency, first_token, open_latency, closed_latency;
static struct reading readings[2];

static int epoll_fd;
static uint64_t start_ns, window_from_ns, window_to_ns, arrival_ns;
static unsigned streams_started, streams_open, in_flight, request_number;
static uint64_t next_open_ns;
static struct connection *idle, *dead;
static char *open_conversation, *closed_conversation;

static bool in_window(uint64_t at_ns) { return at_ns >= window_from_ns && at_ns < window_to_ns; }

static void note_error(uint64_t *counter, const char *what, const char *text, size_t bytes) {
  ++*counter;
  if (first_error[0] == 0) snprintf(first_error, sizeof first_error, "%s %.*s", what, (int)(bytes < 200 ? bytes : 200), text);
}

/* ── connections ── */

static void close_connection(struct connection *c) {
  if (c->closed) return;
  c->closed = true;
  close(c->fd);
  if (c->busy) in_flight--;
  if (c->kind == STREAM) streams_open--;
  c->next = dead;
  dead = c;
}

static void free_dead(void) {
  while (dead != NULL) {
    struct connection *c = dead;
    dead = c->next;
    free(c->answer.head);
    free(c->line);
    free(c);
  }
}

static void watch_out(struct connection *c, bool out) {
  struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
  if (c->watching_out != out) epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
  c->watching_out = out;
}

static bool open_socket(struct connection *c) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c->fd < 0) return false;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) {
    close(c->fd);
    return false;
  }
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  c->watching_out = true;
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
  return true;
}

static struct connection *take_connection(enum kind kind) {
  struct connection *c = idle;
  if (c != NULL && kind != STREAM) {
    idle = c->next;
    c->reused = true;
    c->kind = kind;
    return c;
  }
  c = calloc(1, sizeof *c);
  if (c == NULL) abort();
  c->kind = kind;
  if (kind == STREAM) streams_open++;
  if (open_socket(c)) return c;
  note_error(&errors.refused, "connect", strerror(errno), 100);
  if (kind == STREAM) streams_open--;
  free(c);
  return NULL;
}

static void send_rest(struct connection *c) {
  struct iovec parts[3];
  int count = unsent_parts(&c->request, parts);
  if (count == 0) return;
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
  ssize_t done = sendmsg(c->fd, &message, MSG_NOSIGNAL);
  /* A failed write shows again as a failed read, where it is counted. */
  if (done > 0) c->request.sent_bytes += (size_t)done;
  watch_out(c, c->request.sent_bytes < request_bytes(&c->request) && (done > 0 || errno == EAGAIN));
}

static void begin_request(struct connection *c) {
  bool open = c->kind == OPEN;
  const char *conversation = open ? open_conversation : c->kind == CLOSED ? closed_conversation : NULL;
  size_t bytes = conversation == NULL ? 0 : strlen(conversation);
  make_request(&c->request, options.port, conversation, bytes, &c->wish, ++request_number);
  message_begin(&c->answer, false);
  c->line_bytes = 0;
  c->next_token = 0;
  c->done_seen = c->finish_seen = false;
  if (!c->busy) in_flight++;
  c->busy = true;
  c->sent_ns = now_ns();
  if (c->reused) send_rest(c); /* a new socket sends once it is connected */
}

/* ── answers ── */

static void check_token(struct connection *c, const char *mark) {
  unsigned id, number;
  unsigned long long stamp_ns;
  if (sscanf(mark, "~%5u.%7u@%20llu", &id, &number, &stamp_ns) != 3) {
    note_error(&errors.crossed, "token unreadable:", mark, 40);
    return;
  }
  if (id != c->wish.id) note_error(&errors.crossed, "token of another stream:", mark, 40);
  else if (number > c->next_token) note_error(&errors.lost, "token lost before", mark, 40);
  else if (number + 1 == c->next_token) note_error(&errors.doubled, "token doubled:", mark, 40);
  else if (number < c->next_token) note_error(&errors.reordered, "token out of order:", mark, 40);
  if (number >= c->next_token) c->next_token = number + 1;
  if (number == 0 && c->kind == OPEN && in_window(c->sent_ns)) samples_add(&first_token, arrival_ns - c->sent_ns);
  if (c->kind != STREAM || !in_window(arrival_ns)) return;
  samples_add(&token_latency, arrival_ns - stamp_ns);
  tokens_of_streams++;
}

static void read_line(struct connection *c, const char *line, size_t bytes) {
  if (bytes < 6 || memcmp(line, "data:", 5) != 0) return;
  const char *mark = memchr(line, '~', bytes);
  if (mark != NULL) check_token(c, mark);
  else if (memmem(line, bytes, "[DONE]", 6) != NULL) c->done_seen = true;
  else if (memmem(line, bytes, "\"error\"", 7) != NULL) note_error(&errors.status, "error event:", line, bytes);
  else if (memmem(line, bytes, "\"length\"", 8) != NULL) c->finish_seen = true;
}

/* The stream's own lines; a line cut by a read or by a chunk waits in the connection. */
static void read_body(void *context, const char *data, size_t bytes) {
  struct connection *c = context;
  if (c->answer.status != 200) {
    note_error(&errors.status, "status:", c->answer.head, strcspn(c->answer.head, "\r"));
    return;
  }
  if (c->wish.tokens == 0) return;
  for (const char *end = data + bytes; data < end;) {
    const char *newline = memchr(data, '\n', (size_t)(end - data));
    size_t part = (size_t)((newline != NULL ? newline : end) - data);
    if (newline != NULL && c->line_bytes == 0) {
      read_line(c, data, part);
    } else if (c->line_bytes + part < MAX_LINE_BYTES) {
      if (c->line == NULL) c->line = malloc(MAX_LINE_BYTES + 1);
      memcpy(c->line + c->line_bytes, data, part);
      c->line_bytes += part;
      c->line[c->line_bytes] = 0;
      if (newline != NULL) read_line(c, c->line, c->line_bytes);
    }
    if (newline != NULL) c->line_bytes = 0;
    data += part + 1;
  }
}

static void start_stream(unsigned number);

static void release_connection(struct connection *c) {
  c->busy = false;
  in_flight--;
  if (c->kind == STREAM || c->answer.close_after) {
    close_connection(c);
    return;
  }
  c->next = idle;
  idle = c;
}

static void end_answer(struct connection *c) {
  uint64_t took_ns = arrival_ns - c->sent_ns;
  bool counts = in_window(arrival_ns) && c->answer.status == 200;
  if (c->answer.status == 200 && c->wish.tokens > 0) {
    if (c->next_token != c->wish.tokens) note_error(&errors.lost, "stream ended early", "", 0);
    if (!c->done_seen || !c->finish_seen) note_error(&errors.cut, "stream ended without finish or [DONE]", "", 0);
  }
  if (c->kind == OPEN && counts) open_answers++, samples_add(&open_latency, took_ns);
  if (c->kind == CLOSED && counts) closed_answers++, samples_add(&closed_latency, took_ns);
  bool goes_on = (c->kind == CLOSED || (c->kind == STREAM && options.again)) && arrival_ns < window_to_ns;
  if (goes_on && !c->answer.close_after) {
    c->reused = true;
    begin_request(c);
    return;
  }
  unsigned number = c->wish.id;
  release_connection(c);
  if (goes_on && c->kind == STREAM) start_stream(number);
}

/* A kept connection that the other side closed: an idle one is only forgotten; a request that just went out on it goes again. */
static void meet_end(struct connection *c) {
  if (!c->busy) {
    for (struct connection **at = &idle; *at != NULL; at = &(*at)->next)
      if (*at == c) {
        *at = c->next;
        break;
      }
    close_connection(c);
    return;
  }
  if (c->reused && c->answer.state == AT_HEAD && c->answer.head_bytes == 0) {
    stale++;
    close(c->fd);
    c->reused = false;
    c->request.sent_bytes = 0;
    if (open_socket(c)) return;
  }
  if (c->answer.state == AT_CLOSE && c->kind != STREAM) {
    c->answer.close_after = true;
    end_answer(c);
    return;
  }
  note_error(&errors.cut, "connection closed in an answer", "", 0);
  close_connection(c);
}

static void read_connection(struct connection *c) {
  static char buffer[262144];
  ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
  arrival_ns = now_ns();
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    meet_end(c);
    return;
  }
  if (!c->busy) {
    note_error(&errors.crossed, "bytes without a request", buffer, (size_t)got);
    return;
  }
  uint64_t before = tokens_of_streams;
  size_t used = message_feed(&c->answer, buffer, (size_t)got, read_body, c);
  if (tokens_of_streams > before) reads_with_tokens++;
  if (c->answer.failed || used < (size_t)got) {
    note_error(&errors.cut, "answer unreadable", "", 0);
    close_connection(c);
  } else if (c->answer.state == AT_END) {
    end_answer(c);
  }
}

/* ── starting what is due ── */

static void start_stream(unsigned number) {
  struct connection *c = take_connection(STREAM);
  if (c == NULL) return;
  double lasts_s = (double)(window_to_ns - now_ns()) / 1e9 + 0.15;
  unsigned tokens = options.tokens > 0 ? options.tokens : (unsigned)(options.rate * lasts_s) + 2;
  c->wish = (struct wish){.id = number, .tokens = tokens, .rate = options.rate, .sync = options.sync, .spread = options.spread};
  begin_request(c);
}

static void start_open(void) {
  static uint32_t seed = 88172645u;
  struct connection *c = in_flight < MAX_IN_FLIGHT ? take_connection(OPEN) : NULL;
  if (in_flight >= MAX_IN_FLIGHT) note_error(&errors.overflow, "too many requests in flight", "", 0);
  if (c != NULL) {
    c->wish = (struct wish){.id = request_number % 100000, .tokens = options.open_tokens, .rate = 1000};
    begin_request(c);
  }
  seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
  next_open_ns += (uint64_t)(1e9 / options.open_rate * (0.5 + seed / 4294967296.0));
}

static uint64_t stream_start_ns(unsigned number) {
  return start_ns + (uint64_t)(options.ramp_s * 1e9 * number / options.streams);
}

/* Starts what is due and returns the moment of what comes next. */
static uint64_t start_due(void) {
  uint64_t now = now_ns();
  for (; streams_started < options.streams && stream_start_ns(streams_started) <= now; streams_started++) start_stream(streams_started);
  while (options.open_rate > 0 && next_open_ns <= now && now < window_to_ns) start_open();
  for (int edge = 0; edge < 2; edge++)
    if (readings[edge].at_ns == 0 && now >= (edge == 0 ? window_from_ns : window_to_ns)) readings[edge] = take_reading(&options.watch);
  uint64_t next = now < window_from_ns ? window_from_ns : now < window_to_ns ? window_to_ns : window_to_ns + GRACE_NS;
  if (streams_started < options.streams && stream_start_ns(streams_started) < next) next = stream_start_ns(streams_started);
  if (options.open_rate > 0 && now < window_to_ns && next_open_ns < next) next = next_open_ns;
  return next;
}

static bool all_done(void) {
  uint64_t now = now_ns();
  if (readings[1].at_ns == 0) return false;
  return (streams_open == 0 && in_flight == 0) || now >= window_to_ns + GRACE_NS;
}

/* ── what is printed ── */

static void print_result(void) {
  const struct reading *from = &readings[0], *to = &readings[1];
  printf("{\"windowSeconds\":%.4f,\"tokens\":%llu,\"readsWithTokens\":%llu,\"openAnswers\":%llu,\"closedAnswers\":%llu,\"stale\":%llu,",
         (double)(to->at_ns - from->at_ns) / 1e9, (unsigned long long)tokens_of_streams, (unsigned long long)reads_with_tokens,
         (unsigned long long)open_answers, (unsigned long long)closed_answers, (unsigned long long)stale);
  samples_print(&token_latency, "tokenLatencyMicros"), printf(",");
  samples_print(&first_token, "firstTokenMicros"), printf(",");
  samples_print(&open_latency, "openLatencyMicros"), printf(",");
  samples_print(&closed_latency, "closedLatencyMicros");
  printf(",\"errors\":{\"lost\":%llu,\"doubled\":%llu,\"reordered\":%llu,\"crossed\":%llu,\"status\":%llu,\"refused\":%llu,\"cut\":%llu,\"unfinished\":%llu,\"overflow\":%llu},\"firstError\":\"",
         (unsigned long long)errors.lost, (unsigned long long)errors.doubled, (unsigned long long)errors.reordered, (unsigned long long)errors.crossed,
         (unsigned long long)errors.status, (unsigned long long)errors.refused, (unsigned long long)errors.cut, (unsigned long long)errors.unfinished,
         (unsigned long long)errors.overflow);
  for (const char *at = first_error; *at != 0; at++)
    if (*at >= ' ' && *at != '"' && *at != '\\') putchar(*at);
  printf("\",\"proxyCpuMicros\":%.1f,\"proxyWaitMicros\":%.1f,\"backendCpuMicros\":%.1f,\"clientCpuMicros\":%.1f,"
         "\"proxyCoreBusyMicros\":%.0f,\"loadCoreBusyMicros\":%.0f,\"stealMicros\":%.0f,\"proxyRssKb\":%llu}\n",
         (double)(to->proxy_cpu_ns - from->proxy_cpu_ns) / 1e3, (double)(to->proxy_wait_ns - from->proxy_wait_ns) / 1e3,
         (double)(to->backend_cpu_ns - from->backend_cpu_ns) / 1e3, (double)(to->client_cpu_ns - from->client_cpu_ns) / 1e3,
         (double)(to->proxy_core_busy_ns - from->proxy_core_busy_ns) / 1e3, (double)(to->load_core_busy_ns - from->load_core_busy_ns) / 1e3,
         (double)(to->steal_ns - from->steal_ns) / 1e3, (unsigned long long)to->proxy_rss_kb);
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (options.open_bytes > 0) open_conversation = make_conversation(options.open_bytes);
  if (options.closed_bytes > 0) closed_conversation = make_conversation(options.closed_bytes);
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &timer_fd});
  start_ns = next_open_ns = now_ns();
  window_from_ns = start_ns + (uint64_t)((options.ramp_s + options.warmup_s) * 1e9);
  window_to_ns = window_from_ns + (uint64_t)(options.window_s * 1e9);
  for (unsigned i = 0; i < options.closed; i++) {
    struct connection *c = take_connection(CLOSED);
    if (c != NULL) begin_request(c);
  }
  arm_timer(timer_fd, start_due());
  while (!all_done()) {
    struct epoll_event events[256];
    int count = epoll_wait(epoll_fd, events, 256, -1);
    bool tick = false;
    for (int i = 0; i < count; i++) {
      struct connection *c = events[i].data.ptr;
      if (events[i].data.ptr == &timer_fd) {
        tick = true;
        continue;
      }
      if (!c->closed && (events[i].events & ~(uint32_t)EPOLLOUT) != 0) read_connection(c);
      else if (!c->closed && (events[i].events & EPOLLOUT) != 0) send_rest(c);
    }
    if (tick) arm_timer(timer_fd, start_due());
    free_dead();
  }
  errors.unfinished = in_flight;
  print_result();
  return 0;
}
