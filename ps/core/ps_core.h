/*
 * ps_core - what a ps is to its coordinator: a member (common/session/session.h) that serves one
 * shard, and tells of its counters and of the checkpoint that is being written.
 *
 * Owner:   the ps's control loop (or the simulation).
 * Thread:  its owner's.
 *
 * A core: no socket, thread, clock or file. Control messages and the time go in; messages (the
 * outbox) and events come out, and the shell empties both after every call. It does not own the
 * shard (ps/core/shard.h), which lives with another actor so that a long apply delays no heartbeat:
 * what is for the shard comes out as an event, and what the shard answers goes to the coordinator
 * directly.
 */
#ifndef CADRE_PS_CORE_PS_CORE_H
#define CADRE_PS_CORE_PS_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/session/session.h"
#include "common/wire/outbox.h"
#include "ps/core/tables_told.h"

typedef struct cadre_ps_core cadre_ps_core_t;

typedef struct {
    cadre_session_options_t session; /* for role ps; what these options borrow outlives the core */
    const char *address;             /* address of the data socket, for HELLO; outlives the core */
    bool folderless;                 /* this ps was given no folder for checkpoints */
} cadre_ps_options_t;

typedef enum {
    CADRE_PS_SESSION, /* another session began: call cadre_shard_begin_session with `index`, `epoch`
                         and the incarnation of cadre_ps_core_coordinator */
    CADRE_PS_MESSAGE, /* `message`, which is the shell's now, is for the shard: plane control, from
                         cadre_ps_core_coordinator */
    CADRE_PS_MALFORMED, /* a malformed control message was dropped: call cadre_shard_malformed */
    CADRE_PS_PROBE,     /* ask the shard for its counters; while it answers, the shell calls
                           cadre_ps_core_counted */
    CADRE_PS_ABANDON,   /* stop writing the snapshot of `checkpoint` of session `epoch`, if that is
                           under way: another session may use the same number */
    CADRE_PS_REDIAL,    /* replace the connection to the coordinator, since nothing comes on the
                           present one; then call cadre_ps_core_disconnected */
    CADRE_PS_REFUSED,   /* the coordinator refuses this ps; `status` and `text` say why: end */
    CADRE_PS_LEFT,      /* this ps is out of the session; `status` and `text` say why: send the
                           outbox, then end, or wait for another session (cadre_ps_core_return) */
} cadre_ps_event_kind_t;

typedef struct {
    cadre_ps_event_kind_t kind;
    uint32_t index;
    uint64_t epoch;
    uint64_t checkpoint;
    int status;
    cadre_message_t message;
    char text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_ps_event_t;

/* What became of writing a snapshot. */
typedef struct {
    uint64_t epoch; /* epoch of the session that asked for the snapshot; the shell tells only of
                       snapshots that this core asked for */
    uint64_t checkpoint;
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    char file[CADRE_NAME_SIZE_MAX + 1];
    uint64_t size_bytes;
    uint64_t hash;
    uint64_t counters[CADRE_PS_COUNTER_COUNT]; /* at the cut */
    uint64_t step;                             /* the synchronous step that had ended last then */
} cadre_ps_written_t;

/* Returns a core that is not connected: it sends nothing before cadre_ps_core_connected. */
cadre_ps_core_t *cadre_ps_core_new(const cadre_ps_options_t *options);
void cadre_ps_core_destroy(cadre_ps_core_t **self_p);

cadre_outbox_t *cadre_ps_core_outbox(cadre_ps_core_t *self);
bool cadre_ps_core_event(cadre_ps_core_t *self, cadre_ps_event_t *event);

/* Returns the coordinator of the session, to which the shard answers a CADRE_PS_MESSAGE. */
cadre_task_t cadre_ps_core_coordinator(const cadre_ps_core_t *self);

/* Returns what this ps knows of its contact with the coordinator. */
cadre_session_contact_t cadre_ps_core_contact(const cadre_ps_core_t *self);

/* Acts on a message from the control connection; takes it. */
void cadre_ps_core_receive(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms);

/* Counts a control message as malformed that could not be decoded and was dropped. */
void cadre_ps_core_malformed(cadre_ps_core_t *self);

/* Notes that the control connection came up, again or for the first time: sends HELLO. */
void cadre_ps_core_connected(cadre_ps_core_t *self, uint64_t now_ms);

/* Notes that the control connection broke: nothing is sent until it is back, or messages would pile
 * up. */
void cadre_ps_core_disconnected(cadre_ps_core_t *self, uint64_t now_ms);

/* Runs the timers. Returns when it must be called again at the latest; UINT64_MAX for never. */
uint64_t cadre_ps_core_tick(cadre_ps_core_t *self, uint64_t now_ms);

/* Leaves the session (SIGTERM). */
void cadre_ps_core_leave(cadre_ps_core_t *self, const char *reason, uint64_t now_ms);

/* Waits for another session after LEFT, sending HELLO again. The shard is not needed any more:
 * cadre_shard_begin_session with epoch 0 frees it. */
void cadre_ps_core_return(cadre_ps_core_t *self, uint64_t now_ms);

/* Takes what the shard has of its tables, for the next HEARTBEAT. */
void cadre_ps_core_told(cadre_ps_core_t *self, const cadre_tables_told_t *tables);

/* Takes the shard's counters and generation. `moves`: neither the shard nor a load or write that it
 * waits for is stuck. */
void cadre_ps_core_counted(cadre_ps_core_t *self, const uint64_t counters[CADRE_PS_COUNTER_COUNT],
                           uint64_t generation, bool moves);

/* Takes what became of writing a snapshot: sends SNAPSHOT_WRITTEN, and repeats it until
 * CHECKPOINT_END. */
void cadre_ps_core_written(cadre_ps_core_t *self, const cadre_ps_written_t *written,
                           uint64_t now_ms);

#endif
