#include "worker/shard_link.h"

#include <stdlib.h>

#include "common/limits.h"
#include "common/memory.h"

void
cadre_shard_link_init(cadre_shard_link_t *self)
{
    *self = (cadre_shard_link_t){0};
    self->last_p = &self->first;
}

static void
destroy(cadre_link_request_t *request)
{
    cadre_outbox_entry_fini(&request->entry);
    free(request->context);
    free(request);
}

void
cadre_shard_link_fini(cadre_shard_link_t *self)
{
    while (self->first) {
        cadre_link_request_t *request = self->first;
        self->first = request->next;
        destroy(request);
    }
    cadre_shard_link_init(self);
}

void
cadre_shard_link_ask(cadre_shard_link_t *self, const cadre_link_request_t *request)
{
    cadre_link_request_t *copy = cadre_calloc(1, sizeof(*copy));
    *copy = *request;
    copy->next = NULL;
    copy->sent = false;
    *self->last_p = copy;
    self->last_p = &copy->next;
    if (!self->unsent) {
        self->unsent = copy;
    }
}

static void
send(cadre_shard_link_t *self, cadre_link_request_t *request, cadre_outbox_t *outbox)
{
    request->after = self->probe;
    cadre_outbox_repeat(outbox, &request->entry);
}

static void
rest(cadre_shard_link_t *self, uint64_t now_ms)
{
    self->probe_wait_ms = CADRE_PROBE_MS;
    self->probe_due_ms = now_ms + CADRE_PROBE_MS;
}

void
cadre_shard_link_pump(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    while (self->open && self->unsent) {
        cadre_link_request_t *request = self->unsent;
        if (self->in_flight > 0 &&
            self->in_flight_bytes + request->size_bytes > CADRE_IN_FLIGHT_SIZE_MAX) {
            return;
        }
        if (self->in_flight == 0) {
            rest(self, now_ms);
        }
        request->sent = true;
        request->first_ms = now_ms;
        self->in_flight++;
        self->in_flight_bytes += request->size_bytes;
        self->unsent = request->next;
        send(self, request, outbox);
    }
}

size_t
cadre_shard_link_probe(cadre_shard_link_t *self, uint64_t now_ms, uint64_t number,
                       uint64_t triples[3 * CADRE_PROBE_REQUESTS_MAX])
{
    if (!self->open || self->in_flight == 0 || now_ms < self->probe_due_ms) {
        return 0;
    }
    self->probe = number;
    self->probe_wait_ms =
        2 * self->probe_wait_ms < CADRE_PROBE_MAX_MS ? 2 * self->probe_wait_ms : CADRE_PROBE_MAX_MS;
    self->probe_due_ms = now_ms + self->probe_wait_ms;
    size_t count = 0;
    for (const cadre_link_request_t *request = self->first;
         request && request->sent && count < CADRE_PROBE_REQUESTS_MAX; request = request->next) {
        triples[3 * count] = request->request;
        triples[3 * count + 1] = request->update;
        triples[3 * count + 2] = 0;
        count++;
    }
    return count;
}

bool
cadre_shard_link_lost(cadre_shard_link_t *self, uint64_t id, uint64_t probe, cadre_outbox_t *outbox)
{
    for (cadre_link_request_t *request = self->first; request && request->sent;
         request = request->next) {
        if (request->request == id && request->after < probe) {
            send(self, request, outbox);
            return true;
        }
    }
    return false;
}

void
cadre_shard_link_repeat(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    self->heard_ms = now_ms;
    rest(self, now_ms);
    for (cadre_link_request_t *request = self->first; self->open && request && request->sent;
         request = request->next) {
        send(self, request, outbox);
    }
}

void
cadre_shard_link_heard(cadre_shard_link_t *self, uint64_t now_ms, bool answered)
{
    self->heard_ms = now_ms;
    self->mutes = 0;
    if (answered) {
        rest(self, now_ms);
    }
}

/* Takes *at out of the list. */
static cadre_link_request_t *
unlink_request(cadre_shard_link_t *self, cadre_link_request_t **at)
{
    cadre_link_request_t *request = *at;
    *at = request->next;
    if (self->last_p == &request->next) {
        self->last_p = at;
    }
    if (self->unsent == request) {
        self->unsent = request->next;
    }
    if (request->sent) {
        self->in_flight--;
        self->in_flight_bytes -= request->size_bytes;
    }
    return request;
}

bool
cadre_shard_link_answered(cadre_shard_link_t *self, uint64_t id, cadre_link_request_t *request)
{
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
cadre_shard_link_asked_ms(const cadre_shard_link_t *self)
{
    return self->first && self->first->sent ? self->first->first_ms : UINT64_MAX;
}

static uint64_t
mute_due_ms(const cadre_shard_link_t *self)
{
    uint64_t since_ms = cadre_shard_link_asked_ms(self);
    if (!self->open || since_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t limit_ms = CADRE_MUTE_MS + 1000 * self->in_flight_bytes / CADRE_LINK_RATE_MIN;
    for (uint32_t i = 0; i < self->mutes && limit_ms < CADRE_MUTE_MAX_MS; i++) {
        limit_ms *= 2;
    }
    since_ms = since_ms > self->heard_ms ? since_ms : self->heard_ms;
    return since_ms + limit_ms;
}

bool
cadre_shard_link_is_mute(const cadre_shard_link_t *self, uint64_t now_ms)
{
    return now_ms >= mute_due_ms(self);
}

uint64_t
cadre_shard_link_due_ms(const cadre_shard_link_t *self)
{
    if (!self->open || self->in_flight == 0) {
        return UINT64_MAX;
    }
    uint64_t due_ms = mute_due_ms(self);
    return self->probe_due_ms < due_ms ? self->probe_due_ms : due_ms;
}
