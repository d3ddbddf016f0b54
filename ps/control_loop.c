#include "ps/control_loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/authenticator.h"
#include "common/net/monitor.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "common/wire/codec.h"
#include "ps/core/ps_core.h"
#include "ps/core/ps_metrics.h"
#include "ps/shard_actor.h"
#include "ps/store_actor.h"

enum {
    TURN_MESSAGES = 64,       /* of one source in one turn */
    WAITING_FIRST_MS = 5000,  /* without a coordinator: then the log says so, */
    WAITING_LAST_MS = 300000, /* ever more seldom up to this */
    HOST_SIZE = CADRE_HOST_SIZE_MAX + 1,
};

struct cadre_control_loop {
    cadre_control_options_t options;
    cadre_context_t *context;
    cadre_authenticator_t *authenticator; /* NULL without keys */
    cadre_socket_t *control;
    cadre_monitor_t *monitor;
    cadre_actor_t *shard;
    cadre_actor_t *store;
    cadre_ps_core_t *core;
    cadre_frames_t frames;
    cadre_outbox_t outbox; /* answers of the shard */
    uint64_t epoch;        /* the shard's; what it still says of another one is dropped */
    const char *transport; /* of both sockets, the worse one */
    char host[HOST_SIZE];
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    bool connected;
    bool was_connected; /* at any time */
    bool ended;
    int refused;      /* status of a coordinator that did not take this ps */
    bool load_stands; /* a checkpoint that the shard waits for is not read any more */
    bool is_probed;   /* the shard was asked for a sign of life and has given none since */
    int64_t probed_ms;
    int signal;
    int64_t waiting_since_ms;
    int64_t waiting_due_ms; /* when the log says again that the coordinator is away */
    int64_t waiting_ms;
    int64_t redial_ms;     /* when to try again, after a failed handshake; 0: there was none */
    int64_t failed_log_ms; /* when the log may tell again that a handshake failed */
    uint64_t withdrawals;  /* of keys, as far as they were looked at */
    cadre_ps_figures_t
        figures;      /* what is told of them over HTTP, but for what is known when asked */
    int64_t write_ms; /* when a snapshot was given to the store */
};

const char *const CADRE_CONTROL_ACTORS[CADRE_CONTROL_ACTOR_COUNT] = {
    [CADRE_CONTROL_TURN] = "control loop", [CADRE_CONTROL_SHARD_TURN] = "shard"};

static uint64_t
now(void)
{
    return (uint64_t)cadre_clock_now_ms();
}

/* --- opening --- */

/* On the authenticator's thread. */
static void
tell_audit(void *context, char level, const char *event, const char *pairs)
{
    (void)context;
    cadre_log_pairs(cadre_log_level_of(level), event, pairs);
}

static int
open_context(cadre_control_loop_t *self)
{
    int status = cadre_context_open(&self->context);
    if (status == 0) {
        status = cadre_security_apply(&self->options.security, CADRE_KEY_PS, self->context);
    }
    if (status == 0 && cadre_context_keyring(self->context)) {
        status = cadre_authenticator_open(self->context, tell_audit, NULL, &self->authenticator);
    }
    return status;
}

/* Of the data socket, and of the connection to the coordinator. */
static int
check_security(cadre_control_loop_t *self, const cadre_endpoint_t *bound)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    const cadre_endpoint_t *const both[] = {bound, &self->options.coordinator};
    self->transport = cadre_security_transport(self->context, bound);
    for (size_t i = 0; i < CADRE_COUNT_OF(both); i++) {
        if (cadre_security_is_insecure(self->context, both[i])) {
            self->transport = cadre_security_transport(self->context, both[i]);
            cadre_log(CADRE_LOG_WARN, "insecure_transport",
                      "address=%s why=\"whoever reaches it takes part and reads along\"",
                      cadre_endpoint_text(both[i], text));
        }
    }
    return self->authenticator && bound->kind == CADRE_ENDPOINT_TCP
               ? cadre_authenticator_check(self->authenticator, bound)
               : 0;
}

/* What peers connect to: where the socket is bound, with this host's name where that is "any". */
static int
make_address(cadre_control_loop_t *self, const cadre_socket_t *data)
{
    cadre_endpoint_t endpoint = *cadre_socket_endpoint(data);
    if (!cadre_endpoint_is_concrete(&endpoint)) {
        snprintf(endpoint.host, sizeof(endpoint.host), "%s", self->host);
    }
    cadre_endpoint_text(&endpoint, self->address);
    if (strlen(self->address) > CADRE_HEADER_STRING_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "the address %s is too long", self->address);
    }
    return 0;
}

static int
open_shard(cadre_control_loop_t *self)
{
    cadre_socket_t *data = NULL;
    cadre_monitor_t *monitor = NULL;
    int status = cadre_socket_open_router(self->context, CADRE_PLANE_DATA, &data);
    if (status == 0) {
        status = cadre_monitor_open_for(
            self->context, data,
            1U << CADRE_EVENT_NOT_ACCEPTED | 1U << CADRE_EVENT_HANDSHAKE_FAILED, &monitor);
    }
    if (status == 0) {
        status = cadre_socket_bind(data, &self->options.address);
    }
    if (status == 0) {
        status = check_security(self, cadre_socket_endpoint(data));
    }
    if (status == 0) {
        status = make_address(self, data);
    }
    if (status == 0) {
        const cadre_shard_actor_options_t options = {.incarnation = self->options.incarnation,
                                                     .size_bytes_max = self->options.size_bytes_max,
                                                     .lanes = self->options.lanes,
                                                     .folders = self->options.folders};
        status = cadre_shard_actor_open(self->context, &options, data, monitor, &self->shard);
    }
    if (status < 0) {
        cadre_monitor_close(&monitor);
        cadre_socket_close(&data, 0);
    }
    return status;
}

static cadre_task_t
own_task(const cadre_control_loop_t *self)
{
    return (cadre_task_t){CADRE_ROLE_PS, self->options.index, self->options.incarnation};
}

/* A control socket that connects in the background; nothing is left open when it fails. */
static int
dial(const cadre_control_loop_t *self, cadre_socket_t **control, cadre_monitor_t **monitor)
{
    cadre_task_t task = own_task(self);
    char id[CADRE_TASK_TEXT_SIZE];
    int status = cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL,
                                          cadre_task_text(&task, id), control);
    if (status == 0) {
        status = cadre_monitor_open(self->context, *control, monitor);
    }
    if (status == 0) {
        status = cadre_socket_connect(*control, &self->options.coordinator);
    }
    if (status < 0) {
        cadre_monitor_close(monitor);
        cadre_socket_close(control, 0);
    }
    return status;
}

static int
open_control(cadre_control_loop_t *self)
{
    int status = dial(self, &self->control, &self->monitor);
    if (status == 0) {
        cadre_ps_options_t options = {.task = own_task(self),
                                      .build = CADRE_VERSION,
                                      .host = self->host,
                                      .address = self->address,
                                      .process = (uint32_t)getpid(),
                                      .folderless = cadre_folders_is_empty(self->options.folders)};
        self->core = cadre_ps_core_new(&options);
    }
    return status;
}

static void
begin_waiting(cadre_control_loop_t *self)
{
    self->waiting_since_ms = cadre_clock_now_ms();
    self->waiting_ms = WAITING_FIRST_MS;
    self->waiting_due_ms = self->waiting_since_ms + self->waiting_ms;
}

int
cadre_control_loop_open(const cadre_control_options_t *options, cadre_control_loop_t **out)
{
    cadre_control_loop_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    if (gethostname(self->host, sizeof(self->host) - 1) < 0) {
        snprintf(self->host, sizeof(self->host), "localhost");
    }
    int status = open_context(self);
    if (status == 0) {
        status = open_shard(self);
    }
    if (status == 0) {
        status = cadre_store_actor_open(self->context, self->options.folders, &self->store);
    }
    if (status == 0) {
        status = open_control(self);
    }
    if (status < 0) {
        cadre_control_loop_close(&self);
        return status;
    }
    begin_waiting(self);
    self->figures.build = CADRE_VERSION;
    self->figures.size_bytes_max = options->size_bytes_max;
    *out = self;
    return 0;
}

int
cadre_control_loop_refused(const cadre_control_loop_t *self)
{
    return self->refused;
}

const char *
cadre_control_loop_address(const cadre_control_loop_t *self)
{
    return self->address;
}

/* --- to the actors --- */

static void
tell_shard(cadre_control_loop_t *self, uint32_t kind, void *pointer)
{
    if (cadre_pipe_send(cadre_actor_socket(self->shard), kind, pointer) < 0) {
        cadre_pipe_message_t lost = {kind, pointer};
        cadre_shard_actor_drop(&lost);
    }
}

/* An epoch of 0 empties the shard. */
static void
begin_session(cadre_control_loop_t *self, uint32_t index, uint64_t epoch)
{
    cadre_shard_session_t *session = cadre_calloc(1, sizeof(*session));
    *session =
        (cadre_shard_session_t){.index = index,
                                .epoch = epoch,
                                .coordinator = cadre_ps_core_coordinator(self->core).incarnation};
    tell_shard(self, CADRE_SHARD_SESSION, session);
    self->epoch = epoch;
    self->figures.generation = 0;
    self->figures.sessions += epoch != 0;
}

static void
ask_shard(cadre_control_loop_t *self, const cadre_ps_event_t *event)
{
    cadre_shard_question_note_t *note = cadre_calloc(1, sizeof(*note));
    note->from = cadre_ps_core_coordinator(self->core);
    note->message = event->message;
    tell_shard(self, CADRE_SHARD_QUESTION, note);
}

static void
abandon(cadre_control_loop_t *self, const cadre_ps_event_t *event)
{
    cadre_store_abandon_t *abandoned = cadre_calloc(1, sizeof(*abandoned));
    *abandoned = (cadre_store_abandon_t){event->epoch, event->checkpoint};
    if (cadre_pipe_send(cadre_actor_socket(self->store), CADRE_STORE_ABANDON, abandoned) < 0) {
        free(abandoned);
    }
}

/* One question at a time: a shard that is stuck is not asked again. */
static void
probe(cadre_control_loop_t *self)
{
    if (!self->is_probed) {
        self->is_probed = true;
        self->probed_ms = cadre_clock_now_ms();
        tell_shard(self, CADRE_SHARD_PROBE, NULL);
    }
}

/* Whether the shard's thread, or the one that reads for it, stands still: no other session could
 * use it. */
static bool
is_stuck(const cadre_control_loop_t *self)
{
    return self->load_stands ||
           (self->is_probed && cadre_clock_now_ms() - self->probed_ms >= CADRE_MUTE_MS);
}

static void
leave(cadre_control_loop_t *self, const cadre_ps_event_t *event)
{
    bool waits = self->options.wait && self->signal == 0 && !is_stuck(self);
    cadre_log(CADRE_LOG_INFO, "left", "reason=\"%s\" next=\"%s\"", event->text,
              waits ? "waiting for another session" : "exit");
    if (waits) {
        begin_session(self, 0, 0);
        cadre_ps_core_return(self->core, now());
    } else {
        self->ended = true;
    }
}

/* Another socket, under the same name, in the place of the present one, which stays when there is
 * none to be had. */
static int
replace_control(cadre_control_loop_t *self)
{
    cadre_socket_t *control = NULL;
    cadre_monitor_t *monitor = NULL;
    int status = dial(self, &control, &monitor);
    if (status == 0) {
        cadre_monitor_close(&self->monitor);
        cadre_socket_close(&self->control, 0);
        self->monitor = monitor;
        self->control = control;
    }
    return status;
}

/* The connection is up and nobody answers. */
static void
dial_again(cadre_control_loop_t *self)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(&self->options.coordinator, text);
    if (replace_control(self) < 0) {
        cadre_log(CADRE_LOG_ERROR, "mute", "coordinator=%s why=\"%s\" next=\"keeps asking\"", text,
                  cadre_error_text());
        return;
    }
    cadre_log(CADRE_LOG_WARN, "mute", "coordinator=%s silent_ms=%d next=\"another connection\"",
              text, CADRE_MUTE_MS);
    self->connected = false;
    begin_waiting(self);
    cadre_ps_core_disconnected(self->core);
}

static void
take_events(cadre_control_loop_t *self)
{
    cadre_ps_event_t event;
    while (cadre_ps_core_event(self->core, &event)) {
        switch (event.kind) {
        case CADRE_PS_SESSION:
            begin_session(self, event.index, event.epoch);
            cadre_log_set_index(event.index);
            cadre_log(CADRE_LOG_INFO, "joined", "shard=%" PRIu32 " epoch=%" PRIu64, event.index,
                      event.epoch);
            break;
        case CADRE_PS_MESSAGE:
            ask_shard(self, &event);
            break;
        case CADRE_PS_MALFORMED:
            tell_shard(self, CADRE_SHARD_MALFORMED, NULL);
            break;
        case CADRE_PS_PROBE:
            probe(self);
            break;
        case CADRE_PS_ABANDON:
            abandon(self, &event);
            break;
        case CADRE_PS_MUTE:
            dial_again(self);
            break;
        case CADRE_PS_REFUSED:
            cadre_log(CADRE_LOG_ERROR, "refused", "why=\"%s\" next=exit", event.text);
            self->refused = event.status;
            self->ended = true;
            break;
        case CADRE_PS_LEFT:
            leave(self, &event);
            break;
        }
    }
}

/* --- from the actors --- */

static void
write_snapshot(cadre_control_loop_t *self, cadre_shard_snapshot_t *snapshot)
{
    bool wanted = snapshot->epoch == self->epoch;
    self->write_ms = cadre_clock_now_ms();
    if (!wanted ||
        cadre_pipe_send(cadre_actor_socket(self->store), CADRE_STORE_WRITE, snapshot) < 0) {
        cadre_shard_snapshot_destroy(&snapshot);
    }
}

/* The shard's thread has taken a turn, and told its counters. */
static void
take_counts(cadre_control_loop_t *self, const cadre_shard_counts_t *counts)
{
    self->is_probed = false;
    if (self->options.http) {
        cadre_http_server_turned(self->options.http, CADRE_CONTROL_SHARD_TURN,
                                 cadre_clock_now_ms());
    }
    if (counts->epoch != self->epoch) {
        return;
    }
    cadre_ps_core_counted(self->core, counts->counters, counts->generation, counts->moves);
    self->load_stands = !counts->moves;
    cadre_ps_figures_t *figures = &self->figures;
    memcpy(figures->counters, counts->counters, sizeof(figures->counters));
    figures->restores += counts->generation && counts->generation != figures->generation;
    figures->generation = counts->generation;
    figures->shard = counts->figures;
}

/* What the shard says; never waits. */
static void
hear_shard(cadre_control_loop_t *self)
{
    cadre_pipe_message_t message;
    for (int i = 0; i < TURN_MESSAGES; i++) {
        if (cadre_pipe_receive(cadre_actor_socket(self->shard), &message) < 0) {
            return;
        }
        if (message.kind == CADRE_SHARD_ANSWER) {
            cadre_outbox_repeat(&self->outbox, message.pointer);
        } else if (message.kind == CADRE_SHARD_SNAPSHOT) {
            write_snapshot(self, message.pointer);
            continue;
        } else if (message.kind == CADRE_SHARD_COUNTED) {
            take_counts(self, message.pointer);
        }
        cadre_shard_actor_drop(&message);
    }
}

static void
hear_store(cadre_control_loop_t *self)
{
    cadre_pipe_message_t message;
    while (cadre_pipe_receive(cadre_actor_socket(self->store), &message) == 0) {
        const cadre_ps_written_t *written = message.pointer;
        if (written->epoch == self->epoch) {
            cadre_ps_core_written(self->core, written, now());
        }
        self->figures.failed += written->status < 0;
        if (written->status == 0) {
            self->figures.written++;
            self->figures.written_bytes = written->size_bytes;
            self->figures.written_ms = now() - (uint64_t)self->write_ms;
        }
        free(message.pointer);
    }
}

/* --- the control socket --- */

static void
hear_coordinator(cadre_control_loop_t *self)
{
    for (int i = 0; i < TURN_MESSAGES; i++) {
        cadre_message_t message;
        int status = cadre_socket_receive(self->control, &self->frames);
        if (status == CADRE_EAGAIN || status == CADRE_ECLOSED) {
            return;
        }
        if (status == 0) {
            status = cadre_message_decode(cadre_chunk_data(self->frames.header),
                                          cadre_chunk_size_bytes(self->frames.header),
                                          self->frames.chunks, self->frames.count, &message);
        }
        if (status == 0) {
            cadre_ps_core_receive(self->core, &message, now());
        } else {
            cadre_log(CADRE_LOG_WARN, "malformed", "from=coordinator why=\"%s\" next=dropped",
                      cadre_error_text());
            cadre_ps_core_malformed(self->core);
        }
        take_events(self); /* in the order of the messages */
    }
}

/* Sends until nothing is left (true) or the socket is full. */
static bool
send_from(cadre_control_loop_t *self, cadre_outbox_t *outbox)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(outbox, &entry)) {
        int status =
            cadre_socket_send(self->control, NULL, entry.header, entry.chunks, entry.chunk_count);
        if (status == CADRE_EAGAIN) {
            cadre_outbox_push_front(outbox, &entry);
            return false;
        }
        cadre_outbox_entry_fini(&entry);
    }
    return true;
}

/* The shard's answers go first: a GOODBYE is the last thing a ps says. */
static bool
send_all(cadre_control_loop_t *self)
{
    return send_from(self, &self->outbox) && send_from(self, cadre_ps_core_outbox(self->core));
}

/* Each try to connect ends so: the log has one line now and then. */
static void
tell_failed(cadre_control_loop_t *self, const cadre_event_t *event)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    int64_t now_ms = cadre_clock_now_ms();
    self->redial_ms = now_ms + CADRE_REDIAL_MS;
    if (now_ms >= self->failed_log_ms) {
        self->failed_log_ms = now_ms + CADRE_DROPPED_LOG_MS;
        bool guarded = cadre_context_keyring(self->context) != NULL;
        cadre_log(CADRE_LOG_ERROR, "handshake_failed",
                  "coordinator=%s why=\"%s\" next=\"keeps dialling\"",
                  cadre_endpoint_text(&self->options.coordinator, text),
                  cadre_event_why_failed(event, guarded));
    }
}

/* libzmq gives an address up whose handshake has failed; but keys are added, and others may have
 * had the port of a coordinator that is to come. */
static void
dial_refused(cadre_control_loop_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    if (self->redial_ms > 0 && now_ms >= self->redial_ms) {
        self->redial_ms = replace_control(self) < 0 ? now_ms + CADRE_REDIAL_MS : 0;
    }
}

/* A ps whose coordinator is not trusted any more ends: what it is told may be anybody's. */
static void
watch_keys(cadre_control_loop_t *self)
{
    const cadre_keyring_t *keyring = cadre_context_keyring(self->context);
    if (!keyring || cadre_keyring_withdrawals(keyring) == self->withdrawals) {
        return;
    }
    self->withdrawals = cadre_keyring_withdrawals(keyring);
    if (!cadre_socket_trusted(self->control)) {
        cadre_log(CADRE_LOG_ERROR, "refused",
                  "why=\"the coordinator's key is withdrawn\" next=exit");
        self->refused = CADRE_EREFUSED;
        self->ended = true;
    }
}

static void
watch_connection(cadre_control_loop_t *self)
{
    cadre_event_t event;
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    while (cadre_monitor_receive(self->monitor, &event) == 0) {
        if (event.kind == CADRE_EVENT_READY) {
            self->connected = true;
            self->was_connected = true;
            self->redial_ms = 0; /* libzmq had tried again by itself */
            cadre_log(CADRE_LOG_INFO, "connected", "coordinator=%s",
                      cadre_endpoint_text(&self->options.coordinator, text));
            cadre_ps_core_connected(self->core, now());
        } else if (event.kind == CADRE_EVENT_HANDSHAKE_FAILED) {
            tell_failed(self, &event);
        } else if (event.kind == CADRE_EVENT_DISCONNECTED && self->connected) {
            self->connected = false;
            begin_waiting(self);
            cadre_log(CADRE_LOG_WARN, "disconnected", "coordinator=%s next=\"dialling again\"",
                      cadre_endpoint_text(&self->options.coordinator, text));
            cadre_ps_core_disconnected(self->core);
        }
    }
}

/* When a coordinator that stays away has been waited for long enough. */
static int64_t
away_due_ms(const cadre_control_loop_t *self)
{
    bool waits = self->connected || !self->was_connected || self->options.away_ms == 0;
    return waits ? INT64_MAX : self->waiting_since_ms + self->options.away_ms;
}

/* When the log is to say that the coordinator is away; says it when that time has come. */
static int64_t
complain(cadre_control_loop_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    if (self->connected) {
        return INT64_MAX;
    }
    if (now_ms >= away_due_ms(self)) {
        cadre_log(CADRE_LOG_WARN, "left", "reason=\"the coordinator stays away\" next=exit");
        self->ended = true;
        return now_ms;
    }
    if (now_ms >= self->waiting_due_ms) {
        char text[CADRE_ENDPOINT_TEXT_SIZE];
        cadre_log(CADRE_LOG_WARN, "waiting_for_coordinator",
                  "coordinator=%s seconds=%" PRId64 " limit_s=%" PRId64,
                  cadre_endpoint_text(&self->options.coordinator, text),
                  (now_ms - self->waiting_since_ms) / 1000,
                  (self->was_connected ? self->options.away_ms : 0) / 1000);
        self->waiting_ms =
            2 * self->waiting_ms < WAITING_LAST_MS ? 2 * self->waiting_ms : WAITING_LAST_MS;
        self->waiting_due_ms = now_ms + self->waiting_ms;
    }
    int64_t due_ms = away_due_ms(self);
    return due_ms < self->waiting_due_ms ? due_ms : self->waiting_due_ms;
}

/* --- what is told over HTTP --- */

/* Publishes the figures when that is due, and has the shard show then that it takes turns. */
static void
publish(cadre_control_loop_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    cadre_ps_figures_t *figures = &self->figures;
    if (!self->options.http) {
        return;
    }
    cadre_http_server_turned(self->options.http, CADRE_CONTROL_TURN, now_ms);
    figures->connected = self->connected;
    figures->leaving = self->ended;
    figures->contact = cadre_ps_core_contact(self->core);
    const char *unready = cadre_ps_unready(figures);
    if (cadre_http_server_is_due(self->options.http, unready, now_ms)) {
        cadre_metrics_text_t text = {.bytes = NULL};
        cadre_ps_metrics(figures, (uint64_t)now_ms, &text);
        cadre_metrics_text_transport(&text, "ps", self->transport);
        cadre_metrics_text_keys(&text, "ps",
                                cadre_keyring_unreadable(cadre_context_keyring(self->context)));
        cadre_http_server_publish(self->options.http, &text, unready, now_ms);
        probe(self);
    }
}

/* --- the loop --- */

static void
hear_signal(cadre_control_loop_t *self)
{
    struct signalfd_siginfo info;
    if (read(self->options.signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return;
    }
    char reason[CADRE_TEXT_SIZE_MAX];
    self->signal = (int)info.ssi_signo;
    snprintf(reason, sizeof(reason), "%s", strsignal(self->signal));
    cadre_ps_core_leave(self->core, reason);
    self->ended = true;
}

static void
wait_for_something(cadre_control_loop_t *self, uint64_t due_ms, bool is_blocked)
{
    int64_t complain_ms = complain(self);
    int64_t now_ms = cadre_clock_now_ms();
    int64_t due = due_ms < (uint64_t)complain_ms ? (int64_t)due_ms : complain_ms;
    due = self->redial_ms > 0 && self->redial_ms < due ? self->redial_ms : due;
    if (self->options.http && due > now_ms + CADRE_HTTP_PUBLISH_MS) {
        due = now_ms + CADRE_HTTP_PUBLISH_MS;
    }
    long timeout_ms = due == INT64_MAX ? -1 : due > now_ms ? (long)(due - now_ms) : 0;
    zmq_pollitem_t items[] = {
        {.socket = cadre_socket_handle(self->control),
         .events = (short)(is_blocked ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN)},
        {.socket = cadre_monitor_handle(self->monitor), .events = ZMQ_POLLIN},
        {.socket = cadre_actor_socket(self->shard), .events = ZMQ_POLLIN},
        {.socket = cadre_actor_socket(self->store), .events = ZMQ_POLLIN},
        {.fd = self->options.signals, .events = ZMQ_POLLIN},
    };
    cadre_poll(items, (int)CADRE_COUNT_OF(items), timeout_ms);
    if (items[CADRE_COUNT_OF(items) - 1].revents) {
        hear_signal(self);
    }
}

int
cadre_control_loop_run(cadre_control_loop_t *self)
{
    while (!self->ended) {
        uint64_t due_ms = cadre_ps_core_tick(self->core, now());
        take_events(self);
        bool is_blocked = !send_all(self);
        publish(self);
        if (self->ended) {
            break;
        }
        wait_for_something(self, due_ms, is_blocked);
        watch_connection(self);
        hear_shard(self);
        hear_store(self);
        hear_coordinator(self);
        take_events(self);
        watch_keys(self);
        dial_refused(self);
    }
    send_all(self);
    return self->signal;
}

/* Ends the actors and frees what they had still said. */
static int
close_actors(cadre_control_loop_t *self)
{
    cadre_pipe_message_t message;
    int status = self->shard ? cadre_actor_end(self->shard, CADRE_ACTOR_STOP_MS) : 0;
    if (status == 0 && self->store) {
        status = cadre_actor_end(self->store, CADRE_ACTOR_STOP_MS);
    }
    if (status < 0) {
        return status;
    }
    while (self->shard && cadre_pipe_receive(cadre_actor_socket(self->shard), &message) == 0) {
        cadre_shard_actor_drop(&message);
    }
    while (self->store && cadre_pipe_receive(cadre_actor_socket(self->store), &message) == 0) {
        free(message.pointer);
    }
    cadre_actor_stop(&self->shard, CADRE_ACTOR_STOP_MS);
    cadre_actor_stop(&self->store, CADRE_ACTOR_STOP_MS);
    return 0;
}

int
cadre_control_loop_close(cadre_control_loop_t **self_p)
{
    cadre_control_loop_t *self = *self_p;
    if (!self) {
        return 0;
    }
    int status = close_actors(self);
    if (status < 0) {
        return status;
    }
    *self_p = NULL;
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->control, CADRE_CLEAN_STOP_LINGER_MS);
    cadre_ps_core_destroy(&self->core);
    cadre_frames_fini(&self->frames);
    cadre_outbox_fini(&self->outbox);
    status = cadre_authenticator_close(&self->authenticator, CADRE_ACTOR_STOP_MS);
    if (status < 0) {
        return status;
    }
    cadre_context_close(&self->context);
    free(self);
    return 0;
}
