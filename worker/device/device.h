/*
 * device - runs programs: on the CPU, or on what a module brings (device_module.h).
 *
 * A device is opened once per process. A slot is the place of one closure in progress on it: its
 * arena, its prepared plans. Running the same program with arguments of the same shapes again
 * allocates nothing.
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
    const char *name; /* "cpu", "cuda:N" ("cuda" is "cuda:0"), or "auto": "cuda:0" if this machine
                         can, otherwise "cpu" */
    int threads;      /* that compute on the host, at least 1; the worker derives it from the cgroup
                         quota. The count is the process's: OpenBLAS has one pool */
    const char *math; /* how a device with several ways multiplies matrices: "f32" (NULL), "tf32" or
                         "bf16" */
} cadre_device_options_t;

/* CADRE_EINVALID for another name or math; CADRE_ENOTFOUND when the module of the device is
 * nowhere; CADRE_EUNAVAILABLE when the machine has no such device, driver or library: the text says
 * which, and what to do; CADRE_EPROTOCOL for a module of another build. */
int cadre_device_open_with(const cadre_device_options_t *options, cadre_device_t **out);

/* The same with the defaults for the rest. */
int cadre_device_open(const char *name, int threads, cadre_device_t **out);

/* A device of other functions than those found by name: for tests. */
struct cadre_device_functions;
int cadre_device_open_functions(const struct cadre_device_functions *functions,
                                const cadre_device_options_t *options, cadre_device_t **out);

/* All its slots must have been closed. */
void cadre_device_close(cadre_device_t **self_p);

/* As logs and the coordinator see it: "cpu", "cuda:0 NVIDIA H200 f32". */
const char *cadre_device_name(const cadre_device_t *self);

/* Why "auto" is not something better than the CPU; NULL when nothing was to be said. */
const char *cadre_device_excuse(const cadre_device_t *self);

/* Host memory that the device copies from and to fastest, aligned to 64 bytes, not zeroed. Any
 * thread may free it, before the device is closed. */
void *cadre_device_memory_new(cadre_device_t *self, size_t size_bytes);
void cadre_device_memory_free(cadre_device_t *self, void *memory);

/* Memory of the device itself, for what stays there from run to run (`resident` of a run). What is
 * in it is undefined until it is written. CADRE_ENOMEMORY, CADRE_EDEVICE; CADRE_EUNAVAILABLE on a
 * device that keeps nothing. Freed before the device is closed; freeing NULL is harmless. */
int cadre_device_buffer_new(cadre_device_t *self, size_t size_bytes, void **out);
void cadre_device_buffer_free(cadre_device_t *self, void *buffer);

/* Copies from and to the host, while no run uses the buffer. */
int cadre_device_buffer_write(cadre_device_t *self, void *buffer, const void *from,
                              size_t size_bytes);
int cadre_device_buffer_read(cadre_device_t *self, const void *buffer, void *to, size_t size_bytes);

/* Switches for tests alone, which compare what a device does to save time or memory with what it
 * does without. No program of ours sets one: all are false on a worker. */
typedef struct {
    bool no_reuse;  /* every value gets its own memory */
    bool no_chains; /* every element operation is a step of its own */
    bool no_fusion; /* what may run as part of a matrix product does not */
    bool no_graph;  /* a device that records its runs enqueues each step instead */
    bool poison;    /* the arena is filled with NaN before each run */
} cadre_device_checks_t;

/* Zeroed fields give the defaults. */
typedef struct {
    size_t memory_size_max; /* bytes of one slot's arena; beyond it CADRE_ENOMEMORY. 0: 16 GiB
                               on the CPU, elsewhere what the device has */
    int plans_max;          /* prepared plans kept; 0: 8 */
    cadre_device_checks_t checks;
} cadre_slot_options_t;

/* `options` may be NULL. `device` must outlive the slot. */
int cadre_slot_open(cadre_device_t *device, const cadre_slot_options_t *options,
                    cadre_slot_t **out);
void cadre_slot_close(cadre_slot_t **self_p);

/* What one run reads and writes. All pointers are borrowed for the call. */
typedef struct {
    const cadre_program_t *program;
    const cadre_tensor_t *arguments; /* in the program's order */
    int argument_count;
    const void *const *variables;         /* values of each variable, contiguous, program's order */
    const cadre_dtype_t *variable_dtypes; /* of these: what cadre_slot_takes says;
                                             NULL: all f32 */
    const uint64_t *versions; /* of these: a number that no other content had in an earlier run of
                                 the slot, of whichever variable: what is on the device already need
                                 not be copied; 0: unknown; NULL: all unknown */
    uint64_t seed;            /* of the closure: the same in each of its attempts */
    void *const *gradients;   /* per push: room for the variable's values, contiguous; the last
                                 op writes there itself. May overlap nothing else. */
    const cadre_dtype_t *gradient_dtypes; /* of these, as variable_dtypes; rounded as
                                             from_f32 of its row (common/tensor/dtype.h) */
    bool *not_finite;        /* per push: set where a gradient in another dtype than f32 holds
                                infinity or NaN, else left; NULL without such */
    cadre_tensor_t *results; /* per result: initialised on success, ended by the caller */
    bool resident; /* the data of arguments, variables and gradients, all f32 or i32, is in buffers
                      of the device: nothing but results is copied to the host */
} cadre_slot_run_t;

/* Runs the program and waits until gradients and results are there. On failure nothing is owned by
 * the caller and gradients have no meaningful content. CADRE_EINVALID, CADRE_ESHAPE and
 * CADRE_EDTYPE for arguments that do not fit, CADRE_EDATA for a label or an index out of range,
 * CADRE_ENOMEMORY, CADRE_ETOOLARGE; CADRE_EDEVICE when the device is lost for this process. NaN and
 * infinity are values like others and propagate. */
int cadre_slot_run(cadre_slot_t *self, const cadre_slot_run_t *run);

/* The same in two steps, so that the caller can do something else meanwhile: what `run` points to
 * stays as it is until cadre_slot_wait, which follows every start that returned 0, and gives the
 * run's status. One run at a time; a device that computes on the calling thread does so in start.
 */
int cadre_slot_start(cadre_slot_t *self, const cadre_slot_run_t *run);
int cadre_slot_wait(cadre_slot_t *self);

/* Bytes of device memory that the slot's runs use. */
size_t cadre_slot_arena_size_bytes(const cadre_slot_t *self);

/* Returns whether its runs can read variables and write gradients in this dtype: in f32 always. A
 * run that asks for another one fails with CADRE_EDTYPE. */
bool cadre_slot_takes(const cadre_slot_t *self, cadre_dtype_t dtype);

/* What native functions enqueue their work on: a cudaStream_t; NULL on a device without streams. */
void *cadre_slot_stream(cadre_slot_t *self);

#endif
