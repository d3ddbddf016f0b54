#include "ps/core/admission.h"

#include <stdlib.h>

#include "common/base/memory.h"

typedef struct {
    cadre_sending_t *sending;
    size_t held_bytes;  /* bytes of answers that the peer had not taken at the last look */
    uint64_t moving_ms; /* when `held_bytes` was last seen to fall, or to be 0 */
    bool was_given;     /* an answer was sent to the peer since the last look */
    bool has_read;      /* the peer was once seen to take bytes */
    uint64_t asked_ms;  /* when the peer last asked for values */
} peer_t;

typedef struct {
    cadre_task_t from;
    cadre_message_t message;
} waiting_t;

struct cadre_admission {
    uint64_t budget_bytes;
    cadre_u64_map_t peers; /* peer_t by incarnation and index of the task (key_of) */
    waiting_t *waiting;    /* in order of arrival */
    size_t count;
    size_t capacity;
    bool has_looked; /* the sums below are of `looked_ms`, and no answer was sent since */
    uint64_t looked_ms;
    size_t total_bytes;   /* bytes of answers that peers have not taken */
    size_t sending_bytes; /* bytes of them that are held by peers which read now */
    size_t unread_bytes;  /* bytes of them held by peers that never read, or have stopped */
};

cadre_admission_t *
cadre_admission_new(uint64_t budget_bytes)
{
    cadre_admission_t *self = cadre_calloc(1, sizeof(*self));
    self->budget_bytes = budget_bytes;
    return self;
}

/* Frees the waiting pulls and what is known of peers; answers under way keep their counters by a
 * reference of their own. */
void
cadre_admission_destroy(cadre_admission_t **self_p)
{
    cadre_admission_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    peer_t *peer = NULL;
    for (size_t cursor = 0; (peer = cadre_u64_map_next(&self->peers, &cursor));) {
        cadre_sending_unref(&peer->sending);
        free(peer);
    }
    cadre_u64_map_fini(&self->peers);
    for (size_t i = 0; i < self->count; i++) {
        cadre_message_fini(&self->waiting[i].message);
    }
    free(self->waiting);
    free(self);
}

static uint64_t
key_of(const cadre_task_t *task)
{
    return task->incarnation ^ (uint64_t)task->index << 32;
}

/* Returns what is known of a peer; makes it when the peer is new. The coordinator counts as one
 * that reads. */
static peer_t *
peer_of(cadre_admission_t *self, const cadre_task_t *task)
{
    peer_t *peer = cadre_u64_map_get(&self->peers, key_of(task));
    if (!peer) {
        peer = cadre_calloc(1, sizeof(*peer));
        peer->sending = cadre_sending_new();
        peer->has_read = task->role == CADRE_ROLE_COORDINATOR;
        cadre_u64_map_put(&self->peers, key_of(task), peer);
    }
    return peer;
}

cadre_sending_t *
cadre_admission_sending(cadre_admission_t *self, const cadre_task_t *peer)
{
    self->has_looked = false; /* the peer will hold more bytes */
    peer_of(self, peer)->was_given = true;
    return peer_of(self, peer)->sending;
}

/* Notes what a peer has taken since the last look; returns whether the peer reads: it took
 * something in the last CADRE_STALL_MS, or had nothing to take. */
static bool
reads(peer_t *peer, uint64_t now_ms)
{
    size_t held_bytes = cadre_sending_bytes(peer->sending);
    if (held_bytes < peer->held_bytes || held_bytes == 0 || peer->held_bytes == 0) {
        peer->moving_ms = now_ms;
    }
    bool took_it = held_bytes < peer->held_bytes || (peer->was_given && held_bytes == 0);
    peer->has_read = peer->has_read || took_it;
    peer->was_given = false;
    peer->held_bytes = held_bytes;
    return now_ms < peer->moving_ms + CADRE_STALL_MS;
}

/* Sums up what all peers hold, unless that was done at the same time and no answer was sent
 * since. */
static void
look(cadre_admission_t *self, uint64_t now_ms)
{
    if (self->has_looked && self->looked_ms == now_ms) {
        return;
    }
    self->has_looked = true;
    self->looked_ms = now_ms;
    self->total_bytes = 0;
    self->sending_bytes = 0;
    self->unread_bytes = 0;
    peer_t *peer = NULL;
    for (size_t cursor = 0; (peer = cadre_u64_map_next(&self->peers, &cursor));) {
        bool is_reading = reads(peer, now_ms);
        self->total_bytes += peer->held_bytes;
        self->sending_bytes += is_reading ? peer->held_bytes : 0;
        self->unread_bytes += is_reading && peer->has_read ? 0 : peer->held_bytes;
    }
}

/* Returns whether an answer of `size_bytes` may be sent to the peer now, by the four rules of
 * admission.h: of what this peer holds, of what peers that never read hold, of what all peers hold,
 * and of what is under way on the link. An answer without values may always. */
cadre_admission_answer_t
cadre_admission_ask(cadre_admission_t *self, const cadre_task_t *task, size_t size_bytes,
                    uint64_t now_ms)
{
    if (size_bytes == 0) {
        return CADRE_ADMISSION_NOW;
    }
    peer_t *peer = peer_of(self, task);
    peer->asked_ms = now_ms;
    look(self, now_ms);
    bool peer_may =
        peer->held_bytes == 0 || peer->held_bytes + size_bytes <= CADRE_PEER_HELD_SIZE_MAX;
    bool unread_may = peer->has_read || self->unread_bytes == 0 ||
                      self->unread_bytes + size_bytes <= self->budget_bytes / 2;
    bool all_may = self->total_bytes == 0 || self->total_bytes + size_bytes <= self->budget_bytes;
    bool link_may = self->sending_bytes <= CADRE_SENDING_SIZE_MIN ||
                    self->sending_bytes + size_bytes <= CADRE_SENDING_SIZE_MAX;
    if (!peer_may || !unread_may) {
        return CADRE_ADMISSION_PEER;
    }
    return all_may && link_may ? CADRE_ADMISSION_NOW : CADRE_ADMISSION_SHARED;
}

/* Returns the waiting PULL with this request id of the process `incarnation`; NULL when none
 * waits. */
static waiting_t *
find(const cadre_admission_t *self, uint64_t incarnation, uint64_t request)
{
    for (size_t i = 0; i < self->count; i++) {
        waiting_t *waiting = &self->waiting[i];
        if (waiting->from.incarnation == incarnation && waiting->message.request == request) {
            return waiting;
        }
    }
    return NULL;
}

size_t
cadre_admission_count(const cadre_admission_t *self)
{
    return self->count;
}

bool
cadre_admission_is_waiting(const cadre_admission_t *self, uint64_t incarnation, uint64_t request)
{
    return find(self, incarnation, request) != NULL;
}

/* Lets a PULL wait. One that is asked again, over a new connection, keeps its place, and is
 * answered over that connection. One too many is dropped: its worker asks again. */
void
cadre_admission_wait(cadre_admission_t *self, const cadre_task_t *from, cadre_message_t *message)
{
    waiting_t *waiting = find(self, from->incarnation, message->request);
    if (waiting || self->count == CADRE_WAITING_MAX) {
        if (waiting) {
            waiting->from = *from;
        }
        cadre_message_fini(message);
        return;
    }
    self->waiting = cadre_grow(self->waiting, self->count, &self->capacity, sizeof(*self->waiting));
    self->waiting[self->count++] = (waiting_t){*from, *message};
    *message = (cadre_message_t){.type = message->type};
}

/* Gives the waiting pull at `position`, without removing it. */
bool
cadre_admission_at(const cadre_admission_t *self, size_t position, cadre_task_t *from,
                   const cadre_message_t **message)
{
    if (position >= self->count) {
        return false;
    }
    *from = self->waiting[position].from;
    *message = &self->waiting[position].message;
    return true;
}

void
cadre_admission_take(cadre_admission_t *self, size_t position, cadre_message_t *message)
{
    *message = self->waiting[position].message;
    self->count--;
    for (size_t i = position; i < self->count; i++) {
        self->waiting[i] = self->waiting[i + 1];
    }
}

/* Forgets peers that hold no answer and have not asked for CADRE_PEER_KEPT_MS, by moving all others
 * to a new map. */
void
cadre_admission_tidy(cadre_admission_t *self, uint64_t now_ms)
{
    cadre_u64_map_t kept = {0};
    peer_t *peer = NULL;
    for (size_t i = 0; i < self->peers.capacity; i++) {
        peer = self->peers.entries[i].value;
        bool holds = peer && cadre_sending_bytes(peer->sending) > 0;
        if (holds || (peer && now_ms < peer->asked_ms + CADRE_PEER_KEPT_MS)) {
            cadre_u64_map_put(&kept, self->peers.entries[i].key, peer);
        } else if (peer) {
            cadre_sending_unref(&peer->sending);
            free(peer);
        }
    }
    cadre_u64_map_fini(&self->peers);
    self->peers = kept;
}
