/*
 * device - runs programs: on the CPU, or on what a module brings (device_module.h).
 *
 * A device is opened once per process. A slot runs one closure at a time on the device; it has an
 * arena (memory for intermediate values) and prepared plans. Running the same program again, with
 * arguments of the same shapes, allocates nothing.
 *
 * Owner:   the worker.
 * Thread:  a device may be shared. A slot is used by one thread at a time; different slots of one
 *          device run at the same time on different threads, and may share a program.
 */
#ifndef CADRE_WORKER_DEVICE_DEVICE_H
#define CADRE_WORKER_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "common/graph/program.h"

typedef struct cadre_device cadre_device_t;
typedef struct cadre_slot cadre_slot_t;

typedef struct {
    const char *name; /* "cpu", "cuda:N" ("cuda" is "cuda:0"), or "auto": "cuda:0" if that can be
                         opened, otherwise "cpu" */
    int threads; /* threads that compute on the host, at least 1; a worker takes the number from
                         its cgroup quota. It holds for the whole process: OpenBLAS has one pool */
    const char *math; /* how a device with several ways multiplies matrices: "f32" (NULL), "tf32" or
                         "bf16" */
} cadre_device_options_t;

/* Opens a device. Fails with CADRE_EINVALID for another name or math; CADRE_ENOTFOUND when the
 * module of the device is not installed; CADRE_EUNAVAILABLE when the machine has no such device,
 * driver or library (the text says which, and what to do); CADRE_EPROTOCOL for a module of
 * another build. */
int cadre_device_open_with(const cadre_device_options_t *options, cadre_device_t **out);

/* Opens a device with default options; fails as cadre_device_open_with. */
int cadre_device_open(const char *name, int threads, cadre_device_t **out);

/* Opens a device that consists of the given functions, instead of finding these by name: for
 * tests. */
struct cadre_device_functions;
int cadre_device_open_functions(const struct cadre_device_functions *functions,
                                const cadre_device_options_t *options, cadre_device_t **out);

/* Closes a device, all slots of which must have been closed. */
void cadre_device_close(cadre_device_t **self_p);

/* Returns how many GPUs this process could open, 0 where module, driver or GPU is missing. */
int cadre_device_gpu_count(void);

/* Returns the device's name for logs and the coordinator, and what computes there: "cpu SkylakeX",
 * by the kernels of OpenBLAS (blas.h), or "cuda:0 NVIDIA H200 f32". */
const char *cadre_device_name(const cadre_device_t *self);

/* Returns why "auto" has opened the CPU although a module is installed; NULL otherwise. */
const char *cadre_device_excuse(const cadre_device_t *self);

/* Allocate and free host memory that the device copies from and to fastest (pinned), aligned to 64
 * bytes, not zeroed. Any thread may free it, before the device is closed. */
void *cadre_device_memory_new(cadre_device_t *self, size_t size_bytes);
void cadre_device_memory_free(cadre_device_t *self, void *memory);

/* Allocate and free memory of the device itself, for values that stay there from run to run
 * (`resident` of a run); undefined until written. Fails with CADRE_ENOMEMORY or CADRE_EDEVICE, and
 * with CADRE_EUNAVAILABLE on a device without such memory. It must be freed before the device is
 * closed; freeing NULL is harmless. */
int cadre_device_buffer_new(cadre_device_t *self, size_t size_bytes, void **out);
void cadre_device_buffer_free(cadre_device_t *self, void *buffer);

/* Copy from and to the host, while no run uses the buffer. */
int cadre_device_buffer_write(cadre_device_t *self, void *buffer, const void *from,
                              size_t size_bytes);
int cadre_device_buffer_read(cadre_device_t *self, const void *buffer, void *to, size_t size_bytes);

/* Switches for tests only: each turns off a way of saving time or memory, so that a test can
 * compare results with and without it. All are false on a worker. */
typedef struct {
    bool no_reuse;  /* every value gets its own memory */
    bool no_chains; /* every element operation is a step of its own */
    bool no_fusion; /* no step runs as the epilogue of a matrix product (plan_fuse.h) */
    bool no_graph;  /* a device that records runs (CUDA graphs) enqueues each step instead */
    bool poison;    /* the arena is filled with NaN before each run */
} cadre_device_checks_t;

/* Zeroed fields give the defaults. */
typedef struct {
    size_t memory_size_max; /* bytes of one slot's arena; beyond it CADRE_ENOMEMORY. 0: 16 GiB
                               on the CPU, elsewhere what the device has */
    int plans_max;          /* prepared plans kept; 0: 16 */
    cadre_device_checks_t checks;
} cadre_slot_options_t;

/* Opens a slot of a device, which must outlive it; `options` may be NULL for the defaults. */
int cadre_slot_open(cadre_device_t *device, const cadre_slot_options_t *options,
                    cadre_slot_t **out);
void cadre_slot_close(cadre_slot_t **self_p);

/* What one run reads and writes. All pointers are borrowed for the call. */
typedef struct {
    const cadre_program_t *program;
    const cadre_tensor_t *arguments; /* in the program's order */
    int argument_count;
    const void *const *variables;         /* values of each variable, contiguous, program's order */
    const cadre_dtype_t *variable_dtypes; /* dtype of each variable's values: that which it has in
                                             the program, or, of one of f32, one that
                                             cadre_slot_takes accepts; NULL: all as in the
                                             program */
    const uint64_t *versions; /* content number of each variable's values: no other content of any
                                 variable had it in an earlier run of the slot, so values that are
                                 on the device under it are not copied again; 0: unknown; NULL: all
                                 unknown */
    int64_t rows;             /* what the symbol for rows of a row program stands for, at least 1
                     (common/graph/row_program.h); other programs have none */
    uint64_t seed;            /* of the closure: the same in each of its attempts */
    void *const *gradients; /* per push: room for the variable's values, contiguous, into which the
                                 gradient is written. May overlap nothing else. */
    const cadre_dtype_t *gradient_dtypes; /* dtype of each gradient, as variable_dtypes; rounded as
                                             by from_f32 of the dtype (common/tensor/dtype.h) */
    bool *not_finite; /* per push: set to true where a gradient in another dtype than f32 holds
                                infinity or NaN, else not written; NULL when all are f32 */
    cadre_tensor_t *results; /* per result: initialised on success, ended by the caller */
    bool resident; /* arguments, variables and gradients, none of them bf16, are in device buffers
                      (cadre_device_buffer_new): only results are copied to the host */
} cadre_slot_run_t;

/* Runs the program and waits until gradients and results are written. On failure there are no
 * results and the gradients' content is undefined. Fails with CADRE_EINVALID, CADRE_ESHAPE or
 * CADRE_EDTYPE for arguments that do not fit the program, CADRE_EDATA for a label or an index out
 * of range, CADRE_ENOMEMORY, CADRE_ETOOLARGE when a value or all results are too large,
 * CADRE_EDEVICE when the device is lost for this process. NaN and infinity are no failure, and
 * propagate. */
int cadre_slot_run(cadre_slot_t *self, const cadre_slot_run_t *run);

/* Run a program in two steps, so that the caller can do something else between them. What `run`
 * points to must not change until cadre_slot_wait, which the caller calls after every start that
 * returned 0, and which returns the run's status. A slot has one run at a time. The CPU computes in
 * cadre_slot_start, on the calling thread. */
int cadre_slot_start(cadre_slot_t *self, const cadre_slot_run_t *run);
int cadre_slot_wait(cadre_slot_t *self);

/* Returns the bytes of device memory that the slot's runs use. */
size_t cadre_slot_arena_size_bytes(const cadre_slot_t *self);

/* Returns whether runs of the slot can read variables of f32, and write their gradients, in this
 * dtype; in f32 they always can. A run with a dtype that the slot does not take fails with
 * CADRE_EDTYPE. */
bool cadre_slot_takes(const cadre_slot_t *self, cadre_dtype_t dtype);

/* Returns what native functions enqueue their work on, a cudaStream_t; NULL without streams. */
void *cadre_slot_stream(cadre_slot_t *self);

#endif
