/*
 * clones - marks loops that are compiled plain and with AVX2: the CPU chooses at load time.
 *
 * The choice is an indirect function, whose resolver runs before a sanitizer is ready; clang has
 * another notion of it. A function with clones would be exported even by a library that hides all
 * else: outside of programs it is static.
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
