#include "coordinator/core/shards/shard_requests.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

struct cadre_shard_request {
    cadre_shard_request_t *next;
    uint64_t id;
    cadre_outbox_entry_t entry;
    bool fenced; /* the message carries the generation that it is for */
    uint64_t generation;
    bool sent;
    uint64_t first_ms; /* when the request was first sent to the ps that serves the shard now */
    bool again;        /* the request was lost, or refused for its generation: it is to be sent
                        * again */
    uint64_t sent_ms;  /* when the request was sent last; 0: it was lost, and is sent again at
                        * once */
    uint64_t after;    /* number of the last PROBE that was sent before the request */
    uint64_t sequence; /* sequence of an ASSIGN; else 0 */
    size_t size_bytes; /* bytes of values in the request, or expected in the answer */
    cadre_answered_t answered;
    void *context;
    uint64_t detail;
};

void
cadre_shard_requests_init(cadre_shard_requests_t *self, uint32_t shard_count, uint64_t last)
{
    *self = (cadre_shard_requests_t){.shard_count = shard_count, .last = last};
    self->lanes = cadre_calloc(shard_count, sizeof(*self->lanes));
    for (uint32_t i = 0; i < shard_count; i++) {
        self->lanes[i].last_p = &self->lanes[i].first;
    }
}

static void
destroy(cadre_shard_request_t *request)
{
    cadre_outbox_entry_fini(&request->entry);
    free(request);
}

/* Takes the request *at out of its lane; the caller destroys it. */
static cadre_shard_request_t *
take(cadre_shard_requests_t *self, cadre_shard_lane_t *lane, cadre_shard_request_t **at)
{
    cadre_shard_request_t *request = *at;
    *at = request->next;
    if (lane->last_p == &request->next) {
        lane->last_p = at;
    }
    lane->sent -= request->sent ? 1 : 0;
    self->count--;
    return request;
}

void
cadre_shard_requests_fini(cadre_shard_requests_t *self)
{
    for (uint32_t i = 0; i < self->shard_count; i++) {
        while (self->lanes[i].first) {
            destroy(take(self, &self->lanes[i], &self->lanes[i].first));
        }
    }
    free(self->lanes);
    *self = (cadre_shard_requests_t){0};
}

/* Returns the message's field with the generation of the shard that it is for; NULL when it has
 * none, or begins a generation itself (RESTORE). */
static uint64_t *
generation_of(cadre_message_t *message)
{
    if (message->type == CADRE_MESSAGE_CREATE) {
        return &message->create.generation;
    }
    if (message->type == CADRE_MESSAGE_SETTLE) {
        return &message->settle.generation;
    }
    if (message->type == CADRE_MESSAGE_SNAPSHOT) {
        return &message->snapshot.generation;
    }
    if (message->type == CADRE_MESSAGE_CLOSE_CUT) {
        return &message->close_cut.generation;
    }
    if (message->type == CADRE_MESSAGE_DROP) {
        return &message->drop.generation;
    }
    if (message->type == CADRE_MESSAGE_RETIRE) {
        return &message->retire.generation;
    }
    if (message->type == CADRE_MESSAGE_END_STEP) {
        return &message->end_step.generation;
    }
    if (message->type == CADRE_MESSAGE_PULL) {
        return &message->pull.generation;
    }

    return message->type == CADRE_MESSAGE_ASSIGN ? &message->assign.generation : NULL;
}

/* Encodes a request again with the generation that its shard has now, if the shard was restored
 * since it was made. */
static void
bring_up_to_date(cadre_shard_request_t *request, uint64_t generation)
{
    if (!request->fenced || request->generation == generation) {
        return;
    }

    cadre_outbox_entry_t *entry = &request->entry;
    cadre_message_t message;
    int status =
        cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             entry->chunks, entry->chunk_count, &message);
    cadre_assert(status == 0);
    *generation_of(&message) = generation;
    request->generation = generation;
    cadre_task_t destination = entry->destination;
    entry->chunk_count = 0;
    cadre_outbox_entry_fini(entry);
    cadre_outbox_entry_init(entry, &destination, &message);
    cadre_message_fini(&message);
}

/* Queues a request behind those of its shard; it is sent by a later pump. `answered` is called with
 * the answer. */
void
cadre_shard_requests_ask(cadre_shard_requests_t *self, uint32_t shard, cadre_message_t *message,
                         cadre_answered_t answered, void *context, uint64_t detail)
{
    cadre_shard_lane_t *lane = &self->lanes[shard];
    cadre_shard_request_t *request = cadre_calloc(1, sizeof(*request));

    request->id = ++self->last;
    request->answered = answered;
    request->context = context;
    request->detail = detail;
    message->request = request->id;
    const uint64_t *generation = generation_of(message);
    request->fenced = generation != NULL;
    request->sequence = message->type == CADRE_MESSAGE_ASSIGN ? message->assign.sequence : 0;
    request->generation = generation ? *generation : 0;
    /* a stand-in: the ps is filled in each time that the request is sent */
    cadre_task_t nobody = {.role = CADRE_ROLE_PS, .index = shard};
    request->size_bytes += cadre_message_chunks_size_bytes(message);

    self->incarnation = message->incarnation;
    self->epoch = message->epoch;
    cadre_outbox_entry_init(&request->entry, &nobody, message);
    *lane->last_p = request;
    lane->last_p = &request->next;
    self->count++;
}

/* Notes how many bytes will answer the request that was queued last. */
void
cadre_shard_requests_expect(cadre_shard_requests_t *self, uint32_t shard, size_t size_bytes)
{
    cadre_shard_request_t *request = self->lanes[shard].first;
    while (request->next) {
        request = request->next;
    }
    request->size_bytes = size_bytes;
}

/* Returns what is known of the plane that a request goes over. */
static cadre_shard_watch_t *
watch_of(cadre_shard_lane_t *lane, const cadre_shard_request_t *request)
{
    return &lane->watches[request->entry.plane];
}

/* Returns the task that a request is sent to. On the control plane that is the name which the ps
 * joined with, whose index may be open; on the data plane it names the connection that was made to
 * the shard, by its index. */
static cadre_task_t
destination_of(cadre_plane_t plane, uint32_t shard, const cadre_task_t *task)
{
    cadre_task_t destination = *task;
    destination.index = plane == CADRE_PLANE_DATA ? shard : task->index;
    return destination;
}

/* Returns whether later requests must wait for the answer to one of this type. RESTORE resets the
 * shard; ASSIGNs must arrive by ascending sequence; SNAPSHOT must open a cut before CLOSE_CUT
 * closes it; RETIRE must come before the cut that lacks the variable; DROP must free memory for the
 * CREATEs after it. */
static bool
is_ordered(cadre_message_type_t type)
{
    return type == CADRE_MESSAGE_RESTORE || type == CADRE_MESSAGE_ASSIGN ||
           type == CADRE_MESSAGE_SNAPSHOT || type == CADRE_MESSAGE_RETIRE ||
           type == CADRE_MESSAGE_DROP;
}

/* Puts the next PROBE off by the shortest interval, as after an answer to the oldest request. */
static void
rest(cadre_shard_watch_t *watch, uint64_t now_ms)
{
    watch->probe_wait_ms = CADRE_PROBE_MS;
    watch->probe_due_ms = now_ms + CADRE_PROBE_MS;
}

/* Sends a request, again or for the first time, with the shard's present generation. */
static void
send(cadre_shard_lane_t *lane, cadre_shard_request_t *request, uint32_t shard,
     const cadre_shard_target_t *target, uint64_t now_ms, cadre_outbox_t *outbox)
{
    cadre_shard_watch_t *watch = watch_of(lane, request);
    lane->sent += request->sent ? 0 : 1;
    if (request->again && watch->probe_due_ms > now_ms + CADRE_PROBE_MS) {
        rest(watch, now_ms); /* a PROBE soon asks after it, as if the request were new */
    }

    request->first_ms = request->sent ? request->first_ms : now_ms;
    request->sent = true;
    request->sent_ms = now_ms;
    request->after = watch->probe;
    request->again = false;
    request->entry.destination = destination_of(request->entry.plane, shard, target->task);
    bring_up_to_date(request, target->generation);
    cadre_outbox_repeat(outbox, &request->entry);
}

/* Sends the requests of a shard in order, as far as window and order allow; without a ps marks all
 * as unsent. */
static void
send_all(cadre_shard_lane_t *lane, uint32_t shard, const cadre_shard_target_t *target,
         uint64_t now_ms, uint64_t resend_ms, cadre_outbox_t *outbox)
{
    /* A request that uses a partition travels on another connection than its CREATE, so it waits
     * for the CREATE's answer. */
    bool creating = false;
    for (cadre_shard_request_t *request = lane->first; request; request = request->next) {
        if (!target->task) {
            lane->sent -= request->sent ? 1 : 0;
            request->sent = false;
            continue;
        }

        if (creating && request->entry.type != CADRE_MESSAGE_CREATE) {
            return;
        }

        creating = request->entry.type == CADRE_MESSAGE_CREATE;
        if (!request->sent && lane->sent >= CADRE_SHARD_WINDOW) {
            return;
        }
        if (!request->sent || (request->again && now_ms >= request->sent_ms + resend_ms)) {
            send(lane, request, shard, target, now_ms, outbox);
        }
        if (is_ordered(request->entry.type)) {
            return;
        }
    }
}

/* Lists the unanswered requests of a plane as the triples of a PROBE; returns how many there
 * are. */
static size_t
outstanding(const cadre_shard_lane_t *lane, cadre_plane_t plane,
            uint64_t triples[3 * CADRE_SHARD_WINDOW])
{
    size_t count = 0;
    /* The list behind the sent requests may be long: the loop ends with the last of them. */
    uint32_t left = lane->sent;
    for (const cadre_shard_request_t *request = lane->first; left > 0 && count < CADRE_SHARD_WINDOW;
         request = request->next) {
        left -= request->sent ? 1 : 0;
        if (request->sent && request->entry.plane == plane) {
            triples[3 * count] = request->id;
            triples[3 * count + 1] = 0;
            triples[3 * count + 2] = request->sequence;
            count++;
        }
    }

    return count;
}

/* Sends a PROBE on a plane if a request is unanswered and it is time, ever more seldom (I6). */
static void
probe(cadre_shard_requests_t *self, uint32_t shard, cadre_plane_t plane,
      const cadre_shard_target_t *target, uint64_t now_ms, cadre_outbox_t *outbox)
{
    cadre_shard_watch_t *watch = &self->lanes[shard].watches[plane];
    uint64_t triples[3 * CADRE_SHARD_WINDOW];
    size_t count = target->task ? outstanding(&self->lanes[shard], plane, triples) : 0;

    if (watch->heard || watch->probed) {
        watch->heard_ms = now_ms;
    }
    if (watch->moved || count == 0) {
        rest(watch, now_ms);
    }

    watch->probed = false;
    watch->heard = false;
    watch->moved = false;
    if (count == 0 || now_ms < watch->probe_due_ms) {
        return;
    }

    /* The PROBE's number is above the ids of the requests that it names: its answer does not judge
     * a request that is sent later (`after`). */
    watch->probe = ++self->last;
    watch->probe_wait_ms = cadre_min_u64(2 * watch->probe_wait_ms, CADRE_PROBE_MAX_MS);
    watch->probe_due_ms = now_ms + watch->probe_wait_ms;

    cadre_message_t message = {.type = CADRE_MESSAGE_PROBE,
                               .request = watch->probe,
                               .incarnation = self->incarnation,
                               .epoch = self->epoch};
    message.probe =
        (cadre_probe_message_t){.generation = target->generation, .requests = {triples, 3 * count}};
    cadre_task_t destination = destination_of(plane, shard, target->task);
    cadre_outbox_send_on(outbox, plane, &destination, &message);
}

bool
cadre_shard_requests_has_assignment(const cadre_shard_requests_t *self)
{
    for (uint32_t shard = 0; shard < self->shard_count; shard++) {
        const cadre_shard_request_t *request = self->lanes[shard].first;
        for (; request; request = request->next) {
            if (request->sequence > 0) {
                return true;
            }
        }
    }
    return false;
}

void
cadre_shard_requests_pump(cadre_shard_requests_t *self, uint32_t shard,
                          const cadre_shard_target_t *target, uint64_t now_ms, uint64_t resend_ms,
                          cadre_outbox_t *outbox)
{
    probe(self, shard, CADRE_PLANE_CONTROL, target, now_ms, outbox);
    probe(self, shard, CADRE_PLANE_DATA, target, now_ms, outbox);
    send_all(&self->lanes[shard], shard, target, now_ms, resend_ms, outbox);
}

/* Returns whether a request was refused because it carried another generation than the shard
 * has. */
static bool
was_fenced(const cadre_message_t *reply)
{
    const uint64_t fenced = (uint64_t)-CADRE_EFENCED;
    if (reply->type == CADRE_MESSAGE_VALUES) {
        return reply->values.status == fenced;
    }
    return reply->type == CADRE_MESSAGE_REPLY && reply->reply.status == fenced;
}

/* Ends the request that `reply` answers; false: there is none. Notes whether it was the oldest one
 * of its plane that was sent. */
bool
cadre_shard_requests_answer(cadre_shard_requests_t *self, uint32_t shard,
                            const cadre_message_t *reply)
{
    cadre_shard_lane_t *lane = &self->lanes[shard];
    bool has_older[CADRE_PLANE_DATA + 1] = {false};
    for (cadre_shard_request_t **at = &lane->first; *at; at = &(*at)->next) {
        bool *is_behind = &has_older[(*at)->entry.plane];
        if ((*at)->id == reply->request) {
            cadre_shard_watch_t *watch = watch_of(lane, *at);
            watch->heard = true;
            watch->moved = watch->moved || !*is_behind;
            if ((*at)->fenced && was_fenced(reply)) {
                (*at)->again = true;
                return true; /* sent before the shard was restored: it is sent again */
            }
            cadre_shard_request_t *request = take(self, lane, at);
            request->answered(request->context, request->detail, reply, 0);
            destroy(request);
            return true;
        }

        *is_behind = *is_behind || (*at)->sent;
    }

    return false;
}

/* Ends an ASSIGN that the shard has applied but whose REPLY was lost. */
static void
end_applied(cadre_shard_requests_t *self, uint32_t shard, uint64_t id)
{
    const cadre_message_t reply = {
        .type = CADRE_MESSAGE_REPLY, .request = id, .reply = {.status = 0, .text = ""}};
    cadre_shard_requests_answer(self, shard, &reply);
}

/* Takes the answer to a PROBE: pairs of a request id and its state. Requests that are unknown to
 * the shard are sent again. */
void
cadre_shard_requests_probed(cadre_shard_requests_t *self, uint32_t shard,
                            const cadre_message_t *message)
{
    cadre_shard_lane_t *lane = &self->lanes[shard];
    const cadre_u64s_t *states = &message->probed.states;
    for (size_t i = 0; i + 1 < states->count; i += 2) {
        cadre_shard_request_t *request = lane->first;
        while (request && request->id != states->items[i]) {
            request = request->next;
        }

        /* answered meanwhile, or sent after the PROBE, which says nothing of it */
        if (!request || !request->sent || request->after >= message->request) {
            continue;
        }

        watch_of(lane, request)->probed = true;
        if (states->items[i + 1] == CADRE_PROBED_APPLIED) {
            end_applied(self, shard, request->id);
        } else if (states->items[i + 1] == CADRE_PROBED_UNKNOWN) {
            request->again = true;
            request->sent_ms = 0;
        }
    }
}

/* Marks the requests of the data plane to be sent again: its connection is new. */
void
cadre_shard_requests_connected(cadre_shard_requests_t *self, uint32_t shard)
{
    for (cadre_shard_request_t *request = self->lanes[shard].first; request;
         request = request->next) {
        if (request->entry.plane == CADRE_PLANE_DATA) {
            request->again = true;
            request->sent_ms = 0;
        }
    }
}

void
cadre_shard_requests_doubt(cadre_shard_requests_t *self, uint32_t shard)
{
    self->lanes[shard].watches[CADRE_PLANE_CONTROL].probe_due_ms = 0;
}

/* Returns since when nothing was heard over the data connection while requests were unanswered;
 * UINT64_MAX: none is unanswered. */
uint64_t
cadre_shard_requests_silent_ms(const cadre_shard_requests_t *self, uint32_t shard,
                               size_t *size_bytes)
{
    const cadre_shard_lane_t *lane = &self->lanes[shard];
    uint64_t since_ms = UINT64_MAX;
    uint32_t left = lane->sent;

    *size_bytes = 0;
    for (const cadre_shard_request_t *request = lane->first; left > 0; request = request->next) {
        left -= request->sent ? 1 : 0;
        if (request->sent && request->entry.plane == CADRE_PLANE_DATA) {
            since_ms = cadre_min_u64(since_ms, request->first_ms);
            *size_bytes += request->size_bytes;
        }
    }

    uint64_t heard_ms = lane->watches[CADRE_PLANE_DATA].heard_ms;
    return cadre_max_u64(since_ms, heard_ms);
}

/* Gives up all requests to the shard, each of which hears CADRE_ECANCELLED. */
void
cadre_shard_requests_clear(cadre_shard_requests_t *self, uint32_t shard)
{
    cadre_shard_lane_t *lane = &self->lanes[shard];
    while (lane->first) {
        cadre_shard_request_t *request = take(self, lane, &lane->first);
        request->answered(request->context, request->detail, NULL, CADRE_ECANCELLED);
        destroy(request);
    }
}

/* Stands in for the `answered` of requests whose context is forgotten. */
static void
tell_nobody(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)context, (void)detail, (void)reply, (void)status;
}

/* Returns the first shard whose oldest request is this context's; UINT32_MAX: none. */
uint32_t
cadre_shard_requests_oldest(const cadre_shard_requests_t *self, const void *context)
{
    for (uint32_t i = 0; i < self->shard_count; i++) {
        if (self->lanes[i].first && self->lanes[i].first->context == context) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* Drops the requests of this context, which hears of no answer any more. Assignments are still
 * sent. */
void
cadre_shard_requests_forget(cadre_shard_requests_t *self, const void *context)
{
    for (uint32_t i = 0; i < self->shard_count; i++) {
        cadre_shard_lane_t *lane = &self->lanes[i];
        for (cadre_shard_request_t **at = &lane->first; *at;) {
            if ((*at)->context != context) {
                at = &(*at)->next;
            } else if ((*at)->entry.type == CADRE_MESSAGE_ASSIGN) {
                /* The ASSIGN is still sent: other partitions may have taken their part of the
                 * assignment. */
                (*at)->answered = tell_nobody;
                (*at)->context = NULL;
                at = &(*at)->next;
            } else {
                destroy(take(self, lane, at));
            }
        }
    }
}
