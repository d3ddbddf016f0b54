/*
 * divider - division by a number that is the same for all threads.
 *
 * A GPU divides integers in some twenty instructions, which take longer than memory in element
 * kernels with several axes. Below 2^31 a multiplication and a shift give the quotient (Granlund
 * and Montgomery, "Division by invariant integers using multiplication", PLDI 1994); beyond, plain
 * division is used.
 *
 * Plain data, made on the host.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_DIVIDER_CUH
#define CADRE_WORKER_DEVICE_CUDA_DIVIDER_CUH

#include "worker/device/cuda/launch.cuh"

/* For numerators and divisors below 2^31. */
struct divider32_t {
    typedef uint32_t index_t;
    uint32_t divisor;
    uint32_t multiplier;
    uint32_t shift;
};

struct divider64_t {
    typedef uint64_t index_t;
    uint64_t divisor;
};

static inline void
divider_init(divider32_t *self, int64_t divisor)
{
    self->divisor = static_cast<uint32_t>(divisor);
    self->shift = 0;
    while ((UINT64_C(1) << self->shift) < self->divisor) {
        self->shift++;
    }
    uint64_t power = UINT64_C(1) << self->shift;
    self->multiplier = static_cast<uint32_t>(((power - self->divisor) << 32) / self->divisor + 1);
}

static inline void
divider_init(divider64_t *self, int64_t divisor)
{
    self->divisor = static_cast<uint64_t>(divisor);
}

/* Returns *number divided by the divisor, and leaves the remainder in *number. */
static __device__ __forceinline__ uint32_t
divide(const divider32_t &self, uint32_t *number)
{
    uint32_t quotient = (__umulhi(*number, self.multiplier) + *number) >> self.shift;
    *number -= quotient * self.divisor;
    return quotient;
}

static __device__ __forceinline__ uint64_t
divide(const divider64_t &self, uint64_t *number)
{
    uint64_t quotient = *number / self.divisor;
    *number -= quotient * self.divisor;
    return quotient;
}

#endif
