/*
 * late_device - a device for tests of who uses one: CPU memory, results of the CPU's own code, and
 * nothing in order.
 *
 * Every copy between the host and the "device" is done late, by a thread of its own, in an order
 * drawn from a seed; computing happens on another thread. Only events order them, as on a GPU,
 * which hides most mistakes by being fast. Each of these aborts the process with a line that says
 * which:
 *
 *     computing with an input, or copying an output, that is not there yet
 *     host memory that changes, or is freed, while a copy from or to it is under way
 *     a second number for one content of a variable that is the number of another content
 *     late_device_expect_ready for memory that a run has yet to write
 *
 * Owner:   a test; one device at a time.
 * Thread:  as in device_module.h; late_device_expect_ready and _counts on any.
 */
#ifndef CADRE_TESTS_STRESS_LATE_DEVICE_H
#define CADRE_TESTS_STRESS_LATE_DEVICE_H

#include "worker/device/device_module.h"

/* Mistakes of the device itself, to see that they are noticed. */
typedef enum {
    LATE_FAULT_NONE,
    LATE_FAULT_COMPUTE_EARLY,  /* computing does not wait for the copies in */
    LATE_FAULT_COPY_OUT_EARLY, /* a copy out does not wait for the computing */
    LATE_FAULT_WAIT_EARLY,     /* wait does not wait for the copies out */
} late_fault_t;

extern const cadre_device_functions_t late_device_functions;

/* For the device that is opened next. */
void late_device_plan(uint64_t seed, late_fault_t fault);

/* Aborts when some run has yet to write to these bytes of host memory. */
void late_device_expect_ready(const void *memory, size_t size_bytes);

typedef struct {
    uint64_t runs;
    uint64_t copies;       /* of variables to the device */
    uint64_t copies_saved; /* variables that were there already, by their number */
    uint64_t pieces;       /* of host memory that exist now */
} late_counts_t;

late_counts_t late_device_counts(void);

#endif
