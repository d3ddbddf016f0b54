#include "bench/apply_loops.h"

#include <math.h>

/* The same instructions as ps/core/values/optimizer_kernel.c may use. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOOP __attribute__((target_clones("avx2", "default")))
#else
#define LOOP
#endif

LOOP void
cadre_bench_loop_sgd(size_t count, const float *restrict gradient, float *restrict value,
                     float rate)
{
    for (size_t i = 0; i < count; i++) {
        value[i] -= rate * gradient[i];
    }
}

LOOP void
cadre_bench_loop_adam(size_t count, const float *restrict gradient, float *restrict value,
                      float *moments[2], float rate)
{
    float *restrict first = moments[0];
    float *restrict second = moments[1];
    for (size_t i = 0; i < count; i++) {
        first[i] += (gradient[i] - first[i]) * 0.1F;
        second[i] += (gradient[i] * gradient[i] - second[i]) * 0.001F;
        value[i] -= first[i] * rate / (sqrtf(second[i]) + 1e-7F);
    }
}
