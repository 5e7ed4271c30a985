/* Model server stand-in for the bench: one thread, epoll. It answers every POST, streamed when the body says
 * `"stream": true`, with chunks in vLLM's shape, one per token, each holding the moment of its sending
 * (CLOCK_MONOTONIC, ns), the stream's number and the token's own. It computes nothing, so a proxy's cost is all there is to see.
 *
 * What a stream does is asked for inside the prompt, the only place that every proxy passes on:
 *   warmlane-bench id=7 rate=50 tokens=400 sync=0 first=0 spread=1
 * rate: tokens/s · sync=1: all streams tick together, on multiples of 1/rate of the clock · first: ms until the role chunk
 * spread=1: the first tick comes at a share of the interval that the id chooses, so that streams don't tick together.
 *
 * usage: backend PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "native/answers.h"
#include "native/clock.h"
#include "native/message.h"
#include "native/tick-heap.h"

#define MAX_BODY_BYTES (16u << 20)
#define MAX_UNSENT_BYTES (4u << 20)
#define KEPT_BODY_BYTES 65536u

struct connection {
  struct tick tick; /* first: the heap's pointers are cast back */
  int fd;
  bool closed, watching_out, streaming, usage, started;
  struct message request;
  char *body;
  size_t body_bytes, body_room;
  char *unsent;
  size_t unsent_bytes, unsent_room;
  uint64_t interval_ns;
  unsigned id, next_token, tokens;
  struct connection *next_dead;
};

static struct connection *dead;
static int epoll_fd, timer_fd;
static struct { uint64_t tokens, late_ns, latest_ns, dropped; } sent;

/* ── sending ── */

static void watch_out(struct connection *c, bool out) {
  struct epoll_event event = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
  c->watching_out = out;
}

/* The memory goes at the end of the loop's turn: an event of this turn may still point here. */
static void close_connection(struct connection *c) {
  if (c->closed) return;
  if (c->streaming) heap_remove(&c->tick);
  c->streaming = false;
  c->closed = true;
  close(c->fd);
  c->next_dead = dead;
  dead = c;
}

static void keep_unsent(struct connection *c, const char *data, size_t bytes) {
  if (c->unsent_bytes + bytes > MAX_UNSENT_BYTES) {
    sent.dropped++;
    close_connection(c);
    return;
  }
  if (c->unsent_bytes + bytes > c->unsent_room) {
    c->unsent_room = (c->unsent_bytes + bytes) * 2;
    c->unsent = realloc(c->unsent, c->unsent_room);
    if (c->unsent == NULL) abort();
  }
  memcpy(c->unsent + c->unsent_bytes, data, bytes);
  c->unsent_bytes += bytes;
  if (!c->watching_out) watch_out(c, true);
}

static void send_bytes(struct connection *c, const char *data, size_t bytes) {
  if (c->closed) return;
  ssize_t done = 0;
  if (c->unsent_bytes == 0) {
    done = send(c->fd, data, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN) {
      close_connection(c);
      return;
    }
    if (done < 0) done = 0;
  }
  if ((size_t)done < bytes) keep_unsent(c, data + done, bytes - (size_t)done);
}

static void send_unsent(struct connection *c) {
  ssize_t done = send(c->fd, c->unsent, c->unsent_bytes, MSG_NOSIGNAL);
  if (done < 0 && errno != EAGAIN) close_connection(c);
  if (done <= 0) return;
  c->unsent_bytes -= (size_t)done;
  memmove(c->unsent, c->unsent + done, c->unsent_bytes);
  if (c->unsent_bytes == 0) watch_out(c, false);
}

static void send_answer(struct connection *c, const char *status, const char *type, const char *text) {
  char answer[4096];
  int bytes = snprintf(answer, sizeof answer,
                       "HTTP/1.1 %s\r\nserver: uvicorn\r\ncontent-type: %s\r\ncontent-length: %zu\r\n\r\n%s", status, type,
                       strlen(text), text);
  send_bytes(c, answer, (size_t)bytes);
}

/* One event as one chunk of the chunked coding. */
static void send_event(struct connection *c, const char *event, const char *after) {
  char chunk[2048];
  int bytes = snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n%s", strlen(event), event, after);
  send_bytes(c, chunk, (size_t)bytes);
}

/* ── one stream ── */

/* The token's event is printed once; later tokens only get their digits. */
static char token_chunk[1024];
static size_t token_bytes, id_at, token_at;

static void prepare_token_chunk(void) {
  char event[900];
  int bytes = snprintf(event, sizeof event, TOKEN_EVENT, 0u, 0u, 0u, 0ull);
  token_bytes = (size_t)snprintf(token_chunk, sizeof token_chunk, "%x\r\n%s\r\n", (unsigned)bytes, event);
  id_at = (size_t)(strstr(token_chunk, "chatcmpl-") + 9 - token_chunk);
  token_at = (size_t)(strchr(token_chunk, '~') + 1 - token_chunk);
}

static void put_digits(char *at, int width, uint64_t value) {
  for (int i = width - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
}

static void send_token(struct connection *c) {
  put_digits(token_chunk + id_at, 16, c->id);
  put_digits(token_chunk + token_at, 5, c->id);
  put_digits(token_chunk + token_at + 6, 7, c->next_token++);
  uint64_t at_ns = now_ns();
  put_digits(token_chunk + token_at + 14, 20, at_ns);
  send_bytes(c, token_chunk, token_bytes);
  uint64_t late_ns = at_ns > c->tick.due_ns ? at_ns - c->tick.due_ns : 0;
  sent.tokens++;
  sent.late_ns += late_ns;
  if (late_ns > sent.latest_ns) sent.latest_ns = late_ns;
}

static void send_role(struct connection *c) {
  char event[600];
  snprintf(event, sizeof event, ROLE_EVENT, c->id);
  send_event(c, event, "");
  c->started = true;
}

static void next_request(struct connection *c);

static void send_end(struct connection *c) {
  char event[600];
  snprintf(event, sizeof event, FINISH_EVENT, c->id);
  send_event(c, event, "");
  if (c->usage) {
    snprintf(event, sizeof event, USAGE_EVENT, c->id, 32 + c->tokens, c->tokens);
    send_event(c, event, "");
  }
  send_event(c, "data: [DONE]\n\n", "0\r\n\r\n");
  if (c->closed) return;
  heap_remove(&c->tick);
  c->streaming = false;
  next_request(c);
}

/* Sends what is due, at most a few hundred tokens, then lets the sockets speak again. */
static void send_due(void) {
  for (int turn = 0; turn < 512 && heap_count > 0 && heap[0]->due_ns <= now_ns(); turn++) {
    struct connection *c = (struct connection *)heap[0];
    if (!c->started) send_role(c);
    if (!c->closed) send_token(c);
    if (c->closed) continue;
    if (c->next_token >= c->tokens) {
      send_end(c);
    } else {
      c->tick.due_ns += c->interval_ns;
      heap_settle(&c->tick);
    }
  }
  arm_timer(timer_fd, heap_count > 0 ? heap[0]->due_ns : 0);
}

/* ── one request ── */

/* Finds `needle` near the end of a large body first: there the prompt's last words and the options stand. */
static const char *find_in_body(const struct connection *c, const char *needle) {
  size_t tail = c->body_bytes < 2048 ? c->body_bytes : 2048;
  const char *found = memmem(c->body + c->body_bytes - tail, tail, needle, strlen(needle));
  return found != NULL ? found : memmem(c->body, c->body_bytes, needle, strlen(needle));
}

static bool says_true(const struct connection *c, const char *key) {
  const char *at = find_in_body(c, key);
  if (at == NULL) return false;
  at += strlen(key);
  while (*at == ' ' || *at == ':') at++;
  return strncmp(at, "true", 4) == 0;
}

static double asked(const char *wish, const char *key, double otherwise) {
  const char *end = wish != NULL ? strpbrk(wish, "\"\\") : NULL;
  const char *at = wish != NULL ? strstr(wish, key) : NULL;
  return at != NULL && (end == NULL || at < end) ? strtod(at + strlen(key), NULL) : otherwise;
}

static void start_stream(struct connection *c) {
  const char *wish = find_in_body(c, "warmlane-bench ");
  double rate = fmax(asked(wish, " rate=", 50), 0.001);
  c->id = (unsigned)asked(wish, " id=", 0) % 100000;
  c->tokens = (unsigned)fmax(asked(wish, " tokens=", 16), 1);
  c->usage = says_true(c, "\"include_usage\"");
  c->interval_ns = (uint64_t)(NS_PER_SECOND / rate);
  c->tick.due_ns = now_ns() + (uint64_t)(asked(wish, " first=", 0) * 1e6);
  if (asked(wish, " sync=", 0) > 0)
    c->tick.due_ns += c->interval_ns - c->tick.due_ns % c->interval_ns;
  else if (asked(wish, " spread=", 0) > 0)
    c->tick.due_ns += (uint64_t)(fmod(c->id * 0.6180339887498949, 1.0) * (double)c->interval_ns);
  c->next_token = 0;
  c->started = false;
  if (heap_count == MAX_STREAMS) {
    send_answer(c, "503 Service Unavailable", "application/json", "{\"error\":{\"message\":\"too many streams\",\"type\":\"server_error\",\"code\":503}}");
    next_request(c);
    return;
  }
  send_bytes(c, stream_head, sizeof stream_head - 1);
  if (c->closed) return;
  c->streaming = true;
  heap_add(&c->tick);
  send_due();
}

/* How late this program sent its tokens since the last such question: a late backend is a bad clock. */
static void answer_lateness(struct connection *c) {
  char text[200];
  snprintf(text, sizeof text, "{\"tokens\":%llu,\"meanLateMicros\":%.1f,\"maxLateMicros\":%.1f,\"dropped\":%llu}",
           (unsigned long long)sent.tokens, sent.tokens > 0 ? (double)sent.late_ns / (double)sent.tokens / 1000.0 : 0.0,
           (double)sent.latest_ns / 1000.0, (unsigned long long)sent.dropped);
  memset(&sent, 0, sizeof sent);
  send_answer(c, "200 OK", "application/json", text);
}

static bool asks_for(const struct connection *c, const char *path) {
  const char *space = strchr(c->request.head, ' ');
  size_t length = strlen(path);
  return space != NULL && strncmp(space + 1, path, length) == 0 && (space[1 + length] == ' ' || space[1 + length] == '?');
}

static void answer_get(struct connection *c) {
  if (asks_for(c, "/health") || asks_for(c, "/ping")) send_answer(c, "200 OK", "text/plain", "");
  else if (asks_for(c, "/v1/models")) send_answer(c, "200 OK", "application/json", models);
  else if (asks_for(c, "/version")) send_answer(c, "200 OK", "application/json", "{\"version\":\"0.32.0\"}");
  else if (asks_for(c, "/metrics")) send_answer(c, "200 OK", "text/plain; version=0.0.4", metrics);
  else if (asks_for(c, "/bench/lateness")) answer_lateness(c);
  else send_answer(c, "404 Not Found", "application/json", "{\"detail\":\"Not Found\"}");
}

static void answer_request(struct connection *c) {
  if (strncmp(c->request.head, "POST ", 5) != 0) {
    answer_get(c);
    next_request(c);
  } else if (c->body_bytes > 0 && says_true(c, "\"stream\"")) {
    start_stream(c);
  } else {
    send_answer(c, "200 OK", "application/json", completion);
    next_request(c);
  }
}

static void next_request(struct connection *c) {
  if (c->request.close_after) shutdown(c->fd, SHUT_WR);
  if (c->body_room > KEPT_BODY_BYTES) {
    free(c->body);
    c->body = NULL;
    c->body_room = 0;
  }
  c->body_bytes = 0;
  message_begin(&c->request, true);
}

static void keep_body(void *context, const char *data, size_t bytes) {
  struct connection *c = context;
  if (c->body_bytes + bytes > MAX_BODY_BYTES) {
    c->request.failed = true;
    return;
  }
  if (c->body_bytes + bytes + 1 > c->body_room) {
    c->body_room = (c->body_bytes + bytes + 1) * 2;
    c->body = realloc(c->body, c->body_room);
    if (c->body == NULL) abort();
  }
  memcpy(c->body + c->body_bytes, data, bytes);
  c->body_bytes += bytes;
  c->body[c->body_bytes] = 0;
}

/* ── sockets ── */

static void read_connection(struct connection *c) {
  static char buffer[262144];
  ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
  if (got < 0 && errno == EAGAIN) return;
  /* Bytes during a stream would be a pipelined request; none of the proxies sends one. */
  if (got <= 0 || c->streaming) {
    close_connection(c);
    return;
  }
  for (size_t at = 0; at < (size_t)got && !c->closed;) {
    at += message_feed(&c->request, buffer + at, (size_t)got - at, keep_body, c);
    if (c->request.failed) close_connection(c);
    else if (c->request.state == AT_END) answer_request(c);
  }
}

static void accept_connections(int listener) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *c = calloc(1, sizeof *c);
    if (c == NULL) abort();
    c->fd = fd;
    message_begin(&c->request, true);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
  }
}

static void free_dead(void) {
  while (dead != NULL) {
    struct connection *c = dead;
    dead = c->next_dead;
    free(c->request.head);
    free(c->body);
    free(c->unsent);
    free(c);
  }
}

static int listen_on(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 4096) < 0) {
    perror("backend: listen");
    exit(1);
  }
  return fd;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: backend PORT\n");
    return 2;
  }
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prepare_token_chunk();
  int listener = listen_on(atoi(argv[1]));
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &listener});
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &timer_fd});
  for (;;) {
    struct epoll_event events[256];
    int count = epoll_wait(epoll_fd, events, 256, -1);
    bool tick = false;
    for (int i = 0; i < count; i++) {
      struct connection *c = events[i].data.ptr;
      if (events[i].data.ptr == &listener) accept_connections(listener);
      else if (events[i].data.ptr == &timer_fd) tick = true;
      else {
        if (!c->closed && (events[i].events & EPOLLOUT) != 0) send_unsent(c);
        if (!c->closed && (events[i].events & ~(uint32_t)EPOLLOUT) != 0) read_connection(c);
      }
    }
    if (tick) send_due();
    free_dead();
  }
}
