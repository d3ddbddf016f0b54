/*
 * uninitialized - a mark for locals that are written before they are read, and too large to be
 * zeroed each time for hardening (cmake/CadreCompiler.cmake).
 */
#ifndef CADRE_COMMON_BASE_UNINITIALIZED_H
#define CADRE_COMMON_BASE_UNINITIALIZED_H

#define CADRE_UNINITIALIZED __attribute__((uninitialized))

#endif
