/*
 * shard - the state that one ps serves, and everything that may be done to it.
 *
 * Owner:   the ps's shard actor (or the simulation).
 * Thread:  its owner's.
 *
 * A core: no socket, thread, clock or file. It is the router of messages: it checks a message's
 * sender, session and generation, has one of its objects do what is asked (shard_parts, shard_pull,
 * shard_updates, shard_cut, shard_loads, intake), and answers, under the same request id and on the
 * plane the question came on. What its owner is to do comes out as effects. Every question is
 * answered, refused ones with a status and a text, unless request is 0; a message that is refused
 * changes nothing.
 *
 * A shard serves no task before its session (cadre_shard_begin_session) and the session's first
 * RESTORE, which sets its generation and where it begins: at a checkpoint, or empty. It reads no
 * checkpoint itself: RESTORE and CREATE have loads as effects, and are answered when these loads
 * are done. Other messages meanwhile are answered as if the RESTORE or CREATE had not come yet.
 * Updates and assignments of another epoch or generation are CADRE_EFENCED.
 *
 * A checkpoint holds a partition's version with its values and its optimizer steps with its slots
 * (shard_file.h, `version`): an optimizer without slots does not look at the steps.
 */
#ifndef CADRE_PS_CORE_SHARD_H
#define CADRE_PS_CORE_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/core/admission.h"
#include "ps/core/shard_effects.h"
#include "ps/core/table/table.h"
#include "ps/core/values/lanes.h"

typedef struct cadre_shard cadre_shard_t;

enum { CADRE_SHARD_TICK_MS = 500 };

typedef struct {
    uint64_t incarnation;    /* incarnation of the ps; stands in every answer */
    uint64_t size_bytes_max; /* values and slots together; a CREATE beyond it is CADRE_EFULL */
    const cadre_admission_t *admission; /* where PULLs wait, which PROBED then calls queued; NULL:
                                           none wait */
    uint64_t intake_bytes; /* memory for updates that arrive (intake.h); 0: without bound */
    uint64_t step_bytes; /* limit of what is held for synchronous steps (shard_steps.h); 0: none */
    size_t window_min;   /* smallest window of a peer; 0: CADRE_WINDOW_SIZE_MIN */
    cadre_lanes_t lanes; /* threads that check and apply updates; zeroed: the shard's own only */
    cadre_lanes_t table_lanes;       /* those for updates and pulls of tables; zeroed: likewise */
    cadre_huge_source_t huge_source; /* where large tables have their memory from */
    /* Called after each step of a long turn, so that the owner can say that the shard makes
     * progress; or NULL. */
    void (*on_step)(void *context);
    void *step_context;
} cadre_shard_options_t;

cadre_shard_t *cadre_shard_new(const cadre_shard_options_t *options);
void cadre_shard_destroy(cadre_shard_t **self_p);

/* Begins a session, the first one or that of another coordinator: drops everything; RESTORE and
 * CREATE say what comes instead. `index` and `epoch` are WELCOME's, and `coordinator` is the
 * incarnation of its sender: messages of any other coordinator are refused. Epoch 0 ends the
 * session without another one: no task is served. */
void cadre_shard_begin_session(cadre_shard_t *self, uint32_t index, uint64_t epoch,
                               uint64_t coordinator, cadre_shard_effects_t *effects);

/* Sets the memory that the shard may take: for the simulation, which learns it only with the index.
 */
void cadre_shard_set_size_max(cadre_shard_t *self, uint64_t size_bytes_max);

/* Acts on a message from `from`; takes it. Drops it and counts it as malformed if `from` may not
 * send it, if it is not for a shard, or if it names another shard. */
void cadre_shard_receive(cadre_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                         cadre_message_t *message, cadre_shard_effects_t *effects);

/* Returns the bytes of values that answer a worker's PULL, without those that the worker holds; 0
 * for any other message. */
size_t cadre_shard_answer_size(const cadre_shard_t *self, const cadre_message_t *message);

/* Takes the time, and sends the GRANTs that are due; called before each message, and every
 * CADRE_SHARD_TICK_MS while cadre_shard_is_receiving. */
void cadre_shard_tick(cadre_shard_t *self, uint64_t now_ms, cadre_outbox_t *outbox);
bool cadre_shard_is_receiving(const cadre_shard_t *self);

/* Drops what is reserved for a peer: a message to it came back, because it is not connected any
 * more. */
void cadre_shard_unreachable(cadre_shard_t *self, const cadre_task_t *peer);

/* Counts a message as malformed that was dropped, because it could not be decoded or had no sender.
 */
void cadre_shard_malformed(cadre_shard_t *self);

/* Takes a load that was carried out, or given up, and answers the request that it was for. */
void cadre_shard_loaded(cadre_shard_t *self, cadre_checkpoint_load_t **load_p,
                        cadre_outbox_t *outbox);

/* Returns [CADRE_PS_COUNTER_COUNT] counters. */
const uint64_t *cadre_shard_counters(const cadre_shard_t *self);

/* Returns the generation; 0 until the first RESTORE of the session. */
uint64_t cadre_shard_generation(const cadre_shard_t *self);

/* Returns the partition, or NULL: for tests and the simulation to look at. */
const cadre_partition_t *cadre_shard_partition(const cadre_shard_t *self, uint64_t variable,
                                               uint64_t partition);
const cadre_table_t *cadre_shard_table(const cadre_shard_t *self, uint64_t variable,
                                       uint64_t partition);

size_t cadre_shard_partition_count(const cadre_shard_t *self);

/* Returns the base of the applied window, below which every update is settled: for the simulation
 * to look at. */
uint64_t cadre_shard_window_base(const cadre_shard_t *self);

/* What a shard holds now. */
typedef struct {
    uint64_t partitions;
    uint64_t size_bytes;          /* bytes of values and slots */
    cadre_table_figures_t tables; /* sums of those of all tables */
    cadre_tables_told_t told;     /* figures of each table, as a HEARTBEAT says them */
    uint64_t granted_bytes;       /* bytes of updates that were granted and are not applied yet */
    uint64_t collected_bytes;     /* bytes that came of updates that are not whole yet */
    uint64_t held_bytes;          /* bytes of updates that are held until their step ends */
    uint64_t held_bytes_max;      /* their limit; 0: none */
    uint64_t pulls_waiting;       /* PULLs that wait for room */
} cadre_shard_figures_t;

cadre_shard_figures_t cadre_shard_figures(const cadre_shard_t *self);

#endif
