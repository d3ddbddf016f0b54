/*
 * late_inside - the inside of late_device, shared by its two files: late_device.c (what a worker
 * calls) and late_threads.c (what happens late).
 *
 * Everything of a late_device_t and its slots is read and written with its lock, but for the bytes
 * of a buffer that is MOVING and what a run COMPUTES with: those are of the thread that does it.
 */
#ifndef CADRE_TESTS_STRESS_LATE_INSIDE_H
#define CADRE_TESTS_STRESS_LATE_INSIDE_H

#include <pthread.h>
#include <stdbool.h>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"
#include "tests/stress/late_device.h"

enum { LATE_COPIERS = 2 };

typedef enum { BUFFER_EMPTY, BUFFER_MOVING, BUFFER_READY } late_state_t;

/* Memory on the host and its twin on the device. */
typedef struct {
    char *host;
    char *device;
    size_t size_bytes;
    late_state_t state;
    uint64_t hash; /* of an input */
    bool kept;     /* `device` stays when the run ends */
} late_buffer_t;

/* A plan on a slot, and the variables that the device has for it. */
typedef struct {
    void *cpu;
    late_buffer_t *variables; /* [variable_count], once it has run */
    uint64_t *versions;
    int variable_count;
} late_prepared_t;

typedef enum { RUN_NONE, RUN_COPIES_IN, RUN_COMPUTES, RUN_COMPUTED } late_run_state_t;

typedef struct late_slot {
    struct late_slot *next;
    struct late_device *device;
    void *cpu;
    late_run_state_t state;
    cadre_slot_run_t run; /* as it was asked for */
    late_prepared_t *prepared;
    late_buffer_t *inputs; /* arguments, then variables */
    int input_count;
    late_buffer_t *outputs; /* gradients, then results */
    int output_count;
    int gradient_count;
    int status;
    char text[CADRE_ERROR_TEXT_SIZE];
} late_slot_t;

typedef struct piece {
    struct piece *next;
    char *data;
    size_t size_bytes;
} late_piece_t;

typedef struct late_device {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t threads[LATE_COPIERS + 1];
    bool stopping;
    void *cpu; /* the CPU as a device */
    cadre_random_t random;
    late_fault_t fault;
    late_slot_t *slots;
    late_piece_t *pieces;
    cadre_u64_map_t contents; /* by number of content: its hash */
    late_counts_t counts;
} late_device_t;

/* Says what is wrong, and aborts. */
_Noreturn void late_complain(const char *what);

/* Never 0. */
uint64_t late_hash(const void *bytes, size_t size_bytes);

/* Complains unless the host's memory of an input is as it was when the run began. */
void late_check_unchanged(const late_buffer_t *input);

bool late_all_ready(const late_buffer_t *buffers, int count);

/* The threads' lives, until `stopping`. */
void *late_copy_all(void *device);
void *late_compute_all(void *device);

#endif
