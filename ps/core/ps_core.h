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

typedef struct cadre_ps_core cadre_ps_core_t;

typedef struct {
    cadre_session_options_t session; /* role ps; what it borrows outlives the core, */
    const char *address;             /* as does the address of the data plane */
    bool folderless;                 /* it may write and read checkpoints nowhere */
} cadre_ps_options_t;

typedef enum {
    CADRE_PS_SESSION, /* another session began: cadre_shard_begin_session(`index`, `epoch`, and the
                         incarnation of cadre_ps_core_coordinator) */
    CADRE_PS_MESSAGE, /* `message`, which is the shell's now, is for the shard: plane control, from
                         cadre_ps_core_coordinator */
    CADRE_PS_MALFORMED, /* cadre_shard_malformed */
    CADRE_PS_PROBE,     /* have the shard answer with cadre_ps_core_counted, if it still does */
    CADRE_PS_ABANDON,   /* stop writing the snapshot of `checkpoint` of session `epoch`, if that is
                           under way: another session may use the same number */
    CADRE_PS_REDIAL,    /* CADRE_EFFECT_REDIAL; then cadre_ps_core_disconnected */
    CADRE_PS_REFUSED,   /* CADRE_EFFECT_REFUSED, with `status` and `text`: end */
    CADRE_PS_LEFT,      /* CADRE_EFFECT_LEFT, with `status` and `text`: send the outbox, then end,
                           or cadre_ps_core_return */
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
    uint64_t epoch; /* of the session that asked for it; the shell tells only what this one did */
    uint64_t checkpoint;
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    char file[CADRE_NAME_SIZE_MAX + 1];
    uint64_t size_bytes;
    uint64_t hash;
    uint64_t counters[CADRE_PS_COUNTER_COUNT]; /* at the cut */
} cadre_ps_written_t;

/* A core that is not connected: it says nothing before cadre_ps_core_connected. */
cadre_ps_core_t *cadre_ps_core_new(const cadre_ps_options_t *options);
void cadre_ps_core_destroy(cadre_ps_core_t **self_p);

cadre_outbox_t *cadre_ps_core_outbox(cadre_ps_core_t *self);
bool cadre_ps_core_event(cadre_ps_core_t *self, cadre_ps_event_t *event);

/* The coordinator of the session, for whom the shard's answers to CADRE_PS_MESSAGE are. */
cadre_task_t cadre_ps_core_coordinator(const cadre_ps_core_t *self);

/* How it stands with the coordinator. */
cadre_session_contact_t cadre_ps_core_contact(const cadre_ps_core_t *self);

/* A message on the control connection; takes it. */
void cadre_ps_core_receive(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms);

/* A control message that could not be decoded was dropped. */
void cadre_ps_core_malformed(cadre_ps_core_t *self);

/* The control connection came up, again or for the first time: says HELLO. */
void cadre_ps_core_connected(cadre_ps_core_t *self, uint64_t now_ms);

/* It broke: nothing is said until it is back, or messages to nobody would pile up. */
void cadre_ps_core_disconnected(cadre_ps_core_t *self, uint64_t now_ms);

/* Timers. Returns when it wants to be called again at the latest; UINT64_MAX for never. */
uint64_t cadre_ps_core_tick(cadre_ps_core_t *self, uint64_t now_ms);

/* Leaves the session (SIGTERM). */
void cadre_ps_core_leave(cadre_ps_core_t *self, const char *reason, uint64_t now_ms);

/* After LEFT: waits for another session, saying HELLO again. The shard is not needed any more:
 * cadre_shard_begin_session with epoch 0 lets go of it. */
void cadre_ps_core_return(cadre_ps_core_t *self, uint64_t now_ms);

/* The shard's counters and generation are these by now; `moves`: neither it nor what it waits for
 * stands still. */
void cadre_ps_core_counted(cadre_ps_core_t *self, const uint64_t counters[CADRE_PS_COUNTER_COUNT],
                           uint64_t generation, bool moves);

/* The snapshot has been written, or not: SNAPSHOT_WRITTEN, said again until CHECKPOINT_END. */
void cadre_ps_core_written(cadre_ps_core_t *self, const cadre_ps_written_t *written,
                           uint64_t now_ms);

#endif
