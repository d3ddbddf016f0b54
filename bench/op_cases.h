/*
 * op_cases - the operations that are measured: how each is built, the loop that it is compared to,
 * and the shape of what it gives.
 *
 * Plain data.
 */
#ifndef CADRE_BENCH_OP_CASES_H
#define CADRE_BENCH_OP_CASES_H

#include <stddef.h>

#include <cadre/program.h>

#include "bench/op_loops.h"

enum {
    CADRE_BENCH_ROWS = 256, /* a matrix is 512 KiB: one and its result are in a second-level cache
                               of 1 MiB, none in the first */
    CADRE_BENCH_COLUMNS = 512,
    CADRE_BENCH_CLASSES = 10,
};

/* What an operation is built from. Its result is pushed as a gradient, which the device writes
 * where it is wanted: nothing is allocated or copied. */
typedef struct {
    cadre_program_t *p;
    cadre_node_t x;
    cadre_node_t y; /* above 0 */
    cadre_node_t z;
    cadre_node_t row;
    cadre_node_t column; /* [rows, 1] */
} cadre_bench_place_t;

typedef struct {
    const char *name;
    cadre_node_t (*build)(const cadre_bench_place_t *at);
    cadre_bench_loop_t *loop;
    int columns; /* of the matrices */
    int rank;    /* of the result */
    int64_t shape[4];
} cadre_bench_op_t;

extern const cadre_bench_op_t cadre_bench_ops_list[];
extern const size_t cadre_bench_op_count;

#endif
