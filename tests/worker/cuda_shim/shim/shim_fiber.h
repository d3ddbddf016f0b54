/*
 * shim_fiber - a stack of its own for each thread of a block, and the switch from one to another.
 *
 * Owner:   shim.c.
 * Thread:  the one that launches.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_SHIM_FIBER_H
#define CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_SHIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

typedef struct {
#ifdef __x86_64__
    void *top; /* of its stack while it does not run: its registers */
#else
    ucontext_t context;
#endif
    const void *stack; /* stays mapped; NULL before the first use */
    size_t stack_size;
    void *fake_stack; /* AddressSanitizer's */
    bool begun;
} shim_fiber_t;

/* Where a fiber begins; never returns. */
typedef void shim_fiber_main_t(void);

/* Makes `self` begin in `entry` when it is switched to; a thread it was in the midst of is left. */
void shim_fiber_begin(shim_fiber_t *self, shim_fiber_main_t *entry);

/* Runs `to` in place of `from`, the running one, until that is switched to again. `from` may be the
 * thread's own stack: zeroed at first. */
void shim_fiber_switch(shim_fiber_t *from, shim_fiber_t *to);

/* First words of `entry`: where it came from, `launcher`, is a thread's own stack if it is the
 * first fiber of all. */
void shim_fiber_entered(shim_fiber_t *launcher);

#endif
