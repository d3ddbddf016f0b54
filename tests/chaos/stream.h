/*
 * stream - one direction of a connection through the proxy: what was read and not yet written.
 *
 * Bounded: a stream that is full reads no more, so that the sender feels it as it would feel a slow
 * network. What was read while a delay was set is written that much later.
 *
 * Owner:   a connection of the proxy.
 * Thread:  the proxy's.
 */
#ifndef CADRE_TESTS_CHAOS_STREAM_H
#define CADRE_TESTS_CHAOS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STREAM_BLOCKS = 16, STREAM_BLOCK_SIZE = 16384 };

/* What the network does to one direction. Zero: nothing. */
typedef struct {
    bool stalled;             /* nothing gets through, and nobody is told */
    int64_t delay_ms;         /* on its way */
    int64_t bytes_per_second; /* 0: as many as there are */
} stream_rule_t;

typedef struct {
    size_t size;
    size_t written;
    int64_t due_ms;
    unsigned char bytes[STREAM_BLOCK_SIZE];
} stream_block_t;

typedef struct {
    stream_block_t *blocks; /* a ring of STREAM_BLOCKS */
    int first;
    int count;
    int64_t free_ms; /* when the throttle lets the next byte through */
    bool ended;      /* the sender has said that nothing follows */
    bool passed_on;  /* and the receiver knows */
} stream_t;

void stream_init(stream_t *self);
void stream_fini(stream_t *self);

/* Whether it would read, and whether it would write, now. */
bool stream_wants_input(const stream_t *self, const stream_rule_t *rule);
bool stream_wants_output(const stream_t *self, const stream_rule_t *rule, int64_t now_ms);

/* When it may want to write, INT64_MAX when that does not depend on the time. */
int64_t stream_due_ms(const stream_t *self, const stream_rule_t *rule, int64_t now_ms);

/* Reads, or writes, once; neither blocks. False when the connection is broken. */
bool stream_read(stream_t *self, int fd, const stream_rule_t *rule, int64_t now_ms);
bool stream_write(stream_t *self, int fd, const stream_rule_t *rule, int64_t now_ms);

#endif
