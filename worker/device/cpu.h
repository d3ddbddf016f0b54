/*
 * cpu - the operations as plain loops, and OpenBLAS for matmul.
 *
 * Plain functions without state. Loops are written so that the compiler vectorises them
 * (cpu_vector.h; CMakeLists.txt sets the flags), and shared with the pool's threads where they are
 * long. Sums are cut into blocks by their length alone, so that their order, and with it every bit,
 * is the same with any number of threads. An output may be the same memory as an input of the ops
 * that plan.c lets work in place; no other overlap occurs.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_H
#define CADRE_WORKER_DEVICE_CPU_H

#include "worker/device/cpu_pool.h"
#include "worker/device/element.h"
#include "worker/device/plan.h"

/* A step of a plan, and where in memory its inputs and its output are. */
typedef struct {
    const cadre_plan_step_t *step;
    const cadre_chain_t *chain; /* of a step that is a chain; else unused */
    const cadre_plan_value_t *out;
    void *out_data;
    const cadre_plan_value_t *inputs[CADRE_OP_INPUTS_MAX];
    const void *data[CADRE_OP_INPUTS_MAX];
    void *scratch;          /* cadre_cpu_scratch_size_bytes() bytes, aligned to 64, undefined */
    uint64_t seed;          /* of the closure */
    cadre_cpu_pool_t *pool; /* threads that share loops; NULL: the calling thread computes alone */
} cadre_operands_t;

/* Bytes of scratch memory that a step of the plan needs; 0 for most. */
size_t cadre_cpu_scratch_size_bytes(const cadre_plan_t *plan, const cadre_plan_step_t *step);

enum {
    CADRE_CPU_BLOCK = 512, /* elements that are worked on together: a few such blocks stay in the L1
                              cache */

    /* The smallest share of a loop that a thread is woken for, in additions: some 50 us with
     * AVX-512, at 0.1 ns each. So two threads share a loop that takes one of them 100 us. Measured
     * (docs/performance.md): loops of 11 to 30 us got 1.2 to 2.6 times slower by sharing, loops of
     * 60 to 95 us changed by less than a tenth, loops of 160 us and more got faster. */
    CADRE_CPU_PART_COST = 1 << 19,
};

/* What an element function reads: with step 1 consecutive numbers, with step 0 one number for all
 * elements. */
typedef struct {
    const cadre_real_t *data;
    int64_t step;
} cadre_cpu_source_t;

/* Computes one link of a chain for `count` elements. MAP1 takes a source with step 1 only: its
 * input has the shape of its output. `out` may be the memory of a source whose step is 1. */
void cadre_cpu_link(const cadre_chain_link_t *link, cadre_real_t *out,
                    const cadre_cpu_source_t *const sources[3], int64_t count);

/* Runs one step; fails with CADRE_EDATA for a label or an index out of range. */
int cadre_cpu_step(const cadre_operands_t *operands);

/* Declares cadre_cpu_matmul and so on, a function for each op that is a step; each returns what
 * cadre_cpu_step returns. */
#define ROW(NAME, number, word, ...) int cadre_cpu_##word(const cadre_operands_t *operands);
CADRE_OP_PRODUCT_LIST(ROW)
CADRE_OP_KERNEL_LIST(ROW)
#undef ROW

/* Run a step of element operations: a single one; a comparison of i32; a chain of several. */
int cadre_cpu_element(const cadre_operands_t *operands);
void cadre_cpu_compare(const cadre_operands_t *operands);
int cadre_cpu_chain(const cadre_operands_t *operands);

/* Run a step of f64 or i64: map2 or where; a reduction of [outer, size, inner] over `size`. */
void cadre_cpu_wide_element(const cadre_operands_t *operands);
void cadre_cpu_wide_reduce(const cadre_operands_t *operands, int64_t outer, int64_t size,
                           int64_t inner);

/* Converts `count` numbers from bf16. */
void cadre_cpu_from_bf16(cadre_real_t *out, const void *x, int64_t count);

#endif
