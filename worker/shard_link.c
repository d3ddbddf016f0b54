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

void
cadre_shard_link_pump(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    while (self->open && self->unsent) {
        cadre_link_request_t *request = self->unsent;
        if (self->in_flight > 0 &&
            self->in_flight_bytes + request->size_bytes > CADRE_IN_FLIGHT_SIZE_MAX) {
            return;
        }
        request->sent = true;
        request->sent_ms = now_ms;
        request->first_ms = now_ms;
        self->in_flight++;
        self->in_flight_bytes += request->size_bytes;
        self->unsent = request->next;
        cadre_outbox_repeat(outbox, &request->entry);
    }
}

void
cadre_shard_link_tick(cadre_shard_link_t *self, uint64_t now_ms, uint64_t resend_ms,
                      cadre_outbox_t *outbox)
{
    for (cadre_link_request_t *request = self->first; self->open && request && request->sent;
         request = request->next) {
        if (now_ms >= request->sent_ms + resend_ms) {
            request->sent_ms = now_ms;
            cadre_outbox_repeat(outbox, &request->entry);
        }
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

bool
cadre_shard_link_is_mute(const cadre_shard_link_t *self, uint64_t now_ms, uint64_t mute_ms)
{
    uint64_t since_ms = cadre_shard_link_asked_ms(self);
    since_ms = since_ms > self->heard_ms ? since_ms : self->heard_ms;
    return self->open && now_ms >= since_ms && now_ms - since_ms >= mute_ms;
}

uint64_t
cadre_shard_link_due_ms(const cadre_shard_link_t *self, uint64_t resend_ms)
{
    uint64_t due_ms = UINT64_MAX;
    for (const cadre_link_request_t *request = self->first; self->open && request && request->sent;
         request = request->next) {
        if (request->sent_ms + resend_ms < due_ms) {
            due_ms = request->sent_ms + resend_ms;
        }
    }
    return due_ms;
}
