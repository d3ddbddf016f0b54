/*
 * intake - grants workers room for large updates, and collects the updates that come in parts.
 *
 * Owner:   the shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. An update takes memory here from the moment its worker
 * may send it, so a worker sends at most a small window unasked (cadre_intake_window) and asks for
 * the rest with RESERVE. GRANTs are given out of one budget, first come, first served:
 *   - all granted updates together are at most half of the budget, unless a single larger one is;
 *   - granted updates whose bytes are still arriving are at most CADRE_RECEIVING_SIZE_MAX: so a
 *     slow link brings one update after the other, instead of all at the same late time.
 * The windows are an eighth of the budget, shared by twice as many peers as have spoken and at
 * least 16. Later peers get a smaller window, so all windows ever given add up to less than
 *   budget / 8 * (1/2 + (1/9 + 1/10 + ... + 1/4096) / 2) < budget / 2,
 * without an account of which peer has heard which; a window is never below the smallest.
 *
 * The parts of an update are collected until all are there, and then are one message, which is
 * applied in one turn. A grant after which nothing arrives is sent again each second, because it
 * may have been lost, and this finds out whether its peer is gone; while other requests wait it is
 * withdrawn after CADRE_GRANT_MS_MAX, and the parts collected so far are dropped; its worker asks
 * again. A worker that waits sends PROBEs. One that has sent nothing at all for CADRE_GRANT_MS_MAX
 * loses all its reservations at once, since each of them would keep the others waiting in turn. So
 * no worker waits for ever, and a worker with a grant waits for no other worker: everything that
 * the granted PUSH needs is granted with it.
 */
#ifndef CADRE_PS_CORE_INTAKE_H
#define CADRE_PS_CORE_INTAKE_H

#include "common/wire/message.h"
#include "common/wire/task.h"

enum {
    CADRE_RECEIVING_SIZE_MAX = 48 << 20, /* bytes of granted updates that may be arriving at once */
    CADRE_INTAKE_PERCENT = 25,           /* percent of a shard's memory: the budget */
    CADRE_GRANT_STALL_MS = 1000,         /* nothing arrived for so long: GRANT is sent again */
    CADRE_GRANT_MS_MAX = 60000,          /* a grant that is not used for so long may be withdrawn */
    CADRE_RESERVATIONS_MAX = 65536,      /* a further RESERVE is dropped; its worker asks again */
};

typedef struct cadre_intake cadre_intake_t;

/* Returns an intake without reservations. `budget_bytes`: memory for updates that arrive;
 * `window_min`: the smallest window of a peer, 0 for CADRE_WINDOW_SIZE_MIN. */
cadre_intake_t *cadre_intake_new(uint64_t budget_bytes, size_t window_min);
void cadre_intake_destroy(cadre_intake_t **self_p);

/* Forgets every reservation, the parts that were collected, and the peers that have spoken. */
void cadre_intake_clear(cadre_intake_t *self);

/* Returns the window of a peer that has spoken: the bytes of PUSHes without a reservation that it
 * may have unanswered. */
size_t cadre_intake_window(const cadre_intake_t *self);

/* Excuses the peers for `late_ms`, in which the shard read nothing: whatever they sent could have
 * arrived that much later, `now_ms` at the latest. */
void cadre_intake_excuse(cadre_intake_t *self, uint64_t late_ms, uint64_t now_ms);

/* Notes that a peer was heard. */
void cadre_intake_heard(cadre_intake_t *self, uint64_t incarnation, uint64_t now_ms);

/* Takes a RESERVE: a peer wants to send an update of `size_bytes` as the PUSH `request`. The same
 * RESERVE again (over another connection, or because GRANT was lost) has a GRANT sent again and the
 * parts collected so far dropped. */
void cadre_intake_reserve(cadre_intake_t *self, const cadre_task_t *from, uint64_t request,
                          uint64_t size_bytes, uint64_t now_ms);

/* Takes the next GRANT that is due, the oldest first; false when none is due now. */
bool cadre_intake_grant(cadre_intake_t *self, uint64_t now_ms, cadre_task_t *to, uint64_t *request);

/* Returns whether a PUSH is expected: its RESERVE waits, or is granted and no part has arrived. */
bool cadre_intake_is_waiting(const cadre_intake_t *self, uint64_t incarnation, uint64_t request);

/* Takes a part of an update. Returns true when it was the last part: `message` then is the whole
 * update, its reservation is gone, and `numbers` are the lists of partitions that it names, which
 * the caller frees. Returns false, and drops `message`, when further parts are missing, when the
 * part is not the next one, or when no grant covers its size. */
bool cadre_intake_take(cadre_intake_t *self, const cadre_task_t *from, cadre_message_t *message,
                       uint64_t **numbers, uint64_t now_ms);

/* Frees the room of an update that is applied, refused or given up. */
void cadre_intake_end(cadre_intake_t *self, uint64_t incarnation, uint64_t request);

/* Forgets what is reserved for a peer whose connection is gone. */
void cadre_intake_gone(cadre_intake_t *self, const cadre_task_t *peer);

/* Returns whether there are reservations, so that cadre_intake_grant must be called as time
 * passes. */
bool cadre_intake_is_busy(const cadre_intake_t *self);

/* Returns the bytes that are granted, and how many of them are collected: for tests. */
uint64_t cadre_intake_granted_bytes(const cadre_intake_t *self);
uint64_t cadre_intake_collected_bytes(const cadre_intake_t *self);

#endif
