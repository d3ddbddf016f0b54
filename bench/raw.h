/*
 * raw - a bare ZeroMQ DEALER and ROUTER in two processes: what the transport can do without Cadre.
 *
 * Owner:   a section.
 * Thread:  main's.
 *
 * The peer is this program again (`cadre-bench --peer ADDRESS`), in a loop that receives, replies
 * with as many bytes as the request asks for, and never looks at the payload. Both ends send large
 * frames without copying them.
 */
#ifndef CADRE_BENCH_RAW_H
#define CADRE_BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"

typedef struct cadre_bench_raw cadre_bench_raw_t;

/* The frames of one request and of its answer: a header, then chunks of one size. Without a
 * reply_header_size there is no answer, but to the last request. */
typedef struct {
    size_t header_size; /* CADRE_BENCH_RAW_HEADER_MIN at least */
    size_t chunk_size;
    size_t chunk_count;
    size_t reply_header_size;
    size_t reply_chunk_size;
    size_t reply_chunk_count;
} cadre_bench_exchange_t;

enum {
    CADRE_BENCH_RAW_HEADER_MIN = 24,
    CADRE_BENCH_RAW_CHUNK_MAX = 1 << 20,
};

/* Starts the peer, which connects to us: over tcp on loopback, or over ipc. */
int cadre_bench_raw_open(cadre_bench_t *bench, bool over_tcp, cadre_bench_raw_t **out);
void cadre_bench_raw_close(cadre_bench_raw_t **self_p);

/* Makes `count` exchanges with at most `window` of them unanswered; gives the seconds it took. */
int cadre_bench_raw_run(cadre_bench_raw_t *self, const cadre_bench_exchange_t *exchange,
                        size_t count, size_t window, double *seconds);

/* The peer's life; returns when the socket breaks, which is never. */
int cadre_bench_raw_peer(const char *address);

#endif
