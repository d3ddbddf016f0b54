/*
 * cpu_vector - macros that mark the CPU device's inner loops for the compiler's vectoriser.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_VECTOR_H
#define CADRE_WORKER_DEVICE_CPU_VECTOR_H

#include <stdint.h> /* and with it __GLIBC__ */

#include "common/base/uninitialized.h"

/* A function that is compiled for several instruction sets; the best that the machine has is chosen
 * when the program is loaded. What the function calls must be inlined into it. Not with sanitizers:
 * the choice is made by an indirect function, whose resolver runs before they are ready. Not with
 * clang, whose attribute differs. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CADRE_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CADRE_VECTOR
#endif

/* A loop whose iterations touch different elements, also when output and input are the same memory:
 * lets gcc vectorise without checks for overlap. clang decides by itself: asked to, it would warn
 * of every loop that calls the math library. */
#if defined(__clang__)
#define CADRE_INDEPENDENT
#else
#define CADRE_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* A helper of CADRE_VECTOR functions, compiled into each of them. */
#define CADRE_INLINED static inline __attribute__((always_inline))

#endif
