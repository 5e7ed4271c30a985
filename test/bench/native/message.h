/* Incremental HTTP/1.1 message reader, shared by backend (requests) and client (responses).
 * It finds the head, the end of the body and the body's bytes, whatever the cuts between reads. It trusts its peers
 * to frame well and is no validating parser: a frame that it can't follow sets `failed`. */
#ifndef BENCH_MESSAGE_H
#define BENCH_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_HEAD_BYTES 8191

enum message_state { AT_HEAD, AT_LENGTH, AT_CHUNK_SIZE, AT_CHUNK_DATA, AT_CHUNK_END, AT_TRAILER, AT_CLOSE, AT_END };

struct message {
  enum message_state state;
  bool is_request, failed, close_after;
  int status;           /* of a response */
  uint64_t left_bytes;  /* of the body or of the running chunk */
  unsigned line_bytes;  /* of the size or trailer line being read */
  unsigned head_bytes;
  char *head;           /* allocated on first use, kept for the connection's life */
};

typedef void body_reader(void *context, const char *data, size_t bytes);

static void message_begin(struct message *m, bool is_request) {
  char *head = m->head;
  memset(m, 0, sizeof *m);
  m->head = head != NULL ? head : malloc(MAX_HEAD_BYTES + 1);
  m->is_request = is_request;
}

/* Value of a header in the finished head, or NULL. `name` is given as "\r\nname:". */
static const char *message_header(const struct message *m, const char *name) {
  const char *found = strcasestr(m->head, name);
  if (found == NULL) return NULL;
  found += strlen(name);
  while (*found == ' ') found++;
  return found;
}

static void message_read_head(struct message *m) {
  m->head[m->head_bytes] = 0;
  if (!m->is_request) m->status = m->head_bytes > 12 ? atoi(m->head + 9) : 0;
  if (!m->is_request && m->status >= 100 && m->status < 200) {
    m->head_bytes = 0;
    return;
  }
  const char *connection = message_header(m, "\r\nconnection:");
  const char *coding = message_header(m, "\r\ntransfer-encoding:");
  const char *length = message_header(m, "\r\ncontent-length:");
  m->close_after = connection != NULL && strncasecmp(connection, "close", 5) == 0;
  if (m->status == 204 || m->status == 304) {
    m->state = AT_END;
  } else if (coding != NULL && strncasecmp(coding, "chunked", 7) == 0) {
    m->state = AT_CHUNK_SIZE;
  } else if (length != NULL) {
    m->left_bytes = strtoull(length, NULL, 10);
    m->state = m->left_bytes > 0 ? AT_LENGTH : AT_END;
  } else {
    m->state = m->is_request ? AT_END : AT_CLOSE;
  }
}

/* Takes head bytes up to and including the blank line. */
static size_t message_take_head(struct message *m, const char *data, size_t bytes) {
  size_t room = MAX_HEAD_BYTES - m->head_bytes;
  size_t copied = bytes < room ? bytes : room;
  memcpy(m->head + m->head_bytes, data, copied);
  size_t from = m->head_bytes > 3 ? m->head_bytes - 3 : 0;
  char *end = memmem(m->head + from, m->head_bytes + copied - from, "\r\n\r\n", 4);
  if (end == NULL) {
    m->head_bytes += (unsigned)copied;
    m->failed = m->head_bytes >= MAX_HEAD_BYTES;
    return copied;
  }
  unsigned whole = (unsigned)(end + 4 - m->head);
  size_t taken = whole - m->head_bytes;
  m->head_bytes = whole;
  message_read_head(m);
  return taken;
}

/* One byte of a chunk-size line, of the CRLF after a chunk, or of the trailer section. */
static void message_take_framing(struct message *m, char byte) {
  if (m->state == AT_CHUNK_SIZE) {
    if (byte == '\n') {
      m->state = m->left_bytes > 0 ? AT_CHUNK_DATA : AT_TRAILER;
      m->line_bytes = 0;
    } else if (byte != '\r' && m->line_bytes < 16) {
      int digit = byte >= '0' && byte <= '9' ? byte - '0' : (byte | 32) >= 'a' && (byte | 32) <= 'f' ? (byte | 32) - 'a' + 10 : -1;
      if (digit >= 0) {
        m->left_bytes = m->left_bytes * 16 + (uint64_t)digit;
        m->line_bytes++;
      } else if (m->line_bytes > 0 && byte == ';') {
        m->line_bytes = 16; /* an extension: skip to the end of the line */
      } else {
        m->failed = true;
      }
    }
  } else if (m->state == AT_CHUNK_END) {
    if (byte == '\n') m->state = AT_CHUNK_SIZE;
    m->failed |= byte != '\r' && byte != '\n';
    m->left_bytes = m->line_bytes = 0;
  } else if (byte == '\n') {
    if (m->line_bytes == 0) m->state = AT_END;
    m->line_bytes = 0;
  } else if (byte != '\r') {
    m->line_bytes++;
  }
}

/* Reads on until the message ends, fails, or the data do. Returns the bytes consumed. */
static size_t message_feed(struct message *m, const char *data, size_t bytes, body_reader *read_body, void *context) {
  size_t at = 0;
  while (at < bytes && m->state != AT_END && !m->failed) {
    if (m->state == AT_HEAD) {
      at += message_take_head(m, data + at, bytes - at);
    } else if (m->state == AT_LENGTH || m->state == AT_CHUNK_DATA || m->state == AT_CLOSE) {
      size_t part = bytes - at;
      if (m->state != AT_CLOSE && part > m->left_bytes) part = m->left_bytes;
      read_body(context, data + at, part);
      at += part;
      m->left_bytes -= m->state == AT_CLOSE ? 0 : part;
      if (m->left_bytes == 0 && m->state == AT_LENGTH) m->state = AT_END;
      if (m->left_bytes == 0 && m->state == AT_CHUNK_DATA) m->state = AT_CHUNK_END;
    } else {
      message_take_framing(m, data[at++]);
    }
  }
  return at;
}

#endif
