/*
 * checkpoint - taking one: cut, snapshot, write, commit (docs/protocol.md#checkpoints).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     IDLE -> OPENING  the store makes a temporary directory; then no shard may be away, nothing
 *                      run again, and no resumed variable be half created
 *          -> CUT      the cut is open at the id that comes next: every shard takes references,
 *                      and applies what still comes from below the cut to them too. Dispatch
 *                      goes on; what it hands out from now on carries the number of the cut
 *          -> WRITING  all shards have opened it and all closures below it have ended: every shard
 *                      closes the cut and writes its file
 *          -> COMMITTING the store writes the manifest and renames; then IDLE
 *
 * A failure ends it: the temporary directory goes, the checkpoint before stays, training has never
 * stopped. So does the loss of a ps while its shard has the cut: what it held of it is gone, and
 * another checkpoint begins as soon as the shard is back. No state has a deadline: how long
 * closures run and files take to write is the job's. What one waits for is reported, by name, every
 * CADRE_CHECKPOINT_REPORT_MS. COMMITTING cannot be given up, because the rename decides; after
 * CADRE_CHECKPOINT_COMMIT_MS it only holds up no restore any more (`overdue`): a shard that is lost
 * then begins with the checkpoint before, which stays on disk beside the one that may be there or
 * not.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_CHECKPOINT_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#include "common/wire/message.h"
#include "coordinator/core/checkpoint/sequences.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/closure.h"
#include "coordinator/core/closures/pace.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/windows.h"

typedef enum {
    CADRE_CHECKPOINT_IDLE,
    CADRE_CHECKPOINT_OPENING,
    CADRE_CHECKPOINT_CUT,
    CADRE_CHECKPOINT_WRITING,
    CADRE_CHECKPOINT_COMMITTING,
} cadre_checkpoint_state_t;

enum {
    CADRE_CHECKPOINT_REPORT_MS = 30000, /* in one state: what it waits for is logged, and again */
    CADRE_CHECKPOINT_COMMIT_MS = 30000, /* a lost shard waits for a commit no longer than this */
    CADRE_CHECKPOINT_RETRY_MS = 10000,  /* after a failure, before one that makes room is tried */
    CADRE_CHECKPOINT_WAITS_SIZE = 512,  /* bytes of cadre_checkpoint_waits */
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

/* Gives the caller's progress record for a cut: JSON text that is freed, or NULL. */
typedef char *(*cadre_progress_t)(void *context, uint64_t cut);

/* What it reads, and whom it tells: all borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    const cadre_begun_t *begun;
    const cadre_pace_t *pace;
    const cadre_replay_t *replay;
    const cadre_totals_t *totals; /* of the job, so far */
    cadre_shard_recovery_t *recovery;
    cadre_windows_t *windows;
    cadre_shard_requests_t *requests;
    cadre_effects_t *effects;
} cadre_checkpoint_links_t;

typedef struct {
    cadre_checkpoint_links_t links;
    bool enabled;
    uint64_t every_ms; /* 0: only when asked */
    uint64_t due_ms;
    uint64_t saved;    /* `done` of the newest commit; 0 once that could not be read */
    uint64_t retry_ms; /* a checkpoint that is to make room for a replay begins no earlier */
    cadre_checkpoint_state_t state;
    uint64_t id;    /* of the one under way, 0 before OPENING was answered */
    uint64_t ended; /* the newest that is not under way any more */
    uint32_t opens; /* orders to open that the store has not answered, old ones included */
    uint64_t cut;
    size_t below; /* CUT: closures below it that have not ended */
    uint64_t begun_ms;
    uint64_t state_ms; /* when it came into its state */
    uint64_t told_ms;  /* when the log last said what it waits for, or state_ms */
    bool overdue;      /* COMMITTING: a shard that is lost does not wait for it */
    char *committed;   /* COMMITTING: its path, while it waits for a restore to end; else NULL */
    char *draft;       /* its temporary directory */
    char *progress;    /* of this one: what save was given, or the callback said */
    uint64_t assigns;  /* noted for a replay and below the cut */
    uint64_t done;     /* how much the cut holds, see checkpoint.c */
    uint64_t unsaved;  /* what the replay's would be without closures above the cut */
    uint32_t variable_count; /* of the catalogue's, that it holds whole, */
    uint64_t drops;          /* but for those that so many drops had taken */
    cadre_totals_t totals; /* at the cut, of closures only those below it, which end after it too */
    cadre_written_shard_t *shards; /* [ps_count] */
    cadre_sequences_t held;        /* numbers of closures that ended well, below the cut of one
                                      that is under way */
    cadre_sequences_t later;       /* and of those from its cut on */
    cadre_progress_t on_progress;
    void *progress_context;
    char **awaited; /* what was resumed and is not known to be created again */
    size_t awaited_count;
    bool awaited_told;

    uint32_t committed_count; /* since the core has counted them, */
    uint32_t failed_count;    /* as well as those that were given up */
    uint64_t attempts;        /* ended, well or not: a caller waits for its number */
    int last_status;          /* how the last one ended */
    char last_text[CADRE_TEXT_SIZE_MAX + 1];
    bool ps_lost; /* that is why the last one failed: the next may well succeed */
    uint64_t last_id;
    char *last_path;     /* newest committed or resumed; NULL when none */
    uint64_t last_bytes; /* newest committed: size of its files; 0 when none was in this session, */
    uint64_t last_took_ms; /* how long it took, */
    uint64_t last_ms;      /* and when that was; before, when the session began */
} cadre_checkpoint_t;

void cadre_checkpoint_init(cadre_checkpoint_t *self, const cadre_checkpoint_links_t *links);

/* Checkpoints can be taken from now on: when asked, and every `every_ms` unless that is 0. */
void cadre_checkpoint_enable(cadre_checkpoint_t *self, uint64_t every_ms);

/* Asks `on_progress` for the progress record of every checkpoint that was not given one. */
void cadre_checkpoint_ask_progress(cadre_checkpoint_t *self, cadre_progress_t on_progress,
                                   void *context);

/* The checkpoint that was resumed holds closures with these numbers. */
void cadre_checkpoint_hold(cadre_checkpoint_t *self, const cadre_sequence_range_t *range);

/* The newest one is that at `path`, which is copied: the session began with it. */
void cadre_checkpoint_resume(cadre_checkpoint_t *self, const char *path);

/* The checkpoint that was resumed holds this variable. Until the program has created it again, a
 * checkpoint would be one without it, and a ps that is lost would reinitialise it: automatic ones
 * wait. */
void cadre_checkpoint_await(cadre_checkpoint_t *self, const char *variable);

/* It was created again, and is dropped now. */
void cadre_checkpoint_await_no_more(cadre_checkpoint_t *self, const char *variable);

/* Begins a checkpoint, where none is under way (`state`). `progress` (may be NULL) is copied.
 *
 * CADRE_ESTATE: checkpoints are off. */
int cadre_checkpoint_begin(cadre_checkpoint_t *self, const char *progress);

/* Whether some shard may have a cut open. */
bool cadre_checkpoint_has_open_cut(const cadre_checkpoint_t *self);

/* The cut that a closure with this id belongs after: CLOSURE's `checkpoint` and `cut`, 0 for none.
 * With UINT64_MAX: an assignment that is made now. Some shard may have the cut open until all have
 * written. */
void cadre_checkpoint_after(const cadre_checkpoint_t *self, uint64_t id, uint64_t *checkpoint,
                            uint64_t *cut);

/* A closure is handed out, again or for the first time. */
void cadre_checkpoint_on_attempt(cadre_checkpoint_t *self, uint64_t id);

/* A closure that was begun has ended. `unsaved`: with updates that are not kept for a replay. */
void cadre_checkpoint_on_ended(cadre_checkpoint_t *self, uint64_t id, int status, bool unsaved);

/* The newest one could not be read: another is due, also where nothing is done any more. */
void cadre_checkpoint_on_unreadable(cadre_checkpoint_t *self);

/* Whether the store is about to decide which one is the newest, and not overdue. */
bool cadre_checkpoint_decides(const cadre_checkpoint_t *self);

/* What the one under way waits for, in words; the oldest closure below the cut by its function and
 * worker. */
void cadre_checkpoint_waits(const cadre_checkpoint_t *self, char text[CADRE_CHECKPOINT_WAITS_SIZE]);

/* Moves on; called every turn. `may_begin`: an automatic one may. Returns when it must be called
 * again. */
uint64_t cadre_checkpoint_tick(cadre_checkpoint_t *self, bool may_begin);

/* Adds how many were committed and given up since the last call to the totals of the job. */
void cadre_checkpoint_count(cadre_checkpoint_t *self, cadre_totals_t *totals);

void cadre_checkpoint_on_written(cadre_checkpoint_t *self, uint32_t shard,
                                 const cadre_snapshot_written_message_t *written);
void cadre_checkpoint_on_stored(cadre_checkpoint_t *self, const cadre_store_answer_t *answer);

/* Notes that a closure with a sequence number (one that restarts count by: cadre/coordinator.h) has
 * succeeded. The checkpoint that is open holds it if its id is below the cut. */
void cadre_checkpoint_note_ended(cadre_checkpoint_t *self, const cadre_closure_t *closure);

/* Gives up the one under way, unless it is being committed. */
void cadre_checkpoint_abort(cadre_checkpoint_t *self, int status, const char *text);

/* A ps is lost, and with it its part of a cut, open or being written: gives that one up as
 * CADRE_EUNAVAILABLE. An automatic one comes in its place soon. */
void cadre_checkpoint_on_lost(cadre_checkpoint_t *self);

void cadre_checkpoint_fini(cadre_checkpoint_t *self);

#endif
