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

/* OpenBLAS's product of two square matrices, added up into `out`: for cpu_trial.c. */
void cadre_cpu_multiply(const cadre_real_t *left, const cadre_real_t *right, cadre_real_t *out,
                        int width);

/* One step with its memory found. */
typedef struct {
    const cadre_plan_step_t *step;
    const cadre_chain_t *chain; /* of CADRE_STEP_CHAIN */
    const cadre_plan_value_t *out;
    void *out_data;
    const cadre_plan_value_t *inputs[CADRE_OP_INPUTS_MAX];
    const void *data[CADRE_OP_INPUTS_MAX];
    void *scratch;          /* cadre_cpu_scratch_size_bytes(), aligned to 64, no content */
    uint64_t seed;          /* of the closure */
    cadre_cpu_pool_t *pool; /* or NULL: the calling thread does it all */
} cadre_operands_t;

/* Bytes of scratch memory that a step of the plan needs; 0 for most. */
size_t cadre_cpu_scratch_size_bytes(const cadre_plan_t *plan, const cadre_plan_step_t *step);

enum {
    CADRE_CPU_BLOCK = 512, /* elements that are worked on together: a few such stay in the
                              first-level cache */

    /* A thread's share of a loop, at least, in additions: some 50 us with AVX-512, at 0.1 ns. Two
     * threads share what takes one of them 100 us. Measured there (docs/performance.md): loops of
     * 11 to 30 us got 1.2 to 2.6 times slower by sharing, of 60 to 95 us neither slower nor faster
     * by more than a tenth, of 160 us and more faster. */
    CADRE_CPU_PART_COST = 1 << 19,
};

/* What an element function reads: neighbours, or with step 0 one number again and again. */
typedef struct {
    const cadre_real_t *data;
    int64_t step;
} cadre_cpu_source_t;

/* One link of a chain. MAP1 reads neighbours only: its input
 * has the shape of its output. `out` may be the data of a source whose step is 1. */
void cadre_cpu_link(const cadre_chain_link_t *link, cadre_real_t *out,
                    const cadre_cpu_source_t *const sources[3], int64_t count);

/* Runs one step; CADRE_EDATA for a label or an index out of range. */
int cadre_cpu_step(const cadre_operands_t *operands);

/* cadre_cpu_matmul and so on: one for each op that is a step. What cadre_cpu_step returns. */
#define ROW(NAME, number, word, ...) int cadre_cpu_##word(const cadre_operands_t *operands);
CADRE_OP_PRODUCT_LIST(ROW)
CADRE_OP_KERNEL_LIST(ROW)
#undef ROW

/* All CADRE_OP_ELEMENT, among them the comparisons of i32; several in one step. */
int cadre_cpu_element(const cadre_operands_t *operands);
void cadre_cpu_compare(const cadre_operands_t *operands);
int cadre_cpu_chain(const cadre_operands_t *operands);

/* The numbers of `count` bf16. */
void cadre_cpu_from_bf16(cadre_real_t *out, const void *x, int64_t count);

/* Sets how many threads OpenBLAS uses, for the whole process: all its slots share one pool. */
void cadre_cpu_set_threads(int threads);

#endif
