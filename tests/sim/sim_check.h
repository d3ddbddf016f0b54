/*
 * sim_check - the oracle: an additive model of every shard, and the invariants of the protocol
 * (docs/protocol.md#what-is-promised).
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * An update of strength k adds k * weight(i) to element i of each variable it touches, an
 * assignment of k sets, adds or subtracts k * weight(i). So a partition holds one number n, element
 * i being n * weight(i): loss shows as less, duplication as more, values of two versions or of
 * other rows as no n at all. The model of a shard (sim_state.h) follows what the shard answered
 * (applied, duplicate), never what it should have done; what must hold is checked against it.
 *
 * Every call the user program scheduled has a record, whose index travels as the closure's only
 * name, so that a worker knows what to do and the oracle knows what was done. Every assignment has
 * one, whose number is its k.
 *
 * The coordinator has lives. One that begins from a checkpoint at cut W knows the calls with ids
 * below W; the others are lost, and the user program schedules the same again as new calls. Ids
 * from W on mean other calls in each life, so an id is looked up in the life of its epoch.
 */
#ifndef CADRE_TESTS_SIM_SIM_CHECK_H
#define CADRE_TESTS_SIM_SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/checkpoint/manifest.h"
#include "common/wire/message.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/sequences.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/provisioning/row_plan.h"
#include "ps/core/partition.h"
#include "tests/sim/sim_state.h"

#define SIM_NEVER UINT32_MAX

/* Bytes that all usual variables take on one shard, at most; of one that is too large. */
enum { SIM_USUAL_SIZE = 1 << 20, SIM_TOO_LARGE_SIZE = 5 << 19 };

enum {
    SIM_LIVES_MAX = 24, /* of the coordinator */
    SIM_SOURCES_MAX = 3,
    SIM_BATCH_ROWS = 10, /* that a closure reads of the dataset, if any */
    SIM_RESOURCES_MAX = 4,
    SIM_RESOURCE_SLOW = 1,   /* the id of one that takes long to build */
    SIM_RESOURCE_BROKEN = 4, /* and of one that is never built */
};

/* A partition as it travels from a shard to a worker: in the wire dtype. */
typedef struct {
    const sim_variable_t *variable;
    uint32_t part;
    uint64_t version;
    cadre_chunk_t *const *chunks;
    size_t chunk_count;
    uint64_t keys; /* of a table: those that were pulled */
} sim_pulled_t;

/* One scheduled closure, and who is told of its end: the API would have a future. */
typedef struct cadre_future {
    uint32_t index;                 /* its position */
    uint32_t life;                  /* in which it was scheduled */
    uint64_t id;                    /* 0 until a worker has it */
    uint64_t begun_event;           /* when its id was first seen */
    uint32_t reserved;              /* steps it was scheduled with */
    uint32_t steps;                 /* updates it pushes */
    uint32_t fail_step;             /* the user's function fails there, or SIM_NEVER */
    uint32_t pulls;                 /* variables it pulls in every step: bit id - 1 */
    uint32_t pushes[SIM_STEPS_MAX]; /* variables it adds to */
    uint32_t strength;              /* of its updates */
    uint32_t dropped;               /* variables that were, before it was scheduled: bits id - 1 */
    uint32_t compute_ms;
    uint32_t attempts; /* that began computing */
    bool wants_results;
    bool reads_batch;
    uint32_t resources;                /* that it uses: bit id - 1 */
    uint32_t sources[SIM_SOURCES_MAX]; /* calls whose results are its arguments */
    uint32_t source_count;
    int64_t stamp; /* of its own results, once it has ended */
    bool is_big;   /* they are */
    uint32_t function;
    uint32_t dataset;     /* that it reads; 0: none */
    uint64_t deadline_ms; /* of an attempt; 0: none */
    uint32_t group;       /* in which it is; 0: none */
    cadre_priority_t priority;
    uint32_t tag;          /* index of the one worker that may run it, or CADRE_TAG_NONE */
    uint64_t with;         /* incarnation of the worker that has it, as of the last look */
    uint64_t with_attempt; /* the same */
    uint64_t with_ms;      /* since when */
    bool scheduled;
    bool ended;
    uint64_t ended_event;
    int status;
    bool given_up;   /* it had finished, and could not be run again for a shard that was restored */
    bool undone;     /* it had finished, and the job went back to a checkpoint that lacks it */
    uint64_t client; /* incarnation of the client that schedules it; 0: the program does */
    bool lost;       /* with a life of the coordinator */
    bool redone;     /* and there is another call for it */
} sim_call_t;

typedef struct {
    uint32_t variable; /* index */
    cadre_assign_mode_t mode;
    uint64_t asked_event;
    uint64_t done_event; /* 0 until the user was told */
    bool lost;
} sim_assignment_t;

typedef struct {
    uint64_t epoch;
    uint64_t cut;            /* its first id */
    uint64_t scheduled;      /* what its totals must say at the end */
    uint64_t missing;        /* finished calls that it began without, somewhere */
    uint64_t data_hash;      /* of the rows that its closures read; 0: none has */
    cadre_u64_map_t updates; /* update id -> call */
} sim_life_t;

/* Why a shard refuses END_STEP, in worlds where one does. */
#define SIM_REFUSED_STEP "a shard of the simulation ends no step"

/* A cut that a coordinator has made. */
typedef struct {
    uint64_t epoch;
    uint64_t checkpoint;
    uint64_t cut;
    uint32_t assignments; /* asked for before it */
    uint32_t left_out;    /* variables that it must not hold: bits id - 1, */
    uint32_t usable;      /* and those that it must */
} sim_cut_of_t;

/* The read under way: all that a shard has told of each part since it began. */
typedef struct {
    uint32_t variable; /* index; SIM_NEVER: none */
    uint64_t begun_event;
    uint64_t request; /* later ones are of this read */
    uint32_t *parts;
    sim_number_t *told;
    sim_rows_t *rows; /* of a table */
    size_t count;
    bool is_beside; /* a client reads the variable, too: what it is told may be of a shard that is
                       not complete */
} sim_read_t;

/* Calls that fail, and are cancelled, apart from others; the first are those without a group. From
 * SIM_GROUP_GOES_ON on a failure cancels nothing; the last is as that of a client: its calls have
 * no turn. */
enum { SIM_GROUPS = 4, SIM_GROUP_GOES_ON = 2, SIM_GROUP_OF_CLIENT = 3 };

typedef struct {
    const cadre_closure_group_t *closures; /* the core's */
    bool is_cancelled; /* the user has cancelled it, and scheduled nothing of it since */
    int first_error;   /* since the last one was raised */
    char first_text[CADRE_CLOSURE_ERROR_SIZE];
    uint64_t first_event;
    /* An error of the same event: the core tells of ends and of calls that ran again apart, so that
     * either may have been first. 0: there is none. */
    int other_error;
    char other_text[CADRE_CLOSURE_ERROR_SIZE];
} sim_group_t;

typedef struct {
    uint64_t seed;
    const uint64_t *now_ms;
    const uint64_t *events;
    bool in_series; /* updates are applied when they come, in the order of the program's calls */
    bool relaxed;   /* a shard that is lost costs updates */
    sim_variable_t variables[SIM_VARIABLES_MAX];
    uint32_t known_count;
    uint32_t variable_count; /* those that closures of this life may use */
    uint32_t left_out;       /* whose drop has returned in this life: bits id - 1 */
    uint32_t shard_count;
    sim_life_t lives[SIM_LIVES_MAX];
    uint32_t life_count;
    bool is_deposed; /* the newest life's coordinator is back after another was called for: how its
                        calls end, nobody knows */
    sim_state_t **states; /* all there ever were */
    uint32_t state_count;
    sim_call_t **calls;
    uint32_t call_count;
    uint32_t redo; /* calls below it are not lost, or redone */
    sim_assignment_t *assignments;
    uint32_t assignment_count;
    sim_read_t read;
    sim_cut_of_t *cuts; /* all that coordinators have made */
    size_t cut_count;
    uint64_t ended_ms; /* when the last call ended */
    uint64_t restores;
    uint64_t replayed;        /* updates that were applied again after a restore */
    uint64_t taken;           /* results that were arguments, for every attempt */
    uint64_t found;           /* of them without being told */
    uint64_t unserved;        /* closures that ended because no worker could run them */
    uint64_t refused_steps;   /* answers to END_STEP that became a refusal, on purpose */
    uint64_t full_steps;      /* updates that were refused because their step held too much */
    uint64_t full_tables;     /* updates that were refused because a table had no room for rows */
    uint64_t rows_gone;       /* of tables, that updates have evicted */
    uint64_t compensated;     /* late gradients whose values their shard still had, */
    uint64_t uncompensated;   /* that it took as they came, */
    uint64_t in_images;       /* and those that images were given, compensated */
    uint64_t hopeless;        /* times that shards had no checkpoint to begin with */
    uint64_t rotten;          /* files with tables that were damaged when a shard opened them */
    uint64_t went_back;       /* times that the job did */
    uint64_t row_updates;     /* parts of tables that updates or steps changed, */
    uint64_t row_steps;       /* of them by steps, */
    uint64_t keyless;         /* and by updates without keys of theirs */
    uint64_t chained;         /* parts of tables in committed files that left pages to a base */
    bool is_fatal;            /* and the job has ended by it */
    bool few_values;          /* there is little room for results: closures may fail for it */
    uint64_t staleness_bound; /* of a bounded job, else as many as there may be */
    uint32_t short_shard;     /* has no memory for a variable that is too large; SIM_NEVER: none */

    bool cancels_all; /* the user has cancelled everything: calls may end cancelled */
    sim_group_t groups[SIM_GROUPS];
} sim_check_t;

void sim_check_init(sim_check_t *self, uint64_t seed, uint32_t shard_count);
void sim_check_fini(sim_check_t *self);

/* Prints seed, time, event and text, and ends the process. */
_Noreturn void sim_check_fail(const sim_check_t *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- what the user program does --- */

/* Follows a variable from the beginning of its creation on; one that was known in an earlier life
 * must be as it was. */
void sim_check_add_variable(sim_check_t *self, const cadre_variable_t *variable,
                            const sim_definition_t *definition);

/* What a shard may hold, in bytes. */
size_t sim_check_memory(const sim_check_t *self, uint32_t shard);

/* Whether a variable has a part on the shard that is short of memory. */
bool sim_check_is_refused(const sim_check_t *self, uint32_t variable);

/* A new record; the next call that was lost and is to be made again, or NULL. */
sim_call_t *sim_check_add_call(sim_check_t *self);
const sim_call_t *sim_check_next_lost(sim_check_t *self);

/* A new record; its number. */
uint32_t sim_check_add_assignment(sim_check_t *self, uint32_t variable, cadre_assign_mode_t mode);

/* A read begins; what is asked for it has request numbers above `request`. It has ended with the
 * whole value `bytes`: every part is what its shard held meanwhile. */
void sim_check_read_begins(sim_check_t *self, uint32_t variable, uint64_t request);
void sim_check_read(sim_check_t *self, const void *bytes);

/* A read has ended without a value. */
/* (I4) Each row of a read of rows is of a version that its shard has told. */
void sim_check_rows(sim_check_t *self, const cadre_row_plan_t *plan, const void *bytes);
void sim_check_read_ends(sim_check_t *self);

/* Join has returned: nothing the user scheduled is unfinished, and (I2) the shards, which the
 * coordinator believes to be in these states (NULL: away), hold every update of the finished calls
 * and every assignment, each once and in an order that the user can have seen. */
void sim_check_join(sim_check_t *self, sim_state_t *const *states);

/* A shard's updates and assignments are in an order that the user can have seen (I2). */
void sim_check_order(const sim_check_t *self, const sim_state_t *state);

/* In a pause all that was begun has ended: the shards hold every update of the calls that finished,
 * and none of a call that no worker was given. */
void sim_check_still(const sim_check_t *self, sim_state_t *const *states);

/* The finished calls of which one of `states` lacks an update. */
uint64_t sim_check_missing(const sim_check_t *self, sim_state_t *const *states);

/* All shards are ready, without a replay: what they lack is no more than was told to be at risk,
 * and older than their restore. */
void sim_check_risk(sim_check_t *self, sim_state_t *const *states, uint64_t at_risk);

/* The queue raised `status` with `text`, 0 for none. */
void sim_check_raised(sim_check_t *self, uint32_t group, int status, const char *text);

/* --- lives --- */

/* A coordinator begins: what had no id below `cut` is lost. `files` are the shards' of the
 * checkpoint it begins from, or NULLs, and `held` are the numbers that this has. */
void sim_check_begin_life(sim_check_t *self, uint64_t epoch, uint64_t cut,
                          const cadre_sequences_t *held, sim_state_t *const *files);

/* The job goes back to a checkpoint, which has closures with these numbers and these files of the
 * shards: what it lacks is undone, and need be nowhere. */
void sim_check_go_back(sim_check_t *self, const cadre_sequences_t *held, sim_state_t *const *files);
sim_life_t *sim_check_life(sim_check_t *self);

/* What the totals of a checkpoint at `cut` must say. */
void sim_check_totals(const sim_check_t *self, uint64_t cut, const cadre_totals_t *totals);

/* --- what happens in the cluster --- */

/* A worker begins to compute an attempt of a closure; returns its record. */
sim_call_t *sim_check_started(sim_check_t *self, uint64_t epoch,
                              const cadre_closure_message_t *closure);

/* A closure was handed out: its id is known. */
void sim_check_begun(sim_check_t *self, uint64_t epoch, const cadre_closure_message_t *closure);

/* (I4) What a worker has in a session, its shard had as that version. */
void sim_check_pulled(sim_check_t *self, uint64_t epoch, const sim_pulled_t *pulled);

/* (I4) The part that a client has read is what its shard had in the session as that version. */
void sim_check_part_read(sim_check_t *self, uint64_t epoch, const sim_pulled_t *read);

/* (I4) What a worker keeps as a version of one generation, its shard had as that version then. */
void sim_check_kept(sim_check_t *self, uint64_t epoch, uint64_t generation,
                    const sim_pulled_t *kept);

/* All shards of a step have answered the worker: each must have it. */
void sim_check_pushed(sim_check_t *self, const sim_call_t *call, uint32_t step);

/* The coordinator ended a closure. */
void sim_check_ended(sim_check_t *self, sim_call_t *call, const cadre_results_t *results);

/* Returns whether a call that it takes results of has failed: it must have failed with it. */
bool sim_check_has_failed_source(const sim_check_t *self, const sim_call_t *call);

/* Closure `id`, which had finished, fails while it runs again: the user is told. */
void sim_check_given_up(sim_check_t *self, uint64_t id, int status);

/* A shard begins anew as `begin` says (shard, epoch, generation, cut), from the file of a
 * checkpoint, or from initial values with NULL. */
sim_state_t *sim_check_restored(sim_check_t *self, const sim_state_t *begin,
                                const sim_state_t *file);

/* A shard in `state` (NULL: it has not begun) answered `question` with `answer`: the model follows,
 * and (I1, I4) they agree. `is_gone`: the variable was dropped, and the shard does not have it. */
void sim_check_push(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                    const cadre_message_t *answer);
void sim_check_assign(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                      const cadre_message_t *answer, bool is_gone);
void sim_check_values_sent(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                           const cadre_message_t *answer, bool to_coordinator);

/* A shard holds an update of a synchronous step, which changes nothing before its end. */
void sim_check_hold(sim_check_t *self, sim_state_t *state, const sim_call_t *call,
                    const cadre_message_t *question, const cadre_message_t *answer);

/* (I4) In a job in series the update of `call` that is applied now comes behind those of all calls
 * before it, and is made of what these left. */
void sim_check_series(sim_check_t *self, sim_state_t *state, const sim_call_t *call,
                      const cadre_push_message_t *push);

/* A shard answered END_STEP. */
void sim_check_end_step(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                        const cadre_message_t *answer);

/* A shard was told that everything below `base` is settled. */
void sim_check_settled(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                       const cadre_message_t *answer);

/* The coordinator of this session cuts: the assignments so far are below it, and the updates below
 * `cut`. */
void sim_check_cut(sim_check_t *self, uint64_t epoch, uint64_t checkpoint, uint64_t cut);

/* The cut of `checkpoint` in the session `epoch`, NULL when there was none. */
const sim_cut_of_t *sim_check_find_cut(const sim_check_t *self, uint64_t epoch,
                                       uint64_t checkpoint);

/* The shard opens the cut of `checkpoint`, unless it has opened that or a later one. */
void sim_check_open_cut(sim_check_t *self, sim_state_t *state, uint64_t checkpoint, uint64_t cut);

/* The checkpoint is over for the shard. */
void sim_check_end_cut(sim_state_t *state, uint64_t checkpoint);

/* The shard has closed the cut: the closures below it have ended. Whether exactly they
 * are in it matters only if the checkpoint is committed; state->problem says so. */
void sim_check_snapshot(sim_check_t *self, sim_state_t *state, uint64_t checkpoint, uint64_t cut);

/* (I5) A checkpoint is committed: exactly the closures below its cut are in the shard's file, of
 * which the manifest says `state`. */
void sim_check_commit(const sim_check_t *self, const sim_state_t *file, uint64_t checkpoint,
                      const cadre_shard_state_t *state);

/* The state holds every update of the calls that had ended by `event`, and the assignments. */
void sim_check_complete(const sim_check_t *self, const sim_state_t *state, uint64_t event);

/* Everything of one partition is what the model says. */
void sim_check_held(sim_check_t *self, sim_state_t *state, const sim_variable_t *variable,
                    uint32_t part, const cadre_partition_snapshot_t *held);

/* One partition as the shard holds it is what the model says. */
void sim_check_partition(sim_check_t *self, sim_state_t *state, const sim_variable_t *variable,
                         uint32_t part, const cadre_partition_t *partition);

/* The part of a table as the shard holds it, or as a checkpoint has it, is what the model says. */
void sim_check_table(sim_check_t *self, sim_state_t *state, const sim_variable_t *variable,
                     uint32_t part, const cadre_table_t *table);

/* (I5) The shard has taken the changes of the learning rate of a part that it was told of. */
void sim_check_rates(const sim_check_t *self, const sim_state_t *state,
                     const sim_variable_t *variable, uint32_t part, size_t rates);

/* (I7) What a shard counts of its part of a table is what the model says. */
void sim_check_table_counters(sim_check_t *self, sim_state_t *state, uint64_t variable,
                              const cadre_u64s_t *counters);

/* (I4) The chunks of one partition are made with one n, as those of an assignment are; returns
 * it. */
int64_t sim_check_chunks(const sim_check_t *self, const sim_variable_t *variable, uint32_t part,
                         cadre_chunk_t *const *chunks, size_t count);

/* Whether the chunks are all of one partition, and that number, in a dtype. */
bool sim_chunks_are(const sim_pulled_t *self, cadre_dtype_t dtype, const sim_number_t *number);

/* The same as it travels. */
bool sim_pulled_is(const sim_pulled_t *self, const sim_number_t *number);

/* Whether that is what `value` was as of its version. */
bool sim_pulled_was(const sim_pulled_t *self, const sim_value_t *value);

/* The variables that closures may use: bits (id - 1). */
uint32_t sim_check_usable(const sim_check_t *self);

/* Whether one of these (variable, ...) tuples of `size` is of a variable that was dropped in some
 * life: attempts that nobody waits for may still ask for it. */
bool sim_check_names_dropped(sim_check_t *self, const cadre_u64s_t *items, size_t size);

/* The variable with this id. */
sim_variable_t *sim_check_variable(sim_check_t *self, uint64_t id);

/* True when the answer to `question` is a refusal, as it must be exactly for what is foreign. */
bool sim_check_is_fenced(const sim_check_t *self, const sim_state_t *state,
                         const cadre_message_t *question, uint64_t generation, uint64_t status);

/* A part, which must be the shard's. */
sim_value_t *sim_check_value(sim_check_t *self, sim_state_t *state, uint64_t variable,
                             uint64_t part);

/* The call that an update of a session belongs to; NULL for none. */
sim_call_t *sim_check_call_of(const sim_check_t *self, uint64_t epoch, uint64_t update);

/* The keys of `part` (variable, partition) of a table that an update changes; 0 of a dense
 * variable. */
uint64_t sim_check_pushed_keys(sim_check_t *self, const sim_call_t *call, uint64_t update,
                               const uint64_t part[2]);

/* The shards that hold a part of any of `variables` (bit id - 1): bits. */
uint32_t sim_check_shards(const sim_check_t *self, uint32_t variables);

/* At the end: (I7) what the shard counts is what it was seen to answer. */
void sim_check_counters(const sim_check_t *self, const sim_state_t *state,
                        const uint64_t *counters);

#endif
