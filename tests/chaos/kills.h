/*
 * kills - kill -9 of one process of a field at a time, and what is between two of them.
 *
 * Owner:   a test.
 * Thread:  the main one.
 */
#ifndef CADRE_TESTS_CHAOS_KILLS_H
#define CADRE_TESTS_CHAOS_KILLS_H

#include "tests/chaos/chaos.h"
#include "tests/chaos/field.h"

/* Kills one of this role, and starts it again at once or a little later. */
void kills_one(chaos_run_t *run, field_t *field, field_role_t role);

/* Lets some time pass after a kill of this role: sometimes a random moment, so that the next fault
 * hits what this one has set going, and sometimes as long as it takes for work to get done; a job
 * mostly gets to another checkpoint. */
void kills_pause(chaos_run_t *run, field_t *field, field_role_t role);

#endif
