/*
 * blas - products of matrices by OpenBLAS, which is loaded when it is needed.
 *
 * A program that links libcadre may never open a CPU device, and OpenBLAS takes 36 MB and starts a
 * thread for each CPU when it is loaded: before main, those threads would take the signals that the
 * program blocks in order to read them.
 *
 * OpenBLAS has kernels for many processors, and takes those of the Prescott of 2004 for one that is
 * newer than itself: 0.3.21, which Debian 12 has, multiplies so on an Emerald Rapids, with SSE3 and
 * a quarter of the speed. Where it does and the processor has AVX2 or AVX-512, it is loaded again,
 * with the kernels of a Haswell or a SkylakeX. OPENBLAS_CORETYPE in the environment has the last
 * word: with it nothing is chosen here.
 *
 * Owner:   the process: library, threads and kernels are the same for all devices.
 * Thread:  any.
 */
#ifndef CADRE_WORKER_DEVICE_BLAS_H
#define CADRE_WORKER_DEVICE_BLAS_H

#include <stdbool.h>

#include "worker/device/element.h"

/* Loads OpenBLAS where this process has not yet: before the functions below are used. Has
 * OPENBLAS_CORETYPE in the environment of the process for as long as it loads it again.
 * CADRE_EUNAVAILABLE, with the loader's reason. */
int cadre_blas_load(void);

/* Returns the processor whose kernels OpenBLAS uses, by its own name: "SkylakeX". Products of other
 * kernels may differ in their last bits. */
const char *cadre_blas_kernels(void);

/* Has products computed by so many threads, of the whole process. Returns how many there were. */
int cadre_blas_set_threads(int threads);

/* out [m, n] = left [m, inner], or its transpose, times right [inner, n], or its transpose; row by
 * row in memory. */
typedef struct {
    int m;
    int n;
    int inner;
    bool transpose_left;
    bool transpose_right;
} cadre_blas_product_t;

/* Multiplies two matrices; `out` is neither of them. */
void cadre_blas_multiply(const cadre_blas_product_t *product, const cadre_real_t *left,
                         const cadre_real_t *right, cadre_real_t *out);

#endif
