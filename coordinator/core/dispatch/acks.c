#include "coordinator/core/dispatch/acks.h"

#include "common/base/limits.h"
#include "common/base/memory.h"

enum { WAIT_MAX = 256 }; /* most reports of a worker that wait to be acknowledged together */

void
cadre_acks_init(cadre_acks_t *self, const cadre_membership_t *members, cadre_effects_t *effects)
{
    *self = (cadre_acks_t){.members = members, .effects = effects};
}

/* Notes that this attempt's report is to be acknowledged to the worker: two numbers in its list. */
void
cadre_acks_add(cadre_member_t *worker, uint64_t id, uint64_t attempt)
{
    if (worker->ack_items + 2 > worker->ack_capacity) {
        worker->ack_capacity = worker->ack_capacity ? 2 * worker->ack_capacity : 64;
        worker->acks = cadre_realloc(worker->acks, worker->ack_capacity, sizeof(*worker->acks));
    }
    worker->acks[worker->ack_items++] = id;
    worker->acks[worker->ack_items++] = attempt;
}

void
cadre_acks_hurry(cadre_member_t *worker)
{
    worker->ack_due = true;
}

void
cadre_acks_note_heartbeat(cadre_member_t *worker, uint64_t request)
{
    worker->ack_due = true;
    worker->ack_request = request;
}

/* Sends the worker ACKs for all reports that wait, as many in one message as it can hold; an empty
 * one where only a heartbeat is to be answered. */
void
cadre_acks_send(const cadre_acks_t *self, cadre_member_t *worker)
{
    size_t at = 0;
    while (at < worker->ack_items || worker->ack_due) {
        size_t items = worker->ack_items - at;
        items = items < CADRE_HELD_MAX ? items : CADRE_HELD_MAX;
        cadre_message_t message = cadre_effects_message(self->effects, CADRE_MESSAGE_ACK);

        /* The last ACK answers a HEARTBEAT, if one has come: what the worker reported before it,
         * and is not acknowledged by then, never came. */
        bool is_last = at + items == worker->ack_items;
        message.request = is_last ? worker->ack_request : 0;
        message.ack.reports = (cadre_u64s_t){items > 0 ? worker->acks + at : NULL, items};
        cadre_effects_send(self->effects, &worker->task, &message);

        worker->ack_due = false;
        at += items;
    }
    worker->ack_items = 0;
    worker->ack_request = 0;
}

/* Returns whether the worker's reports are to be acknowledged now. While the worker has more
 * closures to run they can wait: the ACK travels with the next closures, or answers the next
 * HEARTBEAT, before which the worker repeats nothing. */
static bool
is_due(const cadre_member_t *worker, cadre_acks_whose_t whose)
{
    bool has_no_more = worker->in_flight.count == 0 && whose != CADRE_ACKS_IN_STEP;
    return whose == CADRE_ACKS_ALL || worker->ack_due || worker->draining || has_no_more ||
           worker->ack_items >= 2 * WAIT_MAX;
}

/* Acknowledges the reports of each worker where that is due. */
void
cadre_acks_tick(const cadre_acks_t *self, cadre_acks_whose_t whose)
{
    for (uint32_t i = 0; i < self->members->worker_capacity; i++) {
        cadre_member_t *worker = self->members->workers[i];
        if (worker && is_due(worker, whose)) {
            cadre_acks_send(self, worker);
        }
    }
}
