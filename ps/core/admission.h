/*
 * admission - which pulls are answered now and which wait, so that answers nobody reads are
 * bounded.
 *
 * Owner:   the shard actor. Thread: the shard actor's.
 *
 * A core: no socket, thread, clock or file. An answer holds references to its chunks until they
 * have left, and so keeps old versions in memory; what leaves is counted by cadre_sending_t, which
 * ZeroMQ's threads write (common/wire/sending.h). A PULL is answered at once when
 *   - its peer holds no unread answer, or with this one at most CADRE_PEER_HELD_SIZE_MAX bytes;
 *   - all peers together, with this answer, hold at most the budget, and at most half of the budget
 *     where the peer was never seen to read: a peer that pulls and reads nothing would starve the
 *     others. The coordinator counts as a peer that reads;
 *   - the bytes on their way to peers that read are, with this answer, at most
 *     CADRE_SENDING_SIZE_MAX, or without it at most CADRE_SENDING_SIZE_MIN, so that a link is never
 *     idle.
 * Else the PULL waits, first come, first served; no values are taken for it meanwhile, so a waiting
 * PULL costs only its header. The third rule makes a slow link serve one worker after the other,
 * instead of all at the same late time: the first can push while the others pull. A PULL that is
 * asked again over a new connection waits once, and is answered over the newest connection.
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
    CADRE_SENDING_SIZE_MIN = 8 << 20,    /* bytes under way up to which a further answer may go */
    CADRE_STALL_MS = 200,                /* a peer that takes nothing for so long does not read */
    CADRE_ADMISSION_MS = 1,              /* how often waiting pulls are looked at again */
    CADRE_PEER_KEPT_MS = 600000,         /* how long it is remembered that a silent peer has read */
    CADRE_WAITING_MAX = 65536, /* waiting pulls; a further one is dropped, its worker asks again */
    CADRE_HELD_PERCENT = 25,   /* percent of a shard's memory: the budget of all answers */
};

typedef struct cadre_admission cadre_admission_t;

cadre_admission_t *cadre_admission_new(uint64_t budget_bytes);
void cadre_admission_destroy(cadre_admission_t **self_p);

typedef enum {
    CADRE_ADMISSION_NOW,
    CADRE_ADMISSION_PEER,   /* the pull waits until its own peer reads, or peers that never read
                               have; pulls of other peers may overtake it */
    CADRE_ADMISSION_SHARED, /* the budget or the link is used up: the pull waits, and so do all
                               pulls that came after it */
} cadre_admission_answer_t;

/* Returns whether an answer of `size_bytes` may be sent to `peer` now. */
cadre_admission_answer_t cadre_admission_ask(cadre_admission_t *self, const cadre_task_t *peer,
                                             size_t size_bytes, uint64_t now_ms);

/* Returns the counter of bytes that `peer` has not taken; the caller hands it to every send. */
cadre_sending_t *cadre_admission_sending(cadre_admission_t *self, const cadre_task_t *peer);

/* Lets a PULL wait; takes the message. */
void cadre_admission_wait(cadre_admission_t *self, const cadre_task_t *from,
                          cadre_message_t *message);

/* Gives the sender and the message (borrowed) of the waiting pull in this position, the oldest at
 * 0; returns false when no pull waits there. */
bool cadre_admission_at(const cadre_admission_t *self, size_t position, cadre_task_t *from,
                        const cadre_message_t **message);

/* Returns how many pulls wait. */
size_t cadre_admission_count(const cadre_admission_t *self);

/* Removes the waiting PULL at `position` and gives its message to the caller. */
void cadre_admission_take(cadre_admission_t *self, size_t position, cadre_message_t *message);

/* Returns whether the PULL with this request id of the process `incarnation` waits. */
bool cadre_admission_is_waiting(const cadre_admission_t *self, uint64_t incarnation,
                                uint64_t request);

/* Forgets peers that hold nothing and have not asked for long; to be called now and then. */
void cadre_admission_tidy(cadre_admission_t *self, uint64_t now_ms);

#endif
