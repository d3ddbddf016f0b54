/*
 * cpu_trial - whether OpenBLAS gets its memory, before a closure depends on it.
 *
 * OpenBLAS takes a buffer for each thread that is inside of it, and when it gets none it asks
 * again, for ever and without a word: the slot hangs, its worker's heartbeats go on. So the limit
 * is looked at when a worker starts, and a device multiplies once under a deadline when it is
 * opened.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_TRIAL_H
#define CADRE_WORKER_DEVICE_CPU_TRIAL_H

#include <stdint.h>

enum {
    CADRE_BLAS_BUFFER_SIZE = 128 << 20, /* address space of one buffer, as Debian builds OpenBLAS */
    CADRE_THREAD_SPACE_SIZE =
        136 << 20, /* what else a thread reserves: its stack, an arena of malloc's */
    CADRE_WORKER_SPACE_SIZE =
        512 << 20, /* what a worker reserves beside its slots: threads, rows, values */
    CADRE_BLAS_TRIAL_MS =
        20000, /* for one multiplication of 256 x 256: under 1 ms on an idle machine */
};

/* Multiplies two small matrices on a thread of its own. CADRE_ENOMEMORY, with a text that says
 * where memory is limited, when it has not ended after `timeout_ms`; the thread then runs on, and
 * exit() may wait for it: the process is to end with _exit. */
int cadre_cpu_trial(int64_t timeout_ms);

/* CADRE_ENOMEMORY when the limit of the address space (ulimit -v) leaves no room for `callers`
 * threads with their buffers, and for the rest of a worker, beside what is used already. Seen: with
 * 600 MB two slots ran for a while, then one hung. */
int cadre_cpu_room(uint32_t callers);

#endif
