/* What the client sends: small chat requests, and large ones shaped like a long conversation. A request is three parts,
 * so that hundreds of large ones in flight share one copy of the conversation: its own beginning, the shared middle, its own end. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

struct request {
  char begin[640], end[512];
  size_t begin_bytes, middle_bytes, end_bytes, sent_bytes;
  const char *middle;
};

/* What the backend is asked to do; see backend.c. tokens 0: an answer that is not streamed. */
struct wish {
  unsigned id, tokens;
  double rate;
  bool sync, spread;
};

/* About `bytes` of JSON: messages of a few kilobytes each, words with escaped line ends and quotes between. */
static char *make_conversation(size_t bytes) {
  static const char *const words[] = {"cache ", "prefix ", "of a ", "token, ", "the engine ", "\\n\\n", "\\\"quoted\\\" ", "and then ", "block ", "measured. ", "queue ", "slowly ", "42 "};
  char *text = malloc(bytes + 8192);
  size_t at = 0, in_message = 0;
  uint32_t seed = 2463534242u;
  if (text == NULL) abort();
  for (unsigned turn = 0; at < bytes; turn++) {
    at += (size_t)sprintf(text + at, "{\"role\":\"%s\",\"content\":\"", turn % 2 == 0 ? "user" : "assistant");
    for (in_message = 0; in_message < 6000 && at < bytes; ) {
      seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
      size_t word = (size_t)sprintf(text + at, "%s", words[seed % 13]);
      at += word, in_message += word;
    }
    at += (size_t)sprintf(text + at, "\"},");
  }
  text[at] = 0;
  return text;
}

static void make_request(struct request *r, int port, const char *conversation, size_t conversation_bytes, const struct wish *wish, unsigned number) {
  static const char opening[] = "{\"model\":\"bench\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant. Answer briefly.\"},";
  r->end_bytes = (size_t)snprintf(r->end, sizeof r->end,
      "{\"role\":\"user\",\"content\":\"Question %u: warmlane-bench id=%u rate=%g tokens=%u sync=%d first=0 spread=%d\"}],\"max_tokens\":%u,\"temperature\":0%s}",
      number, wish->id, wish->rate, wish->tokens, wish->sync, wish->spread, wish->tokens > 0 ? wish->tokens : 16, wish->tokens > 0 ? ",\"stream\":true" : "");
  r->middle = conversation;
  r->middle_bytes = conversation_bytes;
  r->begin_bytes = (size_t)snprintf(r->begin, sizeof r->begin,
      "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bench\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
      port, sizeof opening - 1 + r->middle_bytes + r->end_bytes, opening);
  r->sent_bytes = 0;
}

static size_t request_bytes(const struct request *r) { return r->begin_bytes + r->middle_bytes + r->end_bytes; }

/* The unsent rest as buffers for writev; returns how many. */
static int unsent_parts(struct request *r, struct iovec parts[3]) {
  const struct iovec all[3] = {{r->begin, r->begin_bytes}, {(char *)r->middle, r->middle_bytes}, {r->end, r->end_bytes}};
  size_t skip = r->sent_bytes;
  int count = 0;
  for (int i = 0; i < 3; i++) {
    if (skip >= all[i].iov_len) {
      skip -= all[i].iov_len;
      continue;
    }
    parts[count].iov_base = (char *)all[i].iov_base + skip;
    parts[count++].iov_len = all[i].iov_len - skip;
    skip = 0;
  }
  return count;
}

#endif
