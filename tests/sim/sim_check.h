/*
 * sim_check - the oracle: an additive model of every variable, and the invariants of the protocol.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * An update adds weight(i) to element i of each variable it touches, an assignment of k sets, adds
 * or subtracts k * weight(i). So a partition holds one number n, element i being n * weight(i):
 * loss shows as less, duplication as more, values of two versions or of other rows as no n at all.
 * The model follows what each shard answered (applied, duplicate), never what it should have done;
 * what must hold is checked against it.
 *
 * Every call the user program scheduled has a record, whose index travels as the closure's only
 * name, so that a worker knows what to do and the oracle knows what was done.
 */
#ifndef CADRE_TESTS_SIM_SIM_CHECK_H
#define CADRE_TESTS_SIM_SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/checkpoint/shard_file.h"
#include "common/message.h"
#include "common/u64_map.h"
#include "coordinator/catalogue.h"
#include "coordinator/closure_queue.h"
#include "ps/partition.h"
#include "tests/sim/sim_model.h"

enum {
    SIM_STEPS_MAX = 3,
    SIM_SHARDS_MAX = 4,
    SIM_NEVER = UINT32_MAX,
};

/* One scheduled closure. */
typedef struct {
    uint32_t index;                  /* its position */
    uint64_t id;                     /* 0 until a worker has it */
    uint32_t reserved;               /* steps it was scheduled with */
    uint32_t steps;                  /* updates it pushes */
    uint32_t fail_step;              /* the user's function fails there, or SIM_NEVER */
    uint32_t pulls;                  /* variables it pulls in every step: bit id - 1 */
    uint32_t pushes[SIM_STEPS_MAX];  /* variables it adds to */
    uint32_t applied[SIM_STEPS_MAX]; /* shards that have applied the step: bits */
    uint32_t compute_ms;
    uint32_t attempts; /* that began computing */
    bool wants_results;
    bool reads_batch;
    uint32_t tag; /* index of the one worker that may run it, or CADRE_TAG_NONE */
    bool scheduled;
    bool ended;
    int status;
} sim_call_t;

typedef struct {
    uint64_t applied;
    uint64_t duplicate;
    uint64_t sequence;         /* of the last assignment */
    uint64_t cut;              /* nothing below it may be applied any more */
    uint64_t snapshot;         /* the last checkpoint that took one here */
    uint64_t snapshot_applied; /* updates in it */
    uint64_t beyond;           /* an update in it that is not below its cut; 0 for none */
} sim_shard_record_t;

typedef struct {
    uint64_t seed;
    const uint64_t *now_ms;
    const uint64_t *events;
    sim_variable_t variables[SIM_VARIABLES_MAX];
    uint32_t variable_count; /* that closures may use */
    uint32_t known_count;    /* and those being created */
    uint32_t shard_count;
    sim_shard_record_t shards[SIM_SHARDS_MAX];
    sim_call_t **calls;
    uint32_t call_count;
    uint32_t ended_count;
    cadre_u64_map_t updates; /* update id -> the call it belongs to */

    bool may_cancel; /* the user cancelled, or a call failed: calls may end cancelled */
    int first_error; /* since the last one was raised */
    char first_text[CADRE_CLOSURE_ERROR_SIZE];
} sim_check_t;

void sim_check_init(sim_check_t *self, uint64_t seed, uint32_t shard_count);
void sim_check_fini(sim_check_t *self);

/* Prints seed, time, event and text, and ends the process. */
_Noreturn void sim_check_fail(const sim_check_t *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- what the user program does --- */

/* Follows a variable from the beginning of its creation on. */
void sim_check_add_variable(sim_check_t *self, const cadre_variable_t *variable);

/* A new record. */
sim_call_t *sim_check_add_call(sim_check_t *self);

/* A read begins, and has ended with the whole value `bytes`: every part is one version that it had
 * meanwhile. */
void sim_check_read_begins(sim_variable_t *variable);
void sim_check_read(const sim_check_t *self, const sim_variable_t *variable, const void *bytes);

/* Join, or cancel, has returned: nothing the user scheduled is unfinished, and (I2) every element
 * of every variable is what the finished calls make it. */
void sim_check_join(sim_check_t *self);

/* The queue raised `status` with `text`, 0 for none. */
void sim_check_raised(sim_check_t *self, int status, const char *text);

/* --- what happens in the cluster --- */

/* A worker begins to compute an attempt of closure `id`; returns its record. */
sim_call_t *sim_check_started(sim_check_t *self, const cadre_closure_message_t *closure);

/* All shards of a step have answered the worker: each must have it. */
void sim_check_pushed(sim_check_t *self, const sim_call_t *call, uint32_t step);

/* The coordinator ended a closure. */
void sim_check_ended(sim_check_t *self, uint32_t call, const cadre_closure_t *closure,
                     const cadre_closure_end_t *end);

/* Shard `shard` answered `question` with `answer`: the model follows, and (I1, I4) they agree. */
void sim_check_push(sim_check_t *self, uint32_t shard, const cadre_message_t *question,
                    const cadre_message_t *answer);
void sim_check_assign(sim_check_t *self, uint32_t shard, const cadre_message_t *question,
                      const cadre_message_t *answer);
void sim_check_values_sent(sim_check_t *self, uint32_t shard, const cadre_message_t *question,
                           const cadre_message_t *answer);

/* The shard has taken a snapshot at `cut`: the closures below it have ended. */
void sim_check_snapshot(sim_check_t *self, uint32_t shard, uint64_t checkpoint, uint64_t cut);

/* (I5) A checkpoint is committed: exactly the closures below its cut are in the shard's snapshot,
 * of which the manifest says `state`. One that came late, when its checkpoint had been given up
 * already, may hold more. */
void sim_check_commit(const sim_check_t *self, uint32_t shard, uint64_t checkpoint,
                      const cadre_shard_state_t *state);

/* One partition as the shard holds it is what the model says. */
void sim_check_partition(sim_check_t *self, const sim_variable_t *variable, uint32_t part,
                         const cadre_partition_t *partition);

/* (I4) The chunks of one partition are of one version; returns its n. */
int64_t sim_check_chunks(sim_check_t *self, const sim_variable_t *variable, uint32_t part,
                         cadre_chunk_t *const *chunks, size_t count);

/* The variable with this id, its part. */
sim_variable_t *sim_check_variable(sim_check_t *self, uint64_t id);
sim_part_t *sim_check_part(sim_check_t *self, uint64_t variable, uint64_t part);

/* The shards that hold a part of any of `variables` (bit id - 1): bits. */
uint32_t sim_check_shards(const sim_check_t *self, uint32_t variables);

/* At the end: (I7) what the shard counted is what it was seen to answer. */
void sim_check_counters(const sim_check_t *self, uint32_t shard, const uint64_t *counters);

#endif
