/*
 * checkpoint - taking one: cut, snapshot, write, commit.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     IDLE -> OPENING   the store makes a temporary directory; then no shard may be away, nothing
 *                       run again, and no resumed variable be half created
 *          -> DRAINING  nothing with an id at or above the cut is handed out until all below
 *                       have ended
 *          -> SNAPSHOT  every shard takes references; when all have, dispatch goes on
 *          -> WRITING   every shard writes its file
 *          -> COMMITTING the store writes the manifest and renames; then IDLE
 *
 * Any failure or a deadline ends it: the temporary directory goes, the checkpoint before stays,
 * training has never stopped. Only COMMITTING cannot be given up: the rename decides.
 */
#ifndef CADRE_COORDINATOR_CHECKPOINT_H
#define CADRE_COORDINATOR_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#include "common/message.h"
#include "coordinator/closure.h"
#include "coordinator/sequences.h"

struct cadre_core;

typedef enum {
    CADRE_CHECKPOINT_IDLE,
    CADRE_CHECKPOINT_OPENING,
    CADRE_CHECKPOINT_DRAINING,
    CADRE_CHECKPOINT_SNAPSHOT,
    CADRE_CHECKPOINT_WRITING,
    CADRE_CHECKPOINT_COMMITTING,
} cadre_checkpoint_state_t;

enum {
    CADRE_CHECKPOINT_DRAIN_MS = 600000,  /* closures below the cut must end within this */
    CADRE_CHECKPOINT_WRITE_MS = 3600000, /* shards must have written within this */
    CADRE_CHECKPOINT_RETRY_MS = 10000,   /* after one that failed, before the next that must be */
};

/* What one shard wrote. */
typedef struct {
    bool taken;
    bool written;
    uint64_t assigned; /* the last assignment that its snapshot holds */
    char file[CADRE_NAME_SIZE_MAX + 1];
    uint64_t size_bytes;
    uint64_t hash;
    uint64_t counters[64];
    size_t counter_count;
} cadre_written_shard_t;

typedef enum {
    CADRE_STORE_OPEN,   /* begin a draft; answer with id and path */
    CADRE_STORE_COMMIT, /* manifest from the core's catalogue, `shards` and `progress`; rename;
                           retention */
    CADRE_STORE_ABORT,  /* remove the draft */
} cadre_store_order_kind_t;

typedef struct {
    cadre_store_order_kind_t kind;
    uint64_t checkpoint;
    void *manifest; /* COMMIT: a cadre_manifest_t that the receiver ends and frees */
} cadre_store_order_t;

typedef struct {
    cadre_store_order_kind_t kind;
    uint64_t checkpoint;
    int status;
    const char
        *text; /* the failure, or the path: of the draft (OPEN), of the checkpoint (COMMIT) */
} cadre_store_answer_t;

/* Gives the caller's progress record for a cut: JSON text that is freed, or NULL. */
typedef char *(*cadre_progress_t)(void *context, uint64_t cut);

typedef struct {
    struct cadre_core
        *core; /* of the one under way: what is asked for it is asked for this struct */
    bool enabled;
    uint64_t every_ms; /* 0: only when asked */
    uint64_t due_ms;
    uint64_t saved;    /* `done` of the newest commit; 0 once that could not be read */
    uint64_t retry_ms; /* one that is needed to make room does not begin before */
    cadre_checkpoint_state_t state;
    uint64_t id;    /* of the one under way, 0 before OPENING was answered */
    uint32_t opens; /* orders to open that the store has not answered, old ones included */
    uint64_t cut;
    uint64_t deadline_ms;
    uint64_t begun_ms;
    uint64_t hold_ms;              /* when dispatch was held: the pause is measured from here */
    char *draft;                   /* its temporary directory */
    char *progress;                /* of this one: what save was given, or the callback said */
    uint64_t assigns;              /* noted for a replay and covered by the snapshots */
    uint64_t done;                 /* how much the snapshots hold, see checkpoint.c */
    uint64_t unsaved;              /* what the core's was when they were asked for */
    uint32_t variable_count;       /* of the catalogue's, that they hold whole */
    cadre_totals_t totals;         /* at the cut, `scheduled` being the closures below it */
    cadre_written_shard_t *shards; /* [ps_count] */
    cadre_sequences_t held;        /* numbers of closures that ended well, below the cut of one
                                      that is under way */
    cadre_sequences_t later;       /* and of those from its cut on */
    cadre_progress_t on_progress;
    void *progress_context;
    char **awaited; /* what was resumed and is not known to be created again */
    size_t awaited_count;
    bool awaited_told;

    uint64_t attempts; /* ended, well or not: a caller waits for its number */
    int last_status;   /* how the last one ended */
    char last_text[CADRE_TEXT_SIZE_MAX + 1];
    bool ps_lost; /* that is why the last one failed: the next may well succeed */
    uint64_t last_id;
    char *last_path; /* newest committed or resumed; NULL when none */
} cadre_checkpoint_t;

/* The checkpoint that was resumed holds this variable. Until the program has created it again, a
 * checkpoint would be one without it, and a ps that is lost would begin it anew: automatic ones
 * wait. */
void cadre_checkpoint_await(cadre_checkpoint_t *self, const char *variable);

/* Begins one now. `progress` (may be NULL) is copied. CADRE_ESTATE when checkpoints are off,
 * CADRE_EBUSY never: the caller looks at `state` first. */
int cadre_checkpoint_begin(struct cadre_core *core, const char *progress);

/* Whether closures that have no id yet must wait. */
bool cadre_checkpoint_holds(const struct cadre_core *core);

/* Moves on; called every turn. Returns when it must be called again. */
uint64_t cadre_checkpoint_tick(struct cadre_core *core);

void cadre_checkpoint_on_written(struct cadre_core *core, uint32_t shard,
                                 const cadre_snapshot_written_message_t *written);
void cadre_checkpoint_on_stored(struct cadre_core *core, const cadre_store_answer_t *answer);

/* Notes that a closure with a sequence number has ended well: a checkpoint holds it unless its cut
 * is below the closure. */
void cadre_checkpoint_note_ended(struct cadre_core *core, const cadre_closure_t *closure);

/* Gives up the one under way, unless it is being committed. */
void cadre_checkpoint_abort(struct cadre_core *core, int status, const char *text);

/* A ps is lost, and with it what it wrote: gives up the one under way as CADRE_EUNAVAILABLE. */
void cadre_checkpoint_on_lost(struct cadre_core *core);

void cadre_checkpoint_fini(cadre_checkpoint_t *self);

#endif
