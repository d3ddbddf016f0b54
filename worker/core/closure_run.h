/*
 * closure_run - one closure on this worker: from arrival to the coordinator's acknowledgement.
 *
 * Owner:   the worker core. Thread: the network actor's; a slot has its call (closure_call.h).
 *
 * States:
 *     WAITING    a definition is missing, or its batch is being read
 *     QUEUED     ready for a slot
 *     COMPUTING  a slot works on it
 *     PULLING    its slot waits for values
 *     PUSHING    its slot waits until every shard has its update
 *     REPORTING  ended; the report is kept until it is acknowledged
 */
#ifndef CADRE_WORKER_CORE_CLOSURE_RUN_H
#define CADRE_WORKER_CORE_CLOSURE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/tensor/chunk_layout.h"
#include "common/wire/message.h"
#include "common/wire/outbox.h"
#include "worker/core/closure_call.h"

typedef enum {
    CADRE_RUN_WAITING,
    CADRE_RUN_QUEUED,
    CADRE_RUN_COMPUTING,
    CADRE_RUN_PULLING,
    CADRE_RUN_PUSHING,
    CADRE_RUN_REPORTING,
} cadre_run_state_t;

/* Rows of a variable by their numbers, without duplicates and ascending; of a table by their keys,
 * those of one shard after those of another, each ascending. */
typedef struct {
    const uint64_t *ids;
    size_t count;
} cadre_rows_t;

/* What a slot wants to pull: a whole variable, or some of its rows. */
typedef struct {
    const cadre_variable_entry_t *variable;
    const cadre_rows_t *rows; /* NULL: all */
} cadre_wanted_t;

/* One partition of a pull or push that is not finished, or some of its rows. Rows of one partition
 * are several parts of a pull where a message does not hold them. */
typedef struct {
    const cadre_variable_entry_t *variable;
    size_t item; /* number of what was wanted, or of the gradient, that the part belongs to */
    uint32_t partition;
    uint16_t shard;
    const uint64_t *ids; /* of the rows, borrowed from the slot; NULL: the whole partition,
                            or of a table none */
    size_t id_count;
    uint64_t version;       /* of the partition when it was pulled; of a push: the version that the
                            gradient was computed from */
    uint64_t generation;    /* of the shard when it was pulled */
    cadre_chunk_t **chunks; /* the values that came, or the gradient that goes; of rows some of
                               which this worker holds: room for all, with these in it */
    size_t chunk_count;
    uint64_t newest; /* the newest version of which the worker holds one of the rows */
    uint16_t *ages;  /* [id_count]: 0 for a row that it does not hold, else 1 plus how many versions
                        it is older than that; NULL: it holds none */
} cadre_run_part_t;

/* A pulled variable: the chunks of its partitions in order; joined they are the variable's values,
 * or the rows that were wanted, in its wire dtype. */
typedef struct {
    const cadre_variable_entry_t *variable;
    uint64_t content; /* content number (value_cache.h): no other content of any variable has it in
                         this process; 0: unknown, as of rows */
    size_t size_bytes;
    cadre_chunk_t **chunks;
    size_t chunk_count;
} cadre_value_t;

/* One gradient that a slot hands over, contiguous, in the variable's wire dtype: the whole
 * variable's, or that of some rows, of which the chunk holds at least as many as there are. */
typedef struct {
    const cadre_variable_entry_t *variable;
    cadre_chunk_t *gradient;
    const cadre_rows_t *rows; /* NULL: all */
} cadre_gradient_t;

typedef struct {
    uint64_t updates;
    uint64_t duplicates;
    uint64_t staleness;
    uint64_t compute_us;
    uint64_t arrived_ms;
} cadre_run_totals_t;

typedef struct cadre_run {
    cadre_closure_call_t call;
    cadre_run_state_t state;
    bool loading;  /* the shell reads the batches of the closure */
    uint32_t slot; /* place among slots + ahead, valid while COMPUTING, PULLING or PUSHING */
    uint64_t attempt;
    uint64_t restores;       /* `restores` of the directory when this attempt came: a shard that was
                              restored since is not the one that the attempt began with */
    bool touched;            /* the run has sent a request to a shard */
    cadre_message_t newer;   /* a CLOSURE of a later attempt, to be run when this one has ended;
                              zeroed: none */
    bool newer_cancelled;    /* the attempt in `newer` was cancelled while it waited */
    uint64_t newer_restores; /* `restores` of the directory when `newer` came */
    uint32_t step;           /* steps pushed so far, which is the number of the next one */
    struct cadre_run *next;  /* the next run in the queue of QUEUED runs; NULL for the last */

    cadre_run_part_t *parts; /* of the unfinished pull or push; NULL when there is none */
    size_t part_count;
    size_t item_count;       /* of a pull: how many variables were wanted */
    size_t pending;          /* requests of the pull or push that are not answered */
    size_t received_bytes;   /* values that came for the last pull, without unchanged partitions */
    int status;              /* first failure of the pull or push; 0: none so far */
    cadre_failure_t failure; /* whose fault the failure was */
    uint32_t failed_shard;   /* shard at which a pull or push failed last; kept after that has
                                ended */
    char text[CADRE_TEXT_SIZE_MAX + 1];

    cadre_u64_map_t pulled; /* variable id -> uint64_t[partitions]: versions of the last pull */
    cadre_run_totals_t totals;
    cadre_outbox_entry_t report; /* what the coordinator was told of the end; set in REPORTING */
    uint64_t report_after; /* number of the last HELLO or HEARTBEAT before `report` was last sent */
} cadre_run_t;

/* Returns a run of the CLOSURE `message`, which it takes (zeroed afterwards). */
cadre_run_t *cadre_run_new(cadre_message_t *message, uint64_t now_ms);
void cadre_run_destroy(cadre_run_t **self_p);

uint64_t cadre_run_id(const cadre_run_t *self);

/* Set the number of the attempt, with `restores` of the directory when the attempt came; and the
 * slot that the run is on. */
void cadre_run_set_attempt(cadre_run_t *self, uint64_t attempt, uint64_t restores);
void cadre_run_set_slot(cadre_run_t *self, uint32_t slot);

/* Notes that the shell reads the run's batches; the shell calls cadre_worker_core_loaded when
 * they are read. */
void cadre_run_load(cadre_run_t *self);

/* Cancels the run's attempt, and the later attempt that is kept. */
void cadre_run_cancel_all(cadre_run_t *self);

/* Give the run its report, which makes it REPORTING; and note `asked`, the number of the last HELLO
 * or HEARTBEAT before the report was sent. */
void cadre_run_report(cadre_run_t *self, const cadre_task_t *coordinator, cadre_message_t *report);
void cadre_run_note_sent(cadre_run_t *self, uint64_t asked);

/* Keeps a later attempt (takes its message) until this one has ended, in place of one that was kept
 * before. `restores`: how many restores of shards the worker knew of when the attempt came. */
void cadre_run_keep_newer(cadre_run_t *self, cadre_message_t *message, uint64_t restores);

/* Drop the later attempt that is kept; return whether one is kept; take its message out. */
void cadre_run_drop_newer(cadre_run_t *self);
bool cadre_run_has_newer(const cadre_run_t *self);
cadre_message_t cadre_run_take_newer(cadre_run_t *self);

/* Changes the state: the only place that does, and asserts that the change is an allowed one. */
void cadre_run_set_state(cadre_run_t *self, cadre_run_state_t state);

/* Sets up the parts of a pull. */
void cadre_run_begin_pull(cadre_run_t *self, const cadre_wanted_t *wanted, size_t count);

/* Sets up the parts of a push, cutting each gradient into the chunks of each partition (views of
 * it; nothing is copied but ids). The parts of whole variables come first. CADRE_ESHAPE when a
 * gradient's size is not its variable's, or less than its rows have; CADRE_EEXISTS for a variable
 * named twice. */
int cadre_run_begin_push(cadre_run_t *self, const cadre_gradient_t *gradients, size_t count);

/* Joins the finished pull into one value for each that was wanted, in that order; remembers the
 * versions; ends the parts. The caller owns the array and its references (cadre_values_fini). */
cadre_value_t *cadre_run_end_pull(cadre_run_t *self, size_t *count);

/* Ends the parts of a push or a failed pull. */
void cadre_run_end_parts(cadre_run_t *self);

/* Returns the version of a partition in this run's last pull; 0 when it was not pulled. */
uint64_t cadre_run_pulled_version(const cadre_run_t *self, uint32_t variable, uint32_t partition);

/* Begin a pull or push (`state`: CADRE_RUN_PULLING or CADRE_RUN_PUSHING); end the one under way.
 * A push that went well counts as a step of the closure. */
void cadre_run_begin_operation(cadre_run_t *self, cadre_run_state_t state);
void cadre_run_end_operation(cadre_run_t *self);

/* Note a failure of the pull or push; the first one counts. `shard`: where the failure was. */
void cadre_run_fail(cadre_run_t *self, cadre_failure_t failure, int status, const char *text);
void cadre_run_fail_at(cadre_run_t *self, uint32_t shard, cadre_failure_t failure, int status,
                       const char *text);

/* Fails the pull or push with CADRE_ECANCELLED, without waiting for shards. */
void cadre_run_cancel_operation(cadre_run_t *self);

/* Notes that the run sends requests to shards, so that a later attempt may not replace it. */
void cadre_run_touch(cadre_run_t *self);

/* Note a request to a shard; note an answer, and return whether no other answer is awaited. */
void cadre_run_await(cadre_run_t *self);
bool cadre_run_answered(cadre_run_t *self);

/* Returns whether a part of a push names a table of which the update has no key. */
bool cadre_run_part_is_keyless(const cadre_run_part_t *self);

/* Returns how the values or the gradient of a part are cut into chunks. */
cadre_chunk_layout_t cadre_run_part_layout(const cadre_run_part_t *self);

/* Gives a part of a pull, which is some rows, room for all of them, into which the caller copies
 * those that the worker holds; takes `ages`. */
void cadre_run_part_hold(cadre_run_part_t *self, uint64_t generation, uint64_t newest,
                         uint16_t **ages);

/* Notes that the room of such a part has all rows, as of this version. */
void cadre_run_part_complete(cadre_run_part_t *self, uint64_t version);

/* Fills a part of a pull, with references of its own, in place of what it may have. */
void cadre_run_part_fill(cadre_run_part_t *self, uint64_t version, uint64_t generation,
                         cadre_chunk_t *const *chunks, size_t count);

/* Count what a pull or push brought: bytes of values received; an update that the shard applied; an
 * update that the shard had applied before (an earlier attempt's). */
void cadre_run_note_received(cadre_run_t *self, size_t size_bytes);
void cadre_run_note_applied(cadre_run_t *self, uint64_t staleness);
void cadre_run_note_duplicate(cadre_run_t *self);

void cadre_values_fini(cadre_value_t **values_p, size_t count);

#endif
