#include "coordinator/client/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/cluster_config.h"
#include "common/net/security.h"
#include "common/system/clock.h"
#include "coordinator/client/calls.h"
#include "coordinator/options.h"

enum { OPEN_MS = 10000 }; /* default of timeout_ms */

/* --- opening and closing --- */

/* Frees a client whose thread does not run (any more). */
static void
destroy(cadre_client_t *self)
{
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->socket, 0);
    if (self->context) {
        cadre_context_close(&self->context);
    }
    cadre_gate_unref(&self->gate);
    free(self);
}

/* Finds out where the coordinator is: by the options, or else by the environment. */
static int
find_coordinator(cadre_client_t *self, const char *address)
{
    cadre_auto(cadre_cluster_config_fini) cadre_cluster_config_t config = {0};
    cadre_cluster_sources_t sources = {.coordinator = address};
    cadre_cluster_sources_from_environment(&sources);
    sources.role = "worker"; /* a role whose tasks need no index */
    int status = cadre_cluster_config_read(&sources, &config);
    if (status == CADRE_ENOTFOUND) {
        return cadre_fail(CADRE_ECONFIG, "where is the coordinator? Give the options an address, "
                                         "or set CADRE_CLUSTER or TF_CONFIG");
    }
    if (status < 0) {
        return status;
    }

    self->coordinator = config.coordinator;
    return 0;
}

/* Opens context and socket, guarded by the keys of a client. */
static int
open_socket(cadre_client_t *self, const cadre_client_options_t *options)
{
    cadre_security_t security = {.keys = options->keys, .insecure = options->insecure_transport};
    int status = cadre_security_read(&security);
    if (status < 0) {
        return status;
    }
    status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }
    status = cadre_security_apply(&security, CADRE_KEY_CLIENT, self->context);
    return status < 0 ? status : cadre_client_connect(self);
}

/* Opens everything that can fail before there is a thread. */
static int
open_parts(cadre_client_t *self, const cadre_client_options_t *options)
{
    cadre_task_t task = {CADRE_ROLE_CLIENT, CADRE_INDEX_ANY, 0};
    if (getrandom(&task.incarnation, sizeof(task.incarnation), 0) < 0) {
        return cadre_fail(CADRE_EIO, "no random number: %s", strerror(errno));
    }

    cadre_attachment_init(&self->attachment, &task, (uint64_t)cadre_clock_now_ms());
    int status = cadre_gate_open(&self->gate);
    if (status < 0) {
        return status;
    }
    status = find_coordinator(self, options->address);
    return status < 0 ? status : open_socket(self, options);
}

/* Waits until the coordinator has answered, or `timeout_ms` have passed. */
static int
await_attached(cadre_client_t *self, int64_t timeout_ms)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = 0;
    cadre_gate_lock(self->gate);
    while (status == 0 && self->attachment.state == CADRE_ATTACHMENT_BEGINS) {
        status = cadre_gate_wait(self->gate, deadline_ms);
    }
    if (self->attachment.state == CADRE_ATTACHMENT_ENDED) {
        status = cadre_fail(self->attachment.status, "%s", self->attachment.text);
    }
    cadre_gate_unlock(self->gate);

    cadre_endpoint_text(&self->coordinator, address);
    if (status == CADRE_ETIMEOUT) {
        return cadre_fail(status, "%s: no answer within %lld ms: does a coordinator run there?",
                          address, (long long)timeout_ms);
    }
    return status < 0 ? cadre_fail_within(status, "%s", address) : 0;
}

int
cadre_client_open(const cadre_client_options_t *given, cadre_client_t **out)
{
    cadre_client_options_t options = cadre_client_options();
    int status =
        given ? cadre_options_take(given, &options, sizeof(options), "cadre_client_options_t") : 0;
    if (status < 0) {
        return status;
    }
    if (!out || options.timeout_ms < 0) {
        return cadre_fail(CADRE_EINVALID, "there is nowhere to put the client, or timeout_ms is "
                                          "below 0");
    }

    cadre_client_t *self = cadre_calloc(1, sizeof(*self));
    status = open_parts(self, &options);
    if (status == 0) {
        status =
            cadre_actor_open(self->context, "cadre-client", cadre_client_run, self, &self->actor);
    }
    if (status < 0) {
        destroy(self);
        return status;
    }

    status = await_attached(self, options.timeout_ms > 0 ? options.timeout_ms : OPEN_MS);
    if (status < 0) {
        cadre_client_close(&self);
        return status;
    }

    *out = self;
    return 0;
}

/* Ends the thread, which says GOODBYE, and frees the client. */
void
cadre_client_close(cadre_client_t **self_p)
{
    cadre_client_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    /* the thread does nothing that takes long: it ends within its next turn */
    while (self->actor && cadre_actor_stop(&self->actor, CADRE_ACTOR_STOP_MS) < 0) {
    }
    destroy(self);
}

const char *
cadre_client_job(const cadre_client_t *self)
{
    return self->attachment.job;
}

bool
cadre_client_may_schedule(const cadre_client_t *self)
{
    return self->attachment.may_schedule;
}

/* --- requests --- */

int
cadre_client_await(cadre_client_t *self, cadre_client_request_t *request, int64_t deadline_ms,
                   const char *what)
{
    int status = 0;
    while (status == 0 && !request->ended) {
        status = cadre_gate_wait(self->gate, deadline_ms);
    }
    if (request->ended) {
        return request->status < 0 ? cadre_fail(request->status, "%s", request->text) : 0;
    }

    int64_t silent_ms = cadre_clock_now_ms() - (int64_t)self->attachment.heard_ms;
    return cadre_fail(status, "%s: no answer in time; the coordinator was heard %lld ms ago", what,
                      (long long)(silent_ms > 0 ? silent_ms : 0));
}

int
cadre_client_ask(cadre_client_t *self, cadre_message_t *message, cadre_message_type_t expected,
                 int64_t deadline_ms, cadre_client_request_t *request)
{
    const char *what = cadre_message_type_text(message->type);
    int status = cadre_attachment_ask(&self->attachment, message, request);
    if (status < 0) {
        return status;
    }
    status = cadre_client_await(self, request, deadline_ms, what);
    if (status < 0) {
        return status;
    }
    return request->answer.type == expected
               ? 0
               : cadre_fail(CADRE_EMALFORMED, "%s: the coordinator answered something else", what);
}

int
cadre_client_list(cadre_client_t *self, const cadre_client_listing_t *listing, int64_t deadline_ms)
{
    uint64_t after = 0;
    bool more = true;
    while (more) {
        cadre_client_request_t request = {.next = NULL};
        cadre_message_t message = {.type = CADRE_MESSAGE_LIST,
                                   .list = {.kind = listing->kind, .after = after}};
        int status = cadre_client_ask(self, &message, CADRE_MESSAGE_LISTED, deadline_ms, &request);
        const cadre_listed_message_t *listed = &request.answer.listed;
        if (status == 0 && listed->items.count != CADRE_LISTED_ITEMS * listed->names.count) {
            status = cadre_fail(CADRE_EMALFORMED, "LISTED: names and items do not agree");
        }
        for (size_t i = 0; status == 0 && i < listed->names.count; i++) {
            const uint64_t *item = &listed->items.items[CADRE_LISTED_ITEMS * i];
            after = item[0];
            listing->take(listing->context, listed->names.items[i], item);
        }
        more = status == 0 && listed->more && listed->names.count > 0;
        cadre_attachment_forget(&self->attachment, &request);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}
