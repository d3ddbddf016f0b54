#include "worker/core/shard_link.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

/* Begins a link without requests. `window`: bytes of PUSHes that may be unanswered without
 * RESERVE. */
void
cadre_shard_link_init(cadre_shard_link_t *self, size_t window)
{
    *self = (cadre_shard_link_t){.window = window};
    self->last_p = &self->first;
}

/* Frees the messages and the context of a request. */
void
cadre_link_request_fini(cadre_link_request_t *self)
{
    cadre_outbox_entry_fini(&self->entry);
    cadre_outbox_entry_fini(&self->reserve);
    for (size_t i = 0; i < self->part_count; i++) {
        cadre_outbox_entry_fini(&self->parts[i]);
    }
    self->part_count = 0;
    cadre_free(&self->parts);
    cadre_free(&self->context);
}

static void
destroy(cadre_link_request_t *request)
{
    cadre_link_request_fini(request);
    free(request);
}

/* Drops all requests. */
void
cadre_shard_link_fini(cadre_shard_link_t *self)
{
    while (self->first) {
        cadre_link_request_t *request = self->first;
        self->first = request->next;
        destroy(request);
    }
    cadre_shard_link_init(self, self->window);
}

static bool
is_push(const cadre_link_request_t *request)
{
    return request->entry.type == CADRE_MESSAGE_PUSH;
}

/* Appends a request to the list; cadre_shard_link_pump sends it. The list has the requests that
 * were sent first, then those that were not. */
void
cadre_shard_link_ask(cadre_shard_link_t *self, const cadre_link_request_t *request)
{
    cadre_link_request_t *copy = cadre_calloc(1, sizeof(*copy));
    *copy = *request;
    copy->next = NULL;
    copy->sent = false;
    *self->last_p = copy;
    self->last_p = &copy->next;
    self->pushes += is_push(copy);
    if (!self->unsent) {
        self->unsent = copy;
    }
}

/* Counts the bytes of a request as in flight. */
static void
add_bytes(cadre_shard_link_t *self, const cadre_link_request_t *request)
{
    self->in_flight_bytes += request->size_bytes;
    self->pulled_bytes += is_push(request) ? 0 : request->size_bytes;
    self->unasked_bytes += request->is_unasked ? request->size_bytes : 0;
}

/* Counts the bytes of a request as no longer in flight. */
static void
take_bytes(cadre_shard_link_t *self, const cadre_link_request_t *request)
{
    self->in_flight_bytes -= request->size_bytes;
    self->pulled_bytes -= is_push(request) ? 0 : request->size_bytes;
    self->unasked_bytes -= request->is_unasked ? request->size_bytes : 0;
}

/* Sends all messages of a request; of a PUSH that has to ask for room, only its RESERVE. */
static void
send(cadre_shard_link_t *self, cadre_link_request_t *request, cadre_outbox_t *outbox)
{
    request->after = self->probe;
    cadre_outbox_repeat(outbox, request->is_asked ? &request->reserve : &request->entry);
    for (size_t i = 0; i < request->part_count && !request->is_asked; i++) {
        cadre_outbox_repeat(outbox, &request->parts[i]);
    }
}

/* Sends a lost request again. Of a PUSH that had a GRANT only RESERVE goes: room for it has to be
 * asked for again. */
static void
send_again(cadre_shard_link_t *self, cadre_link_request_t *request, cadre_outbox_t *outbox)
{
    self->repeated += is_push(request) && !request->is_asked;
    if (is_push(request) && !request->is_unasked && !request->is_asked) {
        take_bytes(self, request);
        request->is_asked = true;
    }
    send(self, request, outbox);
}

/* Starts the backoff of PROBEs again: the next one is due after the shortest wait. */
static void
rest(cadre_shard_link_t *self, uint64_t now_ms)
{
    self->probe_wait_ms = CADRE_PROBE_MS;
    self->probe_due_ms = now_ms + CADRE_PROBE_MS;
}

/* Returns whether the request may be sent now. A PULL waits while CADRE_IN_FLIGHT_SIZE_MAX bytes of
 * answers are awaited, unless it would be the only one; a PUSH waits at the ps, after its
 * RESERVE. */
static bool
may_go(const cadre_shard_link_t *self, const cadre_link_request_t *request)
{
    return is_push(request) || self->pulled_bytes == 0 ||
           self->pulled_bytes + request->size_bytes <= CADRE_IN_FLIGHT_SIZE_MAX;
}

/* Sends requests in their order until one may not go yet. A PUSH within the window goes at once; a
 * larger one, or one in several messages, sends its RESERVE and counts no bytes before GRANT. */
void
cadre_shard_link_pump(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    while (self->open && self->unsent && may_go(self, self->unsent)) {
        cadre_link_request_t *request = self->unsent;
        /* Nothing was owed until now: the shard's silence and the backoff of PROBEs begin here. */
        if (self->in_flight == 0) {
            rest(self, now_ms);
            self->owed_ms = now_ms;
        }
        bool fits =
            request->part_count == 0 && self->unasked_bytes + request->size_bytes <= self->window;
        request->is_unasked = is_push(request) && fits;
        request->is_asked = is_push(request) && !fits;
        request->sent = true;
        self->in_flight++;
        self->unsent = request->next;
        if (!request->is_asked) {
            add_bytes(self, request);
        }
        send(self, request, outbox);
    }
}

/* Sends the PUSH of request `id`, for which GRANT has come. Returns true also where that PUSH was
 * sent before: GRANT may come twice. */
bool
cadre_shard_link_granted(cadre_shard_link_t *self, uint64_t id, cadre_outbox_t *outbox)
{
    for (cadre_link_request_t *request = self->first; request; request = request->next) {
        if (request->request == id) {
            if (request->is_asked) {
                request->is_asked = false;
                add_bytes(self, request);
                send(self, request, outbox);
            }
            return true;
        }
    }
    return false;
}

/* Returns whether the shard owes this worker an answer of any kind. */
static bool
is_asked(const cadre_shard_link_t *self)
{
    return self->open && (self->in_flight > 0 || self->unreachable);
}

/* Returns whether a PROBE is due, and the `count` oldest requests without an answer that it is to
 * ask after. Each wait until the next PROBE is twice as long, up to a limit; an unreachable shard
 * is asked at the shortest interval, to see soon that it is back. */
bool
cadre_shard_link_probe(cadre_shard_link_t *self, uint64_t now_ms, uint64_t number,
                       cadre_probe_t probes[CADRE_PROBE_REQUESTS_MAX], size_t *count)
{
    *count = 0;
    if (!is_asked(self) || now_ms < self->probe_due_ms) {
        return false;
    }
    uint64_t most_ms = self->unreachable ? CADRE_PROBE_MS : CADRE_PROBE_MAX_MS;
    self->probe = number;
    self->probe_wait_ms = 2 * self->probe_wait_ms < most_ms ? 2 * self->probe_wait_ms : most_ms;
    self->probe_due_ms = now_ms + self->probe_wait_ms;
    for (const cadre_link_request_t *request = self->first;
         request && request->sent && *count < CADRE_PROBE_REQUESTS_MAX; request = request->next) {
        probes[(*count)++] =
            (cadre_probe_t){.request = request->request, .update = request->update};
    }
    return true;
}

/* Sends request `id` again if the answer to PROBE number `probe` proves it lost: it was sent before
 * that PROBE, and the ps does not have it. If the ps has it queued (`is_queued`), only a PUSH that
 * was granted is lost: the ps has its RESERVE, but not the PUSH. */
bool
cadre_shard_link_lost(cadre_shard_link_t *self, uint64_t id, uint64_t probe, bool is_queued,
                      cadre_outbox_t *outbox)
{
    for (cadre_link_request_t *request = self->first; request && request->sent;
         request = request->next) {
        bool was_granted = is_push(request) && !request->is_asked && !request->is_unasked;
        bool waits = is_queued && !was_granted;
        if (request->request == id && request->after < probe && !waits) {
            send_again(self, request, outbox);
            return true;
        }
    }
    return false;
}

/* Sends everything that is unanswered again, because the connection is a new one. */
void
cadre_shard_link_repeat(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    self->connected_ms = now_ms;
    rest(self, now_ms);
    for (cadre_link_request_t *request = self->first; self->open && request && request->sent;
         request = request->next) {
        send_again(self, request, outbox);
    }
}

/* Notes that a message of the shard has come: it is reachable, and its silence begins now. */
void
cadre_shard_link_heard(cadre_shard_link_t *self, uint64_t now_ms)
{
    self->owed_ms = now_ms;
    self->mutes = 0;
    self->unreachable = false;
}

/* Takes the request *at out of the list and out of what is counted of its bytes, and returns it. */
static cadre_link_request_t *
unlink_request(cadre_shard_link_t *self, cadre_link_request_t **at)
{
    cadre_link_request_t *request = *at;
    *at = request->next;
    self->pushes -= is_push(request);
    if (self->last_p == &request->next) {
        self->last_p = at;
    }
    if (self->unsent == request) {
        self->unsent = request->next;
    }
    if (request->sent) {
        self->in_flight--;
        if (!request->is_asked) {
            take_bytes(self, request);
        }
    }
    return request;
}

/* Takes request `id`, which was answered, out of the list, and gives it to the caller. An answer to
 * the oldest request puts off the next PROBE; one to a younger request does not, because the oldest
 * may be lost all the same. */
bool
cadre_shard_link_answered(cadre_shard_link_t *self, uint64_t id, uint64_t now_ms,
                          cadre_link_request_t *request)
{
    if (self->first && self->first->request == id) {
        rest(self, now_ms);
    }
    for (cadre_link_request_t **at = &self->first; *at; at = &(*at)->next) {
        if ((*at)->request == id) {
            cadre_link_request_t *found = unlink_request(self, at);
            *request = *found;
            request->next = NULL;
            free(found);
            return true;
        }
    }
    return false;
}

/* Drops every request of a closure. Answers that still come count as late. */
void
cadre_shard_link_forget(cadre_shard_link_t *self, uint64_t closure)
{
    for (cadre_link_request_t **at = &self->first; *at;) {
        if ((*at)->closure == closure) {
            destroy(unlink_request(self, at));
        } else {
            at = &(*at)->next;
        }
    }
}

uint64_t
cadre_shard_link_owed_ms(const cadre_shard_link_t *self)
{
    return is_asked(self) ? self->owed_ms : UINT64_MAX;
}

/* Returns how long nothing may come on a connection before it counts as half-open: a fixed time,
 * and the time that the bytes in flight take on the slowest link that is supported. */
static uint64_t
patience_ms(const cadre_shard_link_t *self)
{
    return CADRE_MUTE_MS + 1000 * self->in_flight_bytes / CADRE_LINK_RATE_MIN;
}

/* Returns when the connection counts as half-open if nothing comes; UINT64_MAX when no answer is
 * owed. Each connection that was given up without a word doubles the time (capped), since a slow
 * link would otherwise never get an answer through; an unreachable shard is tried at a steady
 * pace. */
static uint64_t
mute_due_ms(const cadre_shard_link_t *self)
{
    uint64_t since_ms = cadre_shard_link_owed_ms(self);
    if (since_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t limit_ms = patience_ms(self);
    for (uint32_t i = 0; !self->unreachable && i < self->mutes && limit_ms < CADRE_MUTE_MAX_MS;
         i++) {
        limit_ms *= 2;
    }
    /* A connection that has replaced another one gets its own time. */
    since_ms = since_ms > self->connected_ms ? since_ms : self->connected_ms;
    return since_ms + limit_ms;
}

bool
cadre_shard_link_is_mute(const cadre_shard_link_t *self, uint64_t now_ms)
{
    return now_ms >= mute_due_ms(self);
}

/* Returns when the shard counts as unreachable if nothing comes; UINT64_MAX when it owes no answer,
 * counts as unreachable already, or never may (`timeout_ms` 0). With more in flight than the
 * slowest link carries in a second, two connections are tried before; the second has twice the
 * first's time: 1 + 2 patiences. */
static uint64_t
over_due_ms(const cadre_shard_link_t *self, uint64_t timeout_ms)
{
    uint64_t since_ms = cadre_shard_link_owed_ms(self);
    if (since_ms == UINT64_MAX || self->unreachable || timeout_ms == 0) {
        return UINT64_MAX;
    }
    bool is_large = self->in_flight_bytes > CADRE_LINK_RATE_MIN;
    uint64_t least_ms = is_large ? 3 * patience_ms(self) : 0;
    return since_ms + (timeout_ms > least_ms ? timeout_ms : least_ms);
}

bool
cadre_shard_link_is_over(const cadre_shard_link_t *self, uint64_t now_ms, uint64_t timeout_ms)
{
    return now_ms >= over_due_ms(self, timeout_ms);
}

void
cadre_shard_link_give_up(cadre_shard_link_t *self, uint64_t now_ms)
{
    self->unreachable = true;
    rest(self, now_ms);
}

/* Moves a time forward by `late_ms`, but not beyond now. */
static uint64_t
later(uint64_t since_ms, uint64_t late_ms, uint64_t now_ms)
{
    return since_ms + late_ms < now_ms ? since_ms + late_ms : now_ms;
}

/* Takes `late_ms`, in which this process itself stood still (own stall), off the shard's
 * silence. */
void
cadre_shard_link_excuse(cadre_shard_link_t *self, uint64_t late_ms, uint64_t now_ms)
{
    self->owed_ms = later(self->owed_ms, late_ms, now_ms);
    self->connected_ms = later(self->connected_ms, late_ms, now_ms);
}

static uint64_t
earlier(uint64_t left_ms, uint64_t right_ms)
{
    return left_ms < right_ms ? left_ms : right_ms;
}

/* Returns when this link has something to do by time: a PROBE, another connection, giving the shard
 * up. UINT64_MAX while the shard owes no answer. */
uint64_t
cadre_shard_link_due_ms(const cadre_shard_link_t *self, uint64_t timeout_ms)
{
    if (!is_asked(self)) {
        return UINT64_MAX;
    }
    uint64_t due_ms = earlier(mute_due_ms(self), over_due_ms(self, timeout_ms));
    return earlier(self->probe_due_ms, due_ms);
}
