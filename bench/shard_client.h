/*
 * shard_client - a real cadre-ps, and this process in the parts of its coordinator and of a worker.
 *
 * Owner:   the values section.
 * Thread:  main's.
 *
 * Only what a ps needs to serve: HELLO is answered, one RESTORE and a CREATE per variable are sent;
 * heartbeats are received and dropped. Requests are sent as worker/core/worker_values.c sends them,
 * a window of them unanswered at a time.
 */
#ifndef CADRE_BENCH_SHARD_CLIENT_H
#define CADRE_BENCH_SHARD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/bench.h"
#include "common/spec/optimizer_spec.h"
#include "worker/core/row_cache.h"

typedef struct cadre_bench_shard_client cadre_bench_shard_client_t;

/* Starts the ps, with so many lanes (0: as it chooses), and begins a session with it: values travel
 * over tcp on loopback, or over ipc. */
int cadre_bench_shard_client_open(cadre_bench_t *bench, int lanes, bool over_tcp,
                                  cadre_bench_shard_client_t **out);
void cadre_bench_shard_client_close(cadre_bench_shard_client_t **self_p);

/* Creates variable `variable` (its id, from 1) of `size_bytes` bytes of f32, a multiple of 4 KiB,
 * in one partition, with the optimizer `kind` (sgd or adam); with `bf16` it travels as
 * bf16. */
int cadre_bench_shard_client_create(cadre_bench_shard_client_t *self, uint64_t variable,
                                    size_t size_bytes, cadre_optimizer_kind_t kind, bool bf16);

/* Pulls the whole variable `count` times, or pushes `count` updates of all of it, with at most
 * `window` requests unanswered. */
int cadre_bench_shard_client_pull(cadre_bench_shard_client_t *self, uint64_t variable, size_t count,
                                  size_t window);
int cadre_bench_shard_client_push(cadre_bench_shard_client_t *self, uint64_t variable, size_t count,
                                  size_t window);

/* Creates table `variable` of rows of `dim` f32, updated by sgd. */
int cadre_bench_shard_client_create_table(cadre_bench_shard_client_t *self, uint64_t variable,
                                          uint32_t dim);

/* Some rows of a table. */
typedef struct {
    uint64_t variable;
    uint32_t dim;
    size_t count;
    const uint64_t *keys; /* [count]; to be pushed they ascend */
} cadre_bench_rows_t;

/* Pulls the rows `times` times, as many in one message as it takes, or pushes them `updates` times,
 * with at most `window` requests unanswered. `*seconds`: from the first request to the last answer,
 * without making up what is pushed. */
int cadre_bench_shard_client_pull_rows(cadre_bench_shard_client_t *self,
                                       const cadre_bench_rows_t *rows, size_t times, size_t window);
/* Pulls the rows as a worker does that keeps what `kept` keeps, and adds to *size_bytes what
 * travelled of ids, ages, bits and rows. */
int cadre_bench_shard_client_pull_kept(cadre_bench_shard_client_t *self,
                                       const cadre_bench_rows_t *rows, cadre_row_cache_t *kept,
                                       size_t window, size_t *size_bytes);
int cadre_bench_shard_client_push_rows(cadre_bench_shard_client_t *self,
                                       const cadre_bench_rows_t *rows, size_t updates,
                                       size_t window, double *seconds);

#endif
