/*
 * contact - liveness: the task's own estimate of whether its lease still holds.
 *
 * Owner:   the core of a worker or ps. Thread: its owner's.
 *
 * Every HELLO and HEARTBEAT has a number, which WELCOME and ACK repeat. What counts is when the
 * question was sent, not when its answer came: the coordinator counts its lease from the question,
 * and after a pause of this process old answers lie in the socket.
 */
#ifndef CADRE_COMMON_SESSION_CONTACT_H
#define CADRE_COMMON_SESSION_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CADRE_CONTACT_KEPT = 64, /* questions whose time is remembered; answers to older ones are late
                                enough to say nothing */
    CADRE_LEASE_TRUST_PERCENT = 80, /* of the lease unheard: the coordinator may give this worker's
                                       closures to others soon */
};

typedef struct {
    uint64_t asked; /* number of the last question; they count from 1 */
    uint64_t asked_ms[CADRE_CONTACT_KEPT];
    uint64_t heard_ms; /* when the newest question that was answered was sent */
    bool answers;      /* the coordinator repeats numbers; before, nothing is known and contact is
                          never lost */
} cadre_contact_t;

/* Notes that a question is sent now and returns its number. */
uint64_t cadre_contact_ask(cadre_contact_t *self, uint64_t now_ms);

/* Records the answer to question `number`. Unsolicited messages carry 0 and are ignored. */
void cadre_contact_answered(cadre_contact_t *self, uint64_t number);

/* Returns when contact counts as lost unless an answer comes; UINT64_MAX while nothing is known, or
 * for a lease of 0, which is none. */
uint64_t cadre_contact_lost_ms(const cadre_contact_t *self, uint64_t lease_ms);

#endif
