/*
 * intake - which large updates may come now, and those that come in parts.
 *
 * Owner:   the shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. An update takes memory here from the moment its worker
 * may send it, so a worker sends at most a small window unasked (cadre_intake_window) and asks for
 * the rest with RESERVE. GRANTs are given out of one budget, first come, first served:
 *   - all of them together are at most half of it, or one alone that is larger;
 *   - those that come, at most CADRE_RECEIVING_SIZE_MAX: so a slow link brings one update after the
 *     other, instead of all at the same late time.
 * The windows are an eighth of the budget, shared by twice as many peers as have spoken and at
 * least 16. Whoever is told later is told less, so all that were ever told add up to less than
 *   budget / 8 * (1/2 + (1/9 + 1/10 + ... + 1/4096) / 2) < budget / 2,
 * without an account of who has heard what; below the smallest window there is no less.
 *
 * The parts of an update are collected until all are there, and then are one message, which is
 * applied in one turn. A grant on which nothing comes is said again each second, because it may
 * have been lost, and finds out whether its peer is gone; while others wait it is withdrawn after
 * CADRE_GRANT_MS_MAX, and what was collected goes. Its worker asks again. A worker that waits sends
 * PROBEs: one that has said nothing at all for so long loses all that it has reserved, at once, or
 * each of its requests would keep the others waiting in turn.
 * So nobody waits for ever, and whoever has a grant waits for nobody: it has all that it sends.
 */
#ifndef CADRE_PS_CORE_INTAKE_H
#define CADRE_PS_CORE_INTAKE_H

#include "common/wire/message.h"
#include "common/wire/task.h"

enum {
    CADRE_RECEIVING_SIZE_MAX = 48 << 20, /* bytes of updates that are granted and come */
    CADRE_INTAKE_PERCENT = 25,           /* of the memory a shard may take: the budget */
    CADRE_GRANT_STALL_MS = 1000,         /* nothing came for that long: it is granted again */
    CADRE_GRANT_MS_MAX = 60000,
    CADRE_RESERVATIONS_MAX = 65536, /* a further one is dropped, and asked for again */
};

typedef struct cadre_intake cadre_intake_t;

/* `window_min`: 0 for CADRE_WINDOW_SIZE_MIN. */
cadre_intake_t *cadre_intake_new(uint64_t budget_bytes, size_t window_min);
void cadre_intake_destroy(cadre_intake_t **self_p);

/* Forgets every reservation, what was collected, and who has spoken. */
void cadre_intake_clear(cadre_intake_t *self);

/* Returns how many bytes of PUSHes a peer, who has been heard, may have unanswered that nothing was
 * reserved for. */
size_t cadre_intake_window(const cadre_intake_t *self);

/* The shard read nothing for `late_ms`: all that peers said or sent could have come that much
 * later, `now_ms` at the latest. */
void cadre_intake_excuse(cadre_intake_t *self, uint64_t late_ms, uint64_t now_ms);

/* Notes that a peer has said something. */
void cadre_intake_heard(cadre_intake_t *self, uint64_t incarnation, uint64_t now_ms);

/* A peer wants to send an update of `size_bytes` as the PUSH `request`; again, over another
 * connection or because the answer was lost, has a grant said again and what was collected go. */
void cadre_intake_reserve(cadre_intake_t *self, const cadre_task_t *from, uint64_t request,
                          uint64_t size_bytes, uint64_t now_ms);

/* The next GRANT to be said, the oldest first; false when there is none now. */
bool cadre_intake_grant(cadre_intake_t *self, uint64_t now_ms, cadre_task_t *to, uint64_t *request);

/* Whether a PUSH is waited for: its RESERVE waits, or is granted and nothing has come. */
bool cadre_intake_is_waiting(const cadre_intake_t *self, uint64_t incarnation, uint64_t request);

/* Takes a part of an update. True when it was the last: `message` is the whole update then, its
 * reservation gone, and `triples` its partitions, which the caller frees. False when parts are
 * missing, or nothing was reserved for so much; the message is gone. */
bool cadre_intake_take(cadre_intake_t *self, const cadre_task_t *from, cadre_message_t *message,
                       uint64_t **triples, uint64_t now_ms);

/* The update needs no room any more: it is applied, refused or given up. */
void cadre_intake_end(cadre_intake_t *self, uint64_t incarnation, uint64_t request);

/* The peer cannot be reached any more over this connection. */
void cadre_intake_gone(cadre_intake_t *self, const cadre_task_t *peer);

/* Whether there are reservations, so that time matters. */
bool cadre_intake_is_busy(const cadre_intake_t *self);

/* Bytes that are granted, and of them collected: for tests. */
uint64_t cadre_intake_granted_bytes(const cadre_intake_t *self);
uint64_t cadre_intake_collected_bytes(const cadre_intake_t *self);

#endif
