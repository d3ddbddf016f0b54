/*
 * shard_actor - the thread that owns the shard and its data socket: pulls, pushes, applies.
 *
 * Owner:   the control loop.
 * Thread:  its own.
 *
 * Pipe, to it: SESSION with a cadre_shard_session_t, QUESTION with a cadre_shard_question_note_t,
 * MALFORMED, PROBE (answered by COUNTED). From it: ANSWER with a cadre_outbox_entry_t for the
 * control socket, SNAPSHOT with a cadre_shard_snapshot_t, COUNTED with a cadre_shard_counts_t when
 * the counters have changed, at most every CADRE_SHARD_COUNT_MS, or the generation has. Each object
 * is the receiver's. There are at most as many questions under way as the coordinator has
 * unanswered.
 *
 * Answers on the data plane that cannot be queued are dropped: the peer is gone, or takes nothing
 * although 65,536 messages wait for it. A peer that still wants its answer repeats the request, and
 * a repeated update is a duplicate. If this actor waited instead, one stuck worker would stop all
 * others.
 */
#ifndef CADRE_PS_SHARD_ACTOR_H
#define CADRE_PS_SHARD_ACTOR_H

#include "common/net/actor.h"
#include "common/net/monitor.h"
#include "common/net/shortcut.h"
#include "common/net/socket.h"
#include "ps/core/shard.h"
#include "ps/folders.h"

enum {
    CADRE_SHARD_SESSION = 1,
    CADRE_SHARD_QUESTION = 2,
    CADRE_SHARD_MALFORMED = 3,
    CADRE_SHARD_ANSWER = 4,
    CADRE_SHARD_SNAPSHOT = 5,
    CADRE_SHARD_COUNTED = 6,
    CADRE_SHARD_PROBE = 7,

    CADRE_SHARD_COUNT_MS = 200,
    CADRE_SHARD_TURN_MESSAGES = 64, /* data messages of one turn */
};

typedef struct {
    uint32_t index;
    uint64_t epoch;
    uint64_t coordinator;
} cadre_shard_session_t;

typedef struct {
    cadre_task_t from;
    cadre_message_t message;
} cadre_shard_question_note_t;

typedef struct {
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    uint64_t generation;
    uint64_t epoch; /* of the session that the counters belong to */
    bool moves;     /* the shard waits for no load, or that load makes progress */
    cadre_shard_figures_t figures;
} cadre_shard_counts_t;

typedef struct {
    uint64_t incarnation; /* of the ps */
    uint64_t size_bytes_max;
    unsigned lanes;                 /* ps/lane_pool.h */
    unsigned table_lanes;           /* for what is pushed to and pulled of tables; 0: `lanes` */
    const cadre_folders_t *folders; /* folders that checkpoints may be in; borrowed */
    cadre_shortcut_t *shortcut; /* from a worker in this process, borrowed; NULL: there is none */
} cadre_shard_actor_options_t;

/* Starts the actor's thread and the threads of the other lanes; takes `data`, a bound ROUTER, and
 * its monitor on success. */
int cadre_shard_actor_open(cadre_context_t *context, const cadre_shard_actor_options_t *options,
                           cadre_socket_t *data, cadre_monitor_t *monitor, cadre_actor_t **out);

/* Frees the object in a message from or to this actor, by the message's kind. */
void cadre_shard_actor_free_message(cadre_pipe_message_t *message);

#endif
