/*
 * program_runner - runs the closures of programs on one slot: bind, pull, compute, push, results.
 *
 * Owner:   one slot actor. Thread: the slot's.
 *
 * The runner keeps each program of the session decoded, with its variables looked up, the memory in
 * which pulled values are joined, and the chunks that gradients are written to: running the same
 * program again allocates little. Each slot has its own runner, so slots share nothing.
 */
#ifndef CADRE_WORKER_SLOT_PROGRAM_RUNNER_H
#define CADRE_WORKER_SLOT_PROGRAM_RUNNER_H

#include "worker/device/device.h"
#include "worker/slot/slot_link.h"

typedef struct cadre_program_runner cadre_program_runner_t;

/* Returns a runner that borrows its arguments. Values and gradients are in pinned memory of
 * `device`, which is the slot's. */
cadre_program_runner_t *cadre_program_runner_new(cadre_device_t *device, cadre_slot_t *slot,
                                                 cadre_slot_link_t *link);
void cadre_program_runner_destroy(cadre_program_runner_t **self_p);

/* Forgets all programs, because another session began: functions and variables of the session
 * before do not exist any more. */
void cadre_program_runner_reset(cadre_program_runner_t *self);

/* Runs the link's work, whose function is a program, and puts the outcome into it. */
void cadre_program_runner_run(cadre_program_runner_t *self);

#endif
