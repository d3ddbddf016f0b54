/*
 * admission - which pulls are answered now and which wait, so that answers nobody reads are
 * bounded.
 *
 * Owner:   the shard actor. Thread: the shard actor's.
 *
 * A core: no socket, thread, clock or file. An answer holds references to its chunks until they
 * have left, and so keeps old versions in memory; what leaves is counted by cadre_sending_t, which
 * ZeroMQ's threads write (common/wire/sending.h). A PULL is answered at once when
 *   - its peer holds nothing, or with this answer at most CADRE_PEER_HELD_SIZE_MAX;
 *   - all peers together, with it, hold at most the budget, and at most half of it where the peer
 *     has not been seen to read: whoever is connected may pull and read nothing, and would starve
 *     the others. The coordinator counts as one that reads;
 *   - what is on its way, with it, is at most CADRE_SENDING_SIZE_MAX, or without it at most
 *     CADRE_SENDING_SIZE_MIN, so that a link is never idle; peers that do not read left out. Else
 * it waits, first come, first served: no values are taken for it, so it costs its header. The third
 * rule lets a slow link give one worker its values after the other, instead of all at the same late
 * time: then their pushes go up while others pull. One that was asked twice, over a new connection,
 * waits once and is answered over the newest.
 */
#ifndef CADRE_PS_CORE_ADMISSION_H
#define CADRE_PS_CORE_ADMISSION_H

#include "common/base/u64_map.h"
#include "common/wire/message.h"
#include "common/wire/sending.h"
#include "common/wire/task.h"

enum {
    CADRE_PEER_HELD_SIZE_MAX = 64 << 20, /* bytes of answers that one peer has not taken */
    CADRE_SENDING_SIZE_MAX = 48 << 20,   /* bytes of answers under way to peers that read */
    CADRE_SENDING_SIZE_MIN = 8 << 20,    /* with no more than that, the next one goes at any rate */
    CADRE_STALL_MS = 200,        /* nothing taken for that long: a peer that does not read */
    CADRE_ADMISSION_MS = 1,      /* while pulls wait, what has left is looked at that often */
    CADRE_PEER_KEPT_MS = 600000, /* that long it is remembered that a peer reads */
    CADRE_WAITING_MAX = 65536,   /* pulls that wait; a further one is dropped and asked for again */
    CADRE_HELD_PERCENT = 25,     /* of the memory a shard may take: the budget of all answers */
};

typedef struct cadre_admission cadre_admission_t;

cadre_admission_t *cadre_admission_new(uint64_t budget_bytes);
void cadre_admission_destroy(cadre_admission_t **self_p);

typedef enum {
    CADRE_ADMISSION_NOW,
    CADRE_ADMISSION_PEER,   /* it waits for its peer, or for such as read nothing; others may go
                               before it */
    CADRE_ADMISSION_SHARED, /* there is no room for it, nor for what came after it */
} cadre_admission_answer_t;

/* Whether an answer of `size_bytes` may go to `peer` now. */
cadre_admission_answer_t cadre_admission_ask(cadre_admission_t *self, const cadre_task_t *peer,
                                             size_t size_bytes, uint64_t now_ms);

/* What counts the bytes of answers to `peer`; the caller hands it to every send. */
cadre_sending_t *cadre_admission_sending(cadre_admission_t *self, const cadre_task_t *peer);

/* Lets a PULL wait; takes the message. */
void cadre_admission_wait(cadre_admission_t *self, const cadre_task_t *from,
                          cadre_message_t *message);

/* The pull that waits in this position, the oldest first: its sender and message, which stay the
 * core's; false when there is none. */
bool cadre_admission_at(const cadre_admission_t *self, size_t position, cadre_task_t *from,
                        const cadre_message_t **message);

/* How many wait. */
size_t cadre_admission_count(const cadre_admission_t *self);

/* Takes a PULL that waits out. */
void cadre_admission_take(cadre_admission_t *self, size_t position, cadre_message_t *message);

/* Whether this request of the process `incarnation` waits. */
bool cadre_admission_is_waiting(const cadre_admission_t *self, uint64_t incarnation,
                                uint64_t request);

/* Forgets peers that hold nothing and have not asked for long; to be called now and then. */
void cadre_admission_tidy(cadre_admission_t *self, uint64_t now_ms);

#endif
