/*
 * cpu_trial - checks that OpenBLAS gets its memory, before a closure depends on it.
 *
 * OpenBLAS allocates a buffer for each thread that calls it, and when that fails it tries again,
 * for ever and without a message: the slot hangs while the worker's heartbeats go on. So the limit
 * of the address space is checked when a worker starts, and a device multiplies once, under a
 * deadline, when it is opened.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_TRIAL_H
#define CADRE_WORKER_DEVICE_CPU_TRIAL_H

#include <stdint.h>

enum {
    CADRE_BLAS_BUFFER_SIZE = 128 << 20, /* address space of one buffer, as Debian builds OpenBLAS */
    CADRE_THREAD_SPACE_SIZE =
        136 << 20, /* address space that a thread reserves beside that buffer: its stack, a
                      malloc arena */
    CADRE_WORKER_SPACE_SIZE =
        512 << 20, /* address space of a worker beside its slots: threads, rows, values */
    CADRE_BLAS_TRIAL_MS =
        20000, /* deadline of the trial product, which takes under 1 ms on an idle machine */
};

/* Multiplies two small matrices on a thread of its own, by OpenBLAS, which is loaded. Fails with
 * CADRE_ENOMEMORY, and a text that says where memory is limited, when that has not ended after
 * `timeout_ms`. The thread then goes on, and exit() may wait for it: the process has to end with
 * _exit. */
int cadre_cpu_trial(int64_t timeout_ms);

/* Fails with CADRE_ENOMEMORY when the limit of the address space (ulimit -v) leaves no room for
 * `callers` threads with their buffers and for the rest of a worker, beside what is used already.
 * With 600 MB two slots were seen to run for a while before one hung. */
int cadre_cpu_room(uint32_t callers);

#endif
