#include "common/system/float_mode.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* Makes the calling thread treat subnormal numbers, operands and results, as 0: arithmetic on them
 * is a hundred times slower. On ARM64 one bit does both. */
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

/* Returns the floating-point mode of the calling thread; 0 on other CPUs. */
uint64_t
cadre_float_mode(void)
{
    uint64_t mode = 0;
#if defined(__SSE2__)
    mode = _mm_getcsr();
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
#endif
    return mode;
}

/* Sets the floating-point mode of the calling thread, as cadre_float_mode returned it. */
void
cadre_float_mode_set(uint64_t mode)
{
#if defined(__SSE2__)
    _mm_setcsr((unsigned)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}
