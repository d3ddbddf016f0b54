#include "ps/control_loop.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/authenticator.h"
#include "common/net/control_link.h"
#include "common/net/monitor.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "ps/core/ps_core.h"
#include "ps/core/ps_metrics.h"
#include "ps/shard_actor.h"
#include "ps/store_actor.h"

enum {
    TURN_MESSAGES = 64, /* messages taken from one socket in one turn */
    HOST_SIZE = CADRE_HOST_SIZE_MAX + 1,
};

struct cadre_control_loop {
    cadre_control_options_t options;
    cadre_context_t *context;
    cadre_authenticator_t *authenticator; /* NULL without keys */
    cadre_control_link_t *link;
    cadre_actor_t *shard;
    cadre_actor_t *store;
    cadre_ps_core_t *core;
    /* Epoch of the shard's session; what the shard says of an earlier one is dropped. */
    uint64_t epoch;
    const char *transport; /* the less protected transport of the two sockets, for metrics */
    char host[HOST_SIZE];
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    bool ended;           /* the session is over, and no other is waited for */
    int refused;          /* why the coordinator has refused this ps; 0: it has not */
    bool load_stands;     /* reading a checkpoint that the shard waits for makes no progress */
    bool is_probed;       /* the shard was asked for its counters and has not answered */
    int64_t probed_ms;    /* when the shard was last asked for its counters */
    int signal;           /* the signal that ends this ps; 0: none came */
    void *owner;          /* pipe of who hosts this ps; NULL: nobody */
    uint64_t withdrawals; /* how many withdrawn keys were looked at so far */
    cadre_ps_figures_t figures; /* for /metrics; some are filled in just before publishing */
    int64_t write_ms;           /* when a snapshot was given to the store */
};

const char *const CADRE_CONTROL_ACTORS[CADRE_CONTROL_ACTOR_COUNT] = {
    [CADRE_CONTROL_TURN] = "control loop", [CADRE_CONTROL_SHARD_TURN] = "shard"};

static uint64_t
now(void)
{
    return (uint64_t)cadre_clock_now_ms();
}

/* --- opening --- */

/* Logs an event of the authenticator; called on the authenticator's thread. */
static void
tell_audit(void *context, char level, const char *event, const char *pairs)
{
    (void)context;
    cadre_log_pairs(cadre_log_level_of(level), event, pairs);
}

/* Takes the ZeroMQ context of the host, if there is one; else opens one, applies keys and security
 * to it, and with keys starts the thread that authenticates peers. */
static int
open_context(cadre_control_loop_t *self)
{
    if (self->options.context) {
        self->context = self->options.context;
        return 0;
    }

    int status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }

    status = cadre_security_apply(&self->options.security, CADRE_KEY_PS, self->context);
    if (status < 0 || !cadre_context_keyring(self->context)) {
        return status;
    }

    return cadre_authenticator_open(self->context, tell_audit, NULL, &self->authenticator);
}

/* Checks how the data socket and the connection to the coordinator are protected: warns of each
 * that other machines can reach without keys, and notes the less protected transport for metrics.
 * With keys, fails if the data socket lets a stranger in. */
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

/* Writes the address that peers connect to: where the socket is bound, with this host's name if it
 * is bound to all addresses. */
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

/* Binds the data socket and hands it to the shard's actor, with the monitor of its connections. */
static int
start_shard(cadre_control_loop_t *self, cadre_socket_t *data, cadre_monitor_t *monitor)
{
    int status = cadre_socket_bind(data, &self->options.address);
    if (status < 0) {
        return status;
    }

    status = check_security(self, cadre_socket_endpoint(data));
    if (status < 0) {
        return status;
    }

    status = make_address(self, data);
    if (status < 0) {
        return status;
    }

    const cadre_shard_actor_options_t options = {.incarnation = self->options.incarnation,
                                                 .size_bytes_max = self->options.size_bytes_max,
                                                 .lanes = self->options.lanes,
                                                 .table_lanes = self->options.table_lanes,
                                                 .folders = self->options.folders,
                                                 .shortcut = self->options.shortcut};
    return cadre_shard_actor_open(self->context, &options, data, monitor, &self->shard);
}

/* Opens the data socket, on which workers and the coordinator reach the shard, with a monitor of
 * its connections, and starts the shard's actor with both. */
static int
open_shard(cadre_control_loop_t *self)
{
    cadre_socket_t *data = NULL;
    cadre_monitor_t *monitor = NULL;
    int status = cadre_socket_open_router(self->context, CADRE_PLANE_DATA, &data);
    if (status < 0) {
        return status;
    }

    /* The monitor is opened before the socket is bound, so that it misses no connection. */
    status = cadre_monitor_open_for(
        self->context, data, 1U << CADRE_EVENT_NOT_ACCEPTED | 1U << CADRE_EVENT_HANDSHAKE_FAILED,
        &monitor);
    if (status == 0) {
        status = start_shard(self, data, monitor);
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

/* Opens the connection to the coordinator, and makes the core of this ps, which says HELLO once the
 * connection is up. */
static int
open_control(cadre_control_loop_t *self)
{
    const cadre_control_link_options_t link = {.coordinator = self->options.coordinator,
                                               .task = own_task(self),
                                               .away_ms = self->options.away_ms};
    int status = cadre_control_link_open(self->context, &link, &self->link);
    if (status < 0) {
        return status;
    }

    const cadre_ps_options_t options = {.session = {.task = own_task(self),
                                                    .build = CADRE_VERSION,
                                                    .host = self->host,
                                                    .process = (uint32_t)getpid(),
                                                    .away_ms = self->options.away_ms},
                                        .address = self->address,
                                        .folderless =
                                            cadre_folders_is_empty(self->options.folders)};
    self->core = cadre_ps_core_new(&options);
    return 0;
}

/* Opens context, shard actor, store actor (it writes snapshots) and connection, in this order; on
 * failure the caller closes what is open. The shard comes before the connection because HELLO names
 * the shard's address. */
static int
open_parts(cadre_control_loop_t *self)
{
    int status = open_context(self);
    if (status < 0) {
        return status;
    }

    status = open_shard(self);
    if (status < 0) {
        return status;
    }

    status = cadre_store_actor_open(self->context, self->options.folders, &self->store);
    if (status < 0) {
        return status;
    }

    return open_control(self);
}

/* Opens everything that a ps needs; nothing is sent before cadre_control_loop_run. */
int
cadre_control_loop_open(const cadre_control_options_t *options, cadre_control_loop_t **out)
{
    cadre_control_loop_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    if (gethostname(self->host, sizeof(self->host) - 1) < 0) {
        snprintf(self->host, sizeof(self->host), "localhost");
    }

    int status = open_parts(self);
    if (status < 0) {
        cadre_control_loop_close(&self);
        return status;
    }

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

/* --- messages to the actors --- */

/* Sends a message to the shard's actor; frees its object when the pipe is closed. */
static void
tell_shard(cadre_control_loop_t *self, uint32_t kind, void *pointer)
{
    if (cadre_pipe_send(cadre_actor_socket(self->shard), kind, pointer) < 0) {
        cadre_pipe_message_t lost = {kind, pointer};
        cadre_shard_actor_free_message(&lost);
    }
}

/* Begins a session of the shard; epoch 0 empties the shard without another session. */
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

/* Hands a message of the coordinator to the shard, which answers by itself. */
static void
ask_shard(cadre_control_loop_t *self, const cadre_ps_event_t *event)
{
    cadre_shard_question_note_t *note = cadre_calloc(1, sizeof(*note));
    note->from = cadre_ps_core_coordinator(self->core);
    note->message = event->message;
    tell_shard(self, CADRE_SHARD_QUESTION, note);
}

/* Tells the store actor to stop writing the snapshot of a checkpoint that is no longer wanted. */
static void
abandon(cadre_control_loop_t *self, const cadre_ps_event_t *event)
{
    cadre_store_abandon_t *abandoned = cadre_calloc(1, sizeof(*abandoned));
    *abandoned = (cadre_store_abandon_t){event->epoch, event->checkpoint};
    if (cadre_pipe_send(cadre_actor_socket(self->store), CADRE_STORE_ABANDON, abandoned) < 0) {
        free(abandoned);
    }
}

/* Asks the shard for its counters, unless a question before is unanswered: a stuck shard is not
 * asked again. */
static void
probe(cadre_control_loop_t *self)
{
    if (!self->is_probed) {
        self->is_probed = true;
        self->probed_ms = cadre_clock_now_ms();
        tell_shard(self, CADRE_SHARD_PROBE, NULL);
    }
}

/* Returns whether the shard's thread, or the thread that reads checkpoints for it, makes no
 * progress: then this process cannot serve another session. */
static bool
is_stuck(const cadre_control_loop_t *self)
{
    return self->load_stands ||
           (self->is_probed && cadre_clock_now_ms() - self->probed_ms >= CADRE_MUTE_MS);
}

/* Acts on the end of the session: empties the shard and waits for another session where the options
 * say so, and no signal has come and no thread is stuck; else ends the loop. */
static void
leave(cadre_control_loop_t *self, const cadre_ps_event_t *event)
{
    bool waits = self->options.wait && self->signal == 0 && !is_stuck(self);
    cadre_log(event->status < 0 ? CADRE_LOG_WARN : CADRE_LOG_INFO, "left",
              "reason=\"%s\" next=\"%s\"", event->text,
              waits ? "waiting for another session" : "exit");
    if (waits) {
        begin_session(self, 0, 0);
        cadre_ps_core_return(self->core, now());
    } else {
        self->ended = true;
    }
}

/* Replaces the connection to the coordinator, because nothing comes on the present one; the core
 * then counts as disconnected until the new one is up. */
static void
redial(cadre_control_loop_t *self)
{
    if (cadre_control_link_redial(self->link, now())) {
        cadre_ps_core_disconnected(self->core, now());
    }
}

/* Puts the index of this ps into its log lines; not where it is hosted in another process, whose
 * log it shares. */
static void
name_log(const cadre_control_loop_t *self, uint32_t index)
{
    if (!self->options.context) {
        cadre_log_set_index(index);
    }
}

/* Carries out the events of the core, until there are none. */
static void
take_events(cadre_control_loop_t *self)
{
    cadre_ps_event_t event;
    while (cadre_ps_core_event(self->core, &event)) {
        switch (event.kind) {
        case CADRE_PS_SESSION:
            begin_session(self, event.index, event.epoch);
            name_log(self, event.index);
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
        case CADRE_PS_REDIAL:
            redial(self);
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

/* --- messages from the actors --- */

/* Hands a snapshot that the shard has taken to the store actor to be written; drops one of an
 * earlier session. */
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

/* Takes the shard's counters, which also show that its thread makes progress. Those of an earlier
 * session count as a sign of life, but are not reported. */
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
    cadre_ps_core_told(self->core, &counts->figures.told);
    self->load_stands = !counts->moves;
    cadre_ps_figures_t *figures = &self->figures;
    memcpy(figures->counters, counts->counters, sizeof(figures->counters));
    figures->restores += counts->generation && counts->generation != figures->generation;
    figures->generation = counts->generation;
    figures->shard = counts->figures;
}

/* Takes the messages that the shard's actor has sent; never waits. */
static void
hear_shard(cadre_control_loop_t *self)
{
    cadre_pipe_message_t message;
    for (int i = 0; i < TURN_MESSAGES; i++) {
        if (cadre_pipe_receive(cadre_actor_socket(self->shard), &message) < 0) {
            return;
        }

        if (message.kind == CADRE_SHARD_ANSWER) {
            cadre_control_link_send(self->link, message.pointer);
        } else if (message.kind == CADRE_SHARD_SNAPSHOT) {
            /* the snapshot is the store actor's now */
            write_snapshot(self, message.pointer);
            continue;
        } else if (message.kind == CADRE_SHARD_COUNTED) {
            take_counts(self, message.pointer);
        }

        cadre_shard_actor_free_message(&message);
    }
}

/* Takes what the store actor says of snapshots: the core tells the coordinator, if its session
 * still lasts, and the metrics count it. */
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

/* --- the control connection --- */

/* Takes messages of the coordinator, at most TURN_MESSAGES, so that one turn of the loop stays
 * short. */
static void
hear_coordinator(cadre_control_loop_t *self)
{
    for (int i = 0; i < TURN_MESSAGES; i++) {
        cadre_message_t message;
        int status = cadre_control_link_receive(self->link, &message);
        if (status == CADRE_EAGAIN) {
            return;
        }

        if (status == 0) {
            cadre_ps_core_receive(self->core, &message, now());
        } else {
            cadre_log(CADRE_LOG_WARN, "malformed", "from=coordinator why=\"%s\" next=dropped",
                      cadre_error_text());
            cadre_ps_core_malformed(self->core);
        }

        take_events(self); /* before the next message, so that all is done in their order */
    }
}

/* Sends the messages of the core. Answers of the shard were sent as they came, so that GOODBYE,
 * which is the core's, is the last message of a ps. */
static void
send_all(cadre_control_loop_t *self)
{
    cadre_outbox_entry_t entry;
    cadre_control_link_flush(self->link);
    while (cadre_outbox_pop(cadre_ps_core_outbox(self->core), &entry)) {
        cadre_control_link_send(self->link, &entry);
    }
}

/* Tells the core when the connection to the coordinator came up or broke. */
static void
watch_connection(cadre_control_loop_t *self)
{
    cadre_control_link_event_t event;
    while ((event = cadre_control_link_watch(self->link, now())) != CADRE_LINK_SAME) {
        if (event == CADRE_LINK_UP) {
            cadre_ps_core_connected(self->core, now());
            send_all(self); /* the HELLO of the core leaves before any answer of the shard */
        } else {
            cadre_log(CADRE_LOG_WARN, "disconnected", "coordinator=%s next=\"reconnects\"",
                      cadre_control_link_address(self->link));
            cadre_ps_core_disconnected(self->core, now());
        }
    }
}

/* Ends the ps when the key of its coordinator is not allowed any more: messages under that key may
 * be anybody's. */
static void
watch_keys(cadre_control_loop_t *self)
{
    const cadre_keyring_t *keyring = cadre_context_keyring(self->context);
    if (!keyring || cadre_keyring_withdrawals(keyring) == self->withdrawals) {
        return;
    }

    self->withdrawals = cadre_keyring_withdrawals(keyring);
    if (!cadre_control_link_is_trusted(self->link)) {
        cadre_log(CADRE_LOG_ERROR, "refused", "why=\"the coordinator's key is revoked\" next=exit");
        self->refused = CADRE_EREFUSED;
        self->ended = true;
    }
}

/* --- metrics and probes --- */

/* Publishes the figures when that is due, and then asks the shard for its counters, as a sign of
 * life. */
static void
publish(cadre_control_loop_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    cadre_ps_figures_t *figures = &self->figures;

    if (!self->options.http) {
        return;
    }

    cadre_http_server_turned(self->options.http, CADRE_CONTROL_TURN, now_ms);
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

/* Reads the signal that has come, and leaves the session because of it. */
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
    cadre_ps_core_leave(self->core, reason, now());
    self->ended = true;
}

/* Leaves the session when the host of this ps sends anything: it wants the ps to end. */
static void
hear_owner(cadre_control_loop_t *self)
{
    cadre_pipe_message_t message;
    if (self->owner && !self->ended && cadre_pipe_receive(self->owner, &message) == 0) {
        cadre_ps_core_leave(self->core, "its coordinator was closed", now());
        self->ended = true;
    }
}

/* Waits until a message or signal comes, or until `due_ms`. */
static void
wait_for_something(cadre_control_loop_t *self, uint64_t due_ms)
{
    uint64_t now_ms = now();
    /* With HTTP, publishes in time: a thread that does not counts as stuck. */
    if (self->options.http && due_ms > now_ms + CADRE_HTTP_PUBLISH_MS) {
        due_ms = now_ms + CADRE_HTTP_PUBLISH_MS;
    }

    uint64_t rest_ms = due_ms > now_ms ? due_ms - now_ms : 0;
    /* -1: without end */
    long timeout_ms = rest_ms < INT_MAX ? (long)rest_ms : -1;

    /* While messages wait to be sent, wakes up too when the connection takes some again. */
    short wanted = cadre_control_link_is_full(self->link) ? ZMQ_POLLIN | ZMQ_POLLOUT : ZMQ_POLLIN;
    zmq_pollitem_t items[] = {
        {.socket = cadre_control_link_handle(self->link), .events = wanted},
        {.socket = cadre_control_link_monitor_handle(self->link), .events = ZMQ_POLLIN},
        {.socket = cadre_actor_socket(self->shard), .events = ZMQ_POLLIN},
        {.socket = cadre_actor_socket(self->store), .events = ZMQ_POLLIN},
        {.socket = self->owner, .fd = self->options.signals, .events = ZMQ_POLLIN},
    };
    cadre_poll(items, (int)CADRE_COUNT_OF(items), timeout_ms);
    /* The last item is the pipe of the host, which hear_owner reads, or without a host the
     * descriptor of signals. */
    if (!self->owner && items[CADRE_COUNT_OF(items) - 1].revents) {
        hear_signal(self);
    }
}

/* Serves in turns: runs timers, sends what is due, waits for the next thing to happen, and takes
 * what has come from the host, the connection, the shard, the store and the coordinator. */
int
cadre_control_loop_run(cadre_control_loop_t *self, void *owner)
{
    self->owner = owner;
    while (!self->ended) {
        uint64_t due_ms = cadre_ps_core_tick(self->core, now());
        take_events(self);
        uint64_t link_due_ms = cadre_control_link_tick(self->link, now());
        send_all(self);
        publish(self);
        if (self->ended) {
            break;
        }

        wait_for_something(self, link_due_ms < due_ms ? link_due_ms : due_ms);
        hear_owner(self);
        watch_connection(self);
        hear_shard(self);
        hear_store(self);
        hear_coordinator(self);
        take_events(self);
        watch_keys(self);
    }

    send_all(self);
    return self->signal;
}

/* Ends the actors and frees the messages that they had still sent. */
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
        cadre_shard_actor_free_message(&message);
    }

    while (self->store && cadre_pipe_receive(cadre_actor_socket(self->store), &message) == 0) {
        free(message.pointer);
    }

    cadre_actor_stop(&self->shard, CADRE_ACTOR_STOP_MS);
    cadre_actor_stop(&self->store, CADRE_ACTOR_STOP_MS);
    return 0;
}

/* Ends the actors, and frees the rest once they have ended; a context that was the host's stays
 * open. */
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
    cadre_control_link_close(&self->link);
    cadre_ps_core_destroy(&self->core);
    status = cadre_authenticator_close(&self->authenticator, CADRE_ACTOR_STOP_MS);
    if (status < 0) {
        return status;
    }

    if (!self->options.context) {
        cadre_context_close(&self->context);
    }
    free(self);
    return 0;
}
