/*
 * clones - marks loops that are compiled plain and with AVX2: the CPU chooses at load time.
 *
 * Not with sanitizers: the choice is made by an indirect function, whose resolver runs before they
 * are ready. Not with clang, whose attribute differs. In a library such a function must be static:
 * it would be exported although the library hides everything else.
 */
#ifndef CADRE_COMMON_TENSOR_CLONES_H
#define CADRE_COMMON_TENSOR_CLONES_H

#include <stdint.h> /* and with it __GLIBC__ */

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&                            \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CADRE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CADRE_CLONES
#endif

#endif
