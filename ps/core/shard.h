/*
 * shard - the state that one ps serves, and everything that may be done to it.
 *
 * Owner:   the ps's shard actor (or the simulation).
 * Thread:  its owner's.
 *
 * A core: no socket, thread, clock or file. A message goes in, its answer goes to an outbox, under
 * the same request id and on the plane it came on. Every question is answered, refused ones with a
 * status and a text, unless request is 0; a message that is refused changes nothing.
 *
 * A shard serves nobody before its session (cadre_shard_begin_session) and the session's first
 * RESTORE, which sets its generation and where it begins: at a checkpoint, or anew. It reads no
 * checkpoint itself: RESTORE and CREATE leave loads for the shell, and are answered when those are
 * back. Whatever else is asked meanwhile is answered as if they had not come yet. Updates
 * and assignments of another epoch or generation are CADRE_EFENCED. An update is checked whole -
 * known, not seen before, every partition there, every chunk of its size, every number finite -
 * before anything is written; then it is applied to all its partitions in one turn and marked.
 *
 * A checkpoint holds a partition's version with its values and its optimizer steps with its slots
 * (shard_file.h, `version`): an optimizer without slots does not look at the steps.
 */
#ifndef CADRE_PS_CORE_SHARD_H
#define CADRE_PS_CORE_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/outbox.h"
#include "ps/core/admission.h"
#include "ps/core/checkpoint_load.h"
#include "ps/core/lanes.h"
#include "ps/core/partition.h"

typedef struct cadre_shard cadre_shard_t;

enum { CADRE_SHARD_TICK_MS = 500 };

typedef struct {
    uint64_t incarnation;    /* of the ps; stands in every answer */
    uint64_t size_bytes_max; /* values and slots together; a CREATE beyond it is CADRE_EFULL */
    const cadre_admission_t *admission; /* whose waiting requests PROBED calls queued; or NULL */
    uint64_t intake_bytes; /* budget of updates that come (intake.h); 0: as much as they are */
    size_t window_min;     /* of a peer's; 0: CADRE_WINDOW_SIZE_MIN */
    cadre_lanes_t lanes;   /* that updates are checked and applied on; zeroed: the shard's thread */
    /* Called after each step of what takes long in one turn, so that the owner can say that the
     * shard moves; or NULL. */
    void (*on_step)(void *context);
    void *step_context;
} cadre_shard_options_t;

/* One partition of a snapshot. */
typedef struct {
    char name[CADRE_NAME_SIZE_MAX + 1];
    cadre_partition_spec_t spec;
    cadre_chunk_layout_t layout;
    cadre_partition_snapshot_t references;
} cadre_shard_snapshot_part_t;

/* References to everything that is below one cut. It may be read and ended on any one thread. */
typedef struct {
    uint64_t epoch; /* of the session that asked for it */
    uint64_t checkpoint;
    uint32_t index; /* of the shard */
    char *directory;
    cadre_shard_state_t state;
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    size_t part_count;
    cadre_shard_snapshot_part_t *parts;
} cadre_shard_snapshot_t;

void cadre_shard_snapshot_destroy(cadre_shard_snapshot_t **self_p);

cadre_shard_t *cadre_shard_new(const cadre_shard_options_t *options);
void cadre_shard_destroy(cadre_shard_t **self_p);

/* Another coordinator, or the first one: everything is dropped, and RESTORE and CREATE will say
 * what comes instead. `index` and `epoch` are WELCOME's, and `coordinator` the incarnation of who
 * said it: nobody else who calls itself a coordinator is listened to. An epoch of 0 is no session,
 * in which nobody is served. */
void cadre_shard_begin_session(cadre_shard_t *self, uint32_t index, uint64_t epoch,
                               uint64_t coordinator);

/* A message from `from`; takes it. One that `from` may not send, or that is not for a shard, is
 * counted as malformed and dropped, and so is one that names another shard. */
void cadre_shard_receive(cadre_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                         cadre_message_t *message, cadre_outbox_t *outbox);

/* The bytes of values that a PULL of a worker asks for and does not hold, 0 for any other message.
 */
size_t cadre_shard_answer_size(const cadre_shard_t *self, const cadre_message_t *message);

/* What time it is, and the GRANTs that this brings; to be told before each message, and every
 * CADRE_SHARD_TICK_MS while cadre_shard_is_receiving. */
void cadre_shard_tick(cadre_shard_t *self, uint64_t now_ms, cadre_outbox_t *outbox);
bool cadre_shard_is_receiving(const cadre_shard_t *self);

/* A peer that something was sent to is not connected any more: nothing is reserved for it. */
void cadre_shard_unreachable(cadre_shard_t *self, const cadre_task_t *peer);

/* A message that could not be decoded, or came from nobody, was dropped. */
void cadre_shard_malformed(cadre_shard_t *self);

/* The snapshot that the last CLOSE_CUT made, once, for whoever writes it; NULL when there is none.
 * Ask after every cadre_shard_receive: the next one that makes a snapshot drops an old one. */
cadre_shard_snapshot_t *cadre_shard_take_snapshot(cadre_shard_t *self);

/* What is to be carried out next (ps/core/checkpoint_load.h), NULL when there is nothing. Ask after
 * every cadre_shard_receive, cadre_shard_loaded and cadre_shard_begin_session, and carry them out
 * in this order. */
cadre_checkpoint_load_t *cadre_shard_take_load(cadre_shard_t *self);

/* Loads with a lower number need not be carried out any more. */
uint64_t cadre_shard_loads_from(const cadre_shard_t *self);

/* A load was carried out, or given up; takes it. What was asked for it is answered. */
void cadre_shard_loaded(cadre_shard_t *self, cadre_checkpoint_load_t **load_p,
                        cadre_outbox_t *outbox);

/* [CADRE_PS_COUNTER_COUNT] */
const uint64_t *cadre_shard_counters(const cadre_shard_t *self);

/* 0 until the first RESTORE of the session. */
uint64_t cadre_shard_generation(const cadre_shard_t *self);

/* The partition, or NULL: for tests and the simulation to look at. */
const cadre_partition_t *cadre_shard_partition(const cadre_shard_t *self, uint64_t variable,
                                               uint64_t partition);

size_t cadre_shard_partition_count(const cadre_shard_t *self);

/* What a shard holds now. */
typedef struct {
    uint64_t partitions;
    uint64_t size_bytes;      /* of values and slots */
    uint64_t granted_bytes;   /* of updates that may come, */
    uint64_t collected_bytes; /* and of those that come in parts and are not whole */
    uint64_t pulls_waiting;   /* for room */
} cadre_shard_figures_t;

cadre_shard_figures_t cadre_shard_figures(const cadre_shard_t *self);

#endif
