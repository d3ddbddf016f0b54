/*
 * kernels - the operations on a CUDA device: one function per op that enqueues its kernels.
 *
 * Plain functions without state. Every function only enqueues on `stream` (a cudaStream_t) and
 * returns: no allocation, no wait, no copy to or from the host, nothing that a stream capture
 * refuses. What a kernel is launched with (pointers, sizes, grid) depends only on the operands, so
 * that a captured graph can be replayed: what changes from run to run is in device memory.
 *
 * The meaning of each op is that of the CPU device (cpu.h), to rounding; every sum has a fixed
 * order, so that the same run gives the same bits. An output may be the same memory as an input of
 * the ops that plan.c lets work in place; no other overlap occurs. Offsets are 64 bits wide.
 *
 * Each returns 0, or CADRE_EDEVICE when the launch was refused (cudaGetLastError); the text is the
 * caller's to make. Outputs without elements launch nothing.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_KERNELS_H
#define CADRE_WORKER_DEVICE_CUDA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "worker/device/plan.h"

/* For an index out of range, a take of positions [B, ..] stores CADRE_CUDA_FAULT_ROW plus the
 * row of the batch as the fault. Several threads may store one: chance says whose stays, and
 * each names a row that has an index out of range. */
enum { CADRE_CUDA_FAULT_ROW = 2 };

/* A step of a plan, and where in memory its inputs and its output are. The structs are in host
 * memory and read before a function returns; fields marked "device" point to device memory. */
typedef struct {
    const cadre_plan_step_t *step;
    const cadre_plan_value_t *out;
    void *out_data; /* device */
    const cadre_plan_value_t *inputs[CADRE_OP_INPUTS_MAX];
    const void *data[CADRE_OP_INPUTS_MAX]; /* device */
    const cadre_chain_t *chain;            /* of a chain, else NULL */
    const uint64_t *seed;                  /* device: of the closure */
    int32_t *fault;                        /* device: 0; a kernel that meets an index out of range
                                              stores 1 (a take what CADRE_CUDA_FAULT_ROW says) and
                                              leaves that index out */
    void *scratch; /* device: cadre_cuda_scratch_size_bytes() bytes, aligned to 256, undefined */
} cadre_cuda_operands_t;

/* Returns the bytes of scratch memory that the step needs; 0 for most. Does not use the pointers in
 * `operands`. All steps of a plan share one scratch memory, as they run one after the other. */
size_t cadre_cuda_scratch_size_bytes(const cadre_cuda_operands_t *operands);

/* Declares cadre_cuda_map1 and so on, a function for each op that is a step; MATMUL is in matmul.h.
 * RAND gives the numbers of cadre_random_fill_uniform, bit for bit. */
#define ROW(NAME, number, word, ...)                                                               \
    int cadre_cuda_##word(const cadre_cuda_operands_t *operands, void *stream);
CADRE_OP_ELEMENT_LIST(ROW)
CADRE_OP_KERNEL_LIST(ROW)
#undef ROW

/* Runs a chain (CADRE_STEP_CHAIN) in one pass, with the bits that its links would give as steps. */
int cadre_cuda_chain(const cadre_cuda_operands_t *operands, void *stream);

/* ---- kernels that stand for no op of a program; all pointers are to device memory ---- */

/* Stores 1 in *flag when one of `count` numbers is NaN or its absolute value exceeds `limit`;
 * otherwise does not write the flag. */
int cadre_cuda_check_limit(const float *x, int64_t count, float limit, int32_t *flag, void *stream);

/* Convert to bf16, rounding to nearest, ties to even, and from bf16. The first stores 1 in
 * *not_finite when a result is infinite or NaN. */
int cadre_cuda_to_bf16(const float *x, uint16_t *out, int64_t count, int32_t *not_finite,
                       void *stream);
int cadre_cuda_from_bf16(const uint16_t *x, float *out, int64_t count, void *stream);

#ifdef __cplusplus
}
#endif
#endif
