/*
 * device_module - what stands behind device.h: one struct of functions per kind of device.
 *
 * "cpu" is part of the worker. Other kinds are modules: shared objects cadre_device_KIND.so, beside
 * the program or in the install directory's libdir/cadre/, opened at run time (module.h), so that
 * one worker serves machines with and without the hardware. A module is built from the same sources
 * as the worker and says so: `abi` counts changes of meaning, `layout` notices any change of the
 * structs that both sides read.
 *
 * device.c binds arguments, makes plans and keeps them; a device only executes plans.
 *
 * Owner:   the kind; tables never change.
 * Thread:  as in device.h: open, close, memory_new and memory_free on any thread, a slot's
 *          functions on one thread at a time, different slots of a device at the same time.
 */
#ifndef CADRE_WORKER_DEVICE_DEVICE_MODULE_H
#define CADRE_WORKER_DEVICE_DEVICE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/device/device.h"
#include "worker/device/plan.h"

enum { CADRE_DEVICE_ABI = 2 };

/* The sizes of all structs that worker and module both read, mixed into one number. */
#define CADRE_DEVICE_LAYOUT                                                                        \
    ((uint64_t)sizeof(cadre_plan_t) << 48 ^ (uint64_t)sizeof(cadre_plan_step_t) << 36 ^            \
     (uint64_t)sizeof(cadre_plan_value_t) << 24 ^ (uint64_t)sizeof(cadre_slot_run_t) << 16 ^       \
     (uint64_t)sizeof(cadre_slot_options_t) << 8 ^ (uint64_t)sizeof(cadre_chain_t) << 4 ^          \
     (uint64_t)sizeof(cadre_plan_fusion_t) << 2 ^ (uint64_t)sizeof(cadre_device_functions_t))

typedef struct {
    int index;        /* N of "cuda:N"; 0 otherwise */
    int threads;      /* for computing on the host, at least 1 */
    const char *math; /* of matrix products: "f32", "tf32" or "bf16" */
} cadre_device_request_t;

/* The functions of a device. A function that fails returns a negative status, and error_text says
 * why until the next failure on the same thread. CADRE_EDEVICE means that the device is lost for
 * this process. */
typedef struct cadre_device_functions {
    const char *(*error_text)(void);

    unsigned plan_flags; /* CADRE_PLAN_... flags with which plans for this device are made */

    /* Opens the device. Fails with CADRE_EUNAVAILABLE, and a text that says what is missing, when
     * the machine has no such device; with CADRE_EINVALID for a request that makes no sense. */
    int (*open)(const cadre_device_request_t *request, void **device);

    /* Returns how many of the kind this machine has for this process; NULL: one. */
    int (*count)(void);
    void (*close)(void *device);
    const char *(*name)(const void *device); /* as logs and the coordinator see it */

    /* Allocates host memory that the device copies from and to fastest, aligned to 64 bytes; NULL
     * when there is none left. Any thread may call memory_free. */
    void *(*memory_new)(void *device, size_t size_bytes);
    void (*memory_free)(void *device, void *memory);

    /* Allocate, free, write and read memory of the device itself; all four are NULL on a device on
     * which nothing can stay from run to run. */
    int (*buffer_new)(void *device, size_t size_bytes, void **buffer);
    void (*buffer_free)(void *device, void *buffer);
    int (*buffer_write)(void *device, void *buffer, const void *from, size_t size_bytes);
    int (*buffer_read)(void *device, const void *buffer, void *to, size_t size_bytes);

    int (*slot_open)(void *device, const cadre_slot_options_t *options, void **slot);
    void (*slot_close)(void *slot); /* after `release` of everything that was prepared */

    /* Prepares to run `plan`, which does not change until `release`. Fails with CADRE_ENOMEMORY. */
    int (*prepare)(void *slot, const cadre_plan_t *plan, void **prepared);
    void (*release)(void *slot, void *prepared);

    /* Begins one run: run->arguments fit the plan, run->results have their memory. What `run`
     * points to does not change until `wait`, which is called after every `run` that returned 0 and
     * returns the run's status. A device that computes on the calling thread does so in `run`. */
    int (*run)(void *slot, void *prepared, const cadre_slot_run_t *run);
    int (*wait)(void *slot);

    size_t (*arena_size_bytes)(const void *slot); /* device memory that the slot's plans share */
    void *(*stream)(void *slot); /* the stream that native functions enqueue on, or NULL */

    /* Dtypes besides f32 that variables and gradients of a run may have: a bit 1 << dtype each. */
    uint32_t dtypes;
} cadre_device_functions_t;

typedef struct {
    uint32_t abi; /* CADRE_DEVICE_ABI; the first field in every version of this struct */
    uint64_t layout;
    const cadre_device_functions_t *functions;
} cadre_device_module_t;

/* Returns the description of a module's device: the only symbol that a module exports. */
CADRE_API const cadre_device_module_t *cadre_device_module(void);
#define CADRE_DEVICE_MODULE_SYMBOL "cadre_device_module"
typedef const cadre_device_module_t *(*cadre_device_module_entry_t)(void);

/* The device that every worker has. */
extern const cadre_device_functions_t cadre_cpu_functions;

#endif
