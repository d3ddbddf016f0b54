#include "ps/core/intake.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/u64_map.h"

enum { PEERS_MIN = 16 };

/* A list of numbers that grows. */
typedef struct {
    uint64_t *items;
    size_t count;
} numbers_t;

typedef struct {
    cadre_task_t from;
    uint64_t request;
    uint64_t size_bytes;
    bool granted;
    bool said;         /* GRANT was sent for the present connection */
    uint64_t moved_ms; /* when a part came last, or the reservation was made or granted */
    uint64_t said_ms;  /* when GRANT was last sent */

    /* The parts of the update that have come: */
    cadre_message_t whole; /* one PUSH with the chunks of all parts that have come */
    uint64_t next_part;    /* number of the part that must come next */
    uint64_t got_bytes;
    numbers_t partitions; /* that the parts name: their records (cadre_part_t) */
    numbers_t rows;       /* likewise (cadre_pushed_rows_t) */
} reservation_t;

struct cadre_intake {
    uint64_t budget_bytes;
    size_t window_min;
    cadre_u64_map_t peers; /* when each peer was last heard (uint64_t), by its incarnation */
    reservation_t *all;    /* [count], in order of arrival */
    size_t count;
    size_t capacity;
    uint64_t granted_bytes; /* sum of the sizes of granted reservations */
};

cadre_intake_t *
cadre_intake_new(uint64_t budget_bytes, size_t window_min)
{
    cadre_intake_t *self = cadre_calloc(1, sizeof(*self));
    self->budget_bytes = budget_bytes;
    self->window_min = window_min ? window_min : CADRE_WINDOW_SIZE_MIN;
    return self;
}

static void
drop_numbers(numbers_t *self)
{
    cadre_free(&self->items);
    self->count = 0;
}

/* Drops the parts that have come: the sender begins again with the first. */
static void
drop_parts(reservation_t *reservation)
{
    cadre_message_fini(&reservation->whole);
    drop_numbers(&reservation->partitions);
    drop_numbers(&reservation->rows);
    reservation->next_part = 0;
    reservation->got_bytes = 0;
}

/* Removes the reservation at this position, and with it the parts of the update that have come. */
static void
remove_at(cadre_intake_t *self, size_t at)
{
    reservation_t *reservation = &self->all[at];
    self->granted_bytes -= reservation->granted ? reservation->size_bytes : 0;
    drop_parts(reservation);
    self->count--;
    for (size_t i = at; i < self->count; i++) {
        self->all[i] = self->all[i + 1];
    }
}

/* Forgets all reservations, and when peers were heard. */
void
cadre_intake_clear(cadre_intake_t *self)
{
    while (self->count > 0) {
        remove_at(self, self->count - 1);
    }
    size_t cursor = 0;
    uint64_t *heard_ms = NULL;
    while ((heard_ms = cadre_u64_map_next(&self->peers, &cursor))) {
        free(heard_ms);
    }
    cadre_u64_map_fini(&self->peers);
}

void
cadre_intake_destroy(cadre_intake_t **self_p)
{
    cadre_intake_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_intake_clear(self);
    free(self->all);
    free(self);
}

/* Notes when a peer was heard last. Beyond CADRE_TASKS_MAX peers a new one is not noted, so that
 * the map is bounded. */
void
cadre_intake_heard(cadre_intake_t *self, uint64_t incarnation, uint64_t now_ms)
{
    uint64_t *heard_ms = cadre_u64_map_get(&self->peers, incarnation);
    if (!heard_ms) {
        if (self->peers.count >= CADRE_TASKS_MAX) {
            return;
        }
        heard_ms = cadre_calloc(1, sizeof(*heard_ms));
        cadre_u64_map_put(&self->peers, incarnation, heard_ms);
    }
    *heard_ms = now_ms;
}

/* Moves a time later by `late_ms`, but not beyond now. */
static uint64_t
later(uint64_t since_ms, uint64_t late_ms, uint64_t now_ms)
{
    return since_ms + late_ms < now_ms ? since_ms + late_ms : now_ms;
}

/* Excuses peers for the time in which the shard itself read nothing: moves all times since which
 * something of them is awaited later by `late_ms`. */
void
cadre_intake_excuse(cadre_intake_t *self, uint64_t late_ms, uint64_t now_ms)
{
    uint64_t *heard_ms = NULL;
    for (size_t cursor = 0; (heard_ms = cadre_u64_map_next(&self->peers, &cursor));) {
        *heard_ms = later(*heard_ms, late_ms, now_ms);
    }
    for (size_t i = 0; i < self->count; i++) {
        self->all[i].moved_ms = later(self->all[i].moved_ms, late_ms, now_ms);
    }
}

/* Returns how many bytes a peer may push unasked: its share of an eighth of the budget, within the
 * limits of a window. Twice the peers heard share it, so that there is room for peers yet to
 * come. */
size_t
cadre_intake_window(const cadre_intake_t *self)
{
    uint64_t sharers = 2 * (uint64_t)self->peers.count;
    uint64_t share = self->budget_bytes / 8 / (sharers > PEERS_MIN ? sharers : PEERS_MIN);
    if (share < self->window_min) {
        return self->window_min;
    }
    return share < CADRE_WINDOW_SIZE_MAX ? (size_t)share : CADRE_WINDOW_SIZE_MAX;
}

/* Returns the position of the reservation for this request; `count` when there is none. */
static size_t
find(const cadre_intake_t *self, uint64_t incarnation, uint64_t request)
{
    size_t at = 0;
    while (at < self->count &&
           (self->all[at].from.incarnation != incarnation || self->all[at].request != request)) {
        at++;
    }
    return at;
}

/* Queues a reservation. A repeated RESERVE keeps its place in the queue; its GRANT is sent again,
 * over the connection by which it came now, and its PUSH is expected from the first part. */
void
cadre_intake_reserve(cadre_intake_t *self, const cadre_task_t *from, uint64_t request,
                     uint64_t size_bytes, uint64_t now_ms)
{
    size_t at = find(self, from->incarnation, request);
    /* The queue is full, and the request is not in it: its worker asks again. */
    if (at == CADRE_RESERVATIONS_MAX) {
        return;
    }
    if (at < self->count) {
        reservation_t *again = &self->all[at];
        again->from = *from;
        again->said = false;
        drop_parts(again);
        return;
    }
    self->all = cadre_grow(self->all, self->count, &self->capacity, sizeof(*self->all));
    self->all[self->count++] = (reservation_t){
        .from = *from, .request = request, .size_bytes = size_bytes, .moved_ms = now_ms};
}

/* Returns the bytes of granted updates that are still to arrive, without updates of which nothing
 * came for CADRE_GRANT_STALL_MS: they must not hold up the others. */
static uint64_t
coming_bytes(const cadre_intake_t *self, uint64_t now_ms)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < self->count; i++) {
        const reservation_t *reservation = &self->all[i];
        bool comes = reservation->granted && now_ms < reservation->moved_ms + CADRE_GRANT_STALL_MS;
        bytes += comes ? reservation->size_bytes - reservation->got_bytes : 0;
    }
    return bytes;
}

/* Returns whether a reservation may be granted now: there is room for it in half of the budget, and
 * not too much else is arriving. A reservation larger than these limits is granted alone. */
static bool
may_come(const cadre_intake_t *self, const reservation_t *reservation, uint64_t now_ms)
{
    uint64_t coming = coming_bytes(self, now_ms);
    bool has_room = self->granted_bytes == 0 ||
                    self->granted_bytes + reservation->size_bytes <= self->budget_bytes / 2;
    return has_room &&
           (coming == 0 || coming + reservation->size_bytes <= CADRE_RECEIVING_SIZE_MAX);
}

/* Returns whether a peer that was heard before has sent nothing for CADRE_GRANT_MS_MAX. */
static bool
is_silent(const cadre_intake_t *self, const cadre_task_t *peer, uint64_t now_ms)
{
    const uint64_t *heard_ms = cadre_u64_map_get(&self->peers, peer->incarnation);
    return heard_ms && now_ms >= *heard_ms + CADRE_GRANT_MS_MAX;
}

/* Withdraws grants, because the first reservation that waits has no room: all reservations of peers
 * that have been silent for CADRE_GRANT_MS_MAX; if there are none, one grant to which nothing came
 * for that long. */
static void
withdraw(cadre_intake_t *self, uint64_t now_ms)
{
    const size_t count = self->count;
    for (size_t i = count; i-- > 0;) {
        if (is_silent(self, &self->all[i].from, now_ms)) {
            remove_at(self, i);
        }
    }
    for (size_t i = 0; i < self->count && self->count == count; i++) {
        if (self->all[i].granted && now_ms >= self->all[i].moved_ms + CADRE_GRANT_MS_MAX) {
            remove_at(self, i);
        }
    }
}

/* Gives the next GRANT that is due, in order of arrival; none behind the first reservation that has
 * no room. A GRANT is due when it was not sent over the present connection yet, or when nothing
 * came for it in CADRE_GRANT_STALL_MS. */
bool
cadre_intake_grant(cadre_intake_t *self, uint64_t now_ms, cadre_task_t *to, uint64_t *request)
{
    for (size_t i = 0; i < self->count; i++) {
        reservation_t *reservation = &self->all[i];
        if (!reservation->granted && !may_come(self, reservation, now_ms)) {
            withdraw(self, now_ms);
            return false;
        }
        if (!reservation->granted) {
            reservation->granted = true;
            reservation->moved_ms = now_ms;
            self->granted_bytes += reservation->size_bytes;
        }
        bool stalls = now_ms >= reservation->moved_ms + CADRE_GRANT_STALL_MS &&
                      now_ms >= reservation->said_ms + CADRE_GRANT_STALL_MS;
        if (!reservation->said || stalls) {
            reservation->said = true;
            reservation->said_ms = now_ms;
            *to = reservation->from;
            *request = reservation->request;
            return true;
        }
    }
    return false;
}

bool
cadre_intake_is_waiting(const cadre_intake_t *self, uint64_t incarnation, uint64_t request)
{
    size_t at = find(self, incarnation, request);
    return at < self->count && self->all[at].next_part == 0;
}

static void
append_numbers(numbers_t *self, const uint64_t *items, size_t count)
{
    if (count > 0) {
        self->items = cadre_realloc(self->items, self->count + count, sizeof(*self->items));
        memcpy(self->items + self->count, items, count * sizeof(*items));
        self->count += count;
    }
}

/* Appends the chunks and partitions of a part (takes the chunks) to those that came before it. */
static void
append(reservation_t *reservation, cadre_message_t *message)
{
    const cadre_push_message_t *push = &message->push;
    cadre_message_t *whole = &reservation->whole;
    append_numbers(&reservation->partitions, push->partitions.items, push->partitions.count);
    append_numbers(&reservation->rows, push->rows.items, push->rows.count);
    reservation->got_bytes += cadre_message_chunks_size_bytes(message);
    if (reservation->next_part == 0) {
        *whole = *message;
        *message = (cadre_message_t){.type = message->type};
    } else if (message->chunk_count > 0) {
        size_t room = whole->chunk_count + message->chunk_count;
        whole->chunks = cadre_realloc(whole->chunks, room, sizeof(*whole->chunks));
        memcpy(whole->chunks + whole->chunk_count, message->chunks,
               message->chunk_count * sizeof(*whole->chunks));
        whole->chunk_count = room;
        message->chunk_count = 0;
    }
    reservation->next_part++;
}

/* Collects a part of an update; with the last part gives the whole update to the caller. Drops a
 * part that is not the next one, that exceeds what was granted, or that has no grant: its worker
 * finds that out by a PROBE. */
bool
cadre_intake_take(cadre_intake_t *self, const cadre_task_t *from, cadre_message_t *message,
                  uint64_t **numbers, uint64_t now_ms)
{
    const cadre_push_message_t push = message->push;
    size_t at = find(self, from->incarnation, message->request);
    reservation_t *reservation = at < self->count ? &self->all[at] : NULL;
    if (reservation && push.part == 0) {
        drop_parts(reservation); /* retransmitted from the first part */
    }
    bool fits = reservation && reservation->granted && push.part == reservation->next_part &&
                reservation->got_bytes + cadre_message_chunks_size_bytes(message) <=
                    reservation->size_bytes;
    if (!fits) {
        cadre_message_fini(message);
        return false;
    }
    reservation->moved_ms = now_ms;
    append(reservation, message);
    cadre_message_fini(message);
    if (push.part + 1 < push.parts) {
        return false;
    }
    *message = reservation->whole;
    /* Both lists in one piece of memory: partitions, and behind them rows. */
    numbers_t *all = &reservation->partitions;
    const size_t partitions = all->count;
    append_numbers(all, reservation->rows.items, reservation->rows.count);
    message->push.partitions = (cadre_u64s_t){all->items, partitions};
    message->push.rows = (cadre_u64s_t){all->items + partitions, all->count - partitions};
    *numbers = all->items;
    reservation->whole = (cadre_message_t){.type = CADRE_MESSAGE_PUSH};
    *all = (numbers_t){NULL, 0};
    remove_at(self, at);
    return true;
}

void
cadre_intake_end(cadre_intake_t *self, uint64_t incarnation, uint64_t request)
{
    size_t at = find(self, incarnation, request);
    if (at < self->count) {
        remove_at(self, at);
    }
}

void
cadre_intake_gone(cadre_intake_t *self, const cadre_task_t *peer)
{
    for (size_t i = self->count; i-- > 0;) {
        if (cadre_task_equal(&self->all[i].from, peer)) {
            remove_at(self, i);
        }
    }
}

bool
cadre_intake_is_busy(const cadre_intake_t *self)
{
    return self->count > 0;
}

uint64_t
cadre_intake_granted_bytes(const cadre_intake_t *self)
{
    return self->granted_bytes;
}

uint64_t
cadre_intake_collected_bytes(const cadre_intake_t *self)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < self->count; i++) {
        bytes += self->all[i].got_bytes;
    }
    return bytes;
}
