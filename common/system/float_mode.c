#include "common/system/float_mode.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <stdint.h>
#endif

void
cadre_flush_subnormals(void)
{
#if defined(__SSE2__)
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#elif defined(__aarch64__)
    const uint64_t flush_to_zero = UINT64_C(1) << 24;
    uint64_t mode = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | flush_to_zero));
#endif
}
