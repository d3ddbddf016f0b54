/*
 * contact - liveness: the task's own estimate of whether its lease still holds.
 *
 * Owner:   the core of a worker or ps. Thread: its owner's.
 *
 * Every HELLO and HEARTBEAT has a number, which WELCOME and ACK repeat. The time at which the
 * question was sent counts, not the time of its answer: the coordinator counts the lease from the
 * question, and after a pause of this process the socket holds old answers.
 */
#ifndef CADRE_COMMON_SESSION_CONTACT_H
#define CADRE_COMMON_SESSION_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* How many of the last questions the time is remembered of; answers to older ones are too late
     * to count. */
    CADRE_CONTACT_KEPT = 64,
    /* Share of the lease; a task without an answer for so long must expect the coordinator to give
     * its work to others soon. */
    CADRE_LEASE_TRUST_PERCENT = 80,
};

typedef struct {
    uint64_t asked; /* number of the last question, from 1 on */
    uint64_t asked_ms[CADRE_CONTACT_KEPT];
    uint64_t heard_ms; /* when the newest of the answered questions was sent */
    /* An answer has come that repeats a number; before the first one contact never counts as
     * lost. */
    bool answers;
} cadre_contact_t;

/* Notes that a question is sent now and returns its number. */
uint64_t cadre_contact_ask(cadre_contact_t *self, uint64_t now_ms);

/* Records the answer to question `number`. Unsolicited messages carry 0 and are ignored. */
void cadre_contact_answered(cadre_contact_t *self, uint64_t number);

/* Returns when contact counts as lost unless an answer comes; UINT64_MAX before the first answer,
 * or for a lease of 0, which means none. */
uint64_t cadre_contact_lost_ms(const cadre_contact_t *self, uint64_t lease_ms);

#endif
