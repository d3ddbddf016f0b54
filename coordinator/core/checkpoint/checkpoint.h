/*
 * checkpoint - takes checkpoints: cut, snapshot, write, commit (docs/protocol.md#checkpoints).
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
 * A failure ends the checkpoint: its temporary directory is deleted, the checkpoint before stays
 * valid, and training has never stopped. The loss of a ps whose shard has the cut open ends it,
 * too: the snapshot of that shard is gone, and another checkpoint begins as soon as the shard is
 * back. No state has a deadline: how long closures run and files take to write is up to the job.
 * What a state waits for is logged, by name, every CADRE_CHECKPOINT_REPORT_MS. COMMITTING cannot be
 * given up, because the rename in the store decides; but after CADRE_CHECKPOINT_COMMIT_MS it holds
 * up no restore any more (`overdue`): a shard that is lost then begins with the checkpoint before,
 * which stays on disk, whether the new one was renamed or not.
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
    CADRE_CHECKPOINT_REPORT_MS = 30000, /* how often the log says what a state waits for */
    CADRE_CHECKPOINT_COMMIT_MS =
        30000, /* a commit in progress holds up the restore of a lost shard no longer than this */
    /* how long after a failure a checkpoint that is to empty the replay log is tried again */
    CADRE_CHECKPOINT_RETRY_MS = 10000,
};

/* What one shard has done for the checkpoint under way. `taken`: it has opened the cut; `written`:
 * it has written its file, which the last fields describe. */
typedef struct {
    bool taken;
    bool written;
    uint64_t assigned;     /* number of the last assignment that the shard's snapshot holds */
    uint64_t step;         /* the synchronous step that the cut lies after; 0: none since it was
                          restored */
    uint64_t written_step; /* the one that the values come after, as the ps says that wrote them */
    char file[CADRE_NAME_SIZE_MAX + 1];
    uint64_t size_bytes;
    uint64_t hash;
    uint64_t counters[64];
    size_t counter_count;
} cadre_written_shard_t;

/* Returns the program's progress record for a cut: JSON text, which the checkpoint frees; NULL:
 * none. `of_clients`: how many ids below the cut closures of clients were given in this session. */
typedef char *(*cadre_progress_t)(void *context, uint64_t cut, uint64_t of_clients);

/* The objects that a checkpoint reads and calls; borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    const cadre_begun_t *begun;
    const cadre_pace_t *pace;
    const cadre_replay_t *replay;
    const cadre_totals_t *totals; /* counters of the job, so far */
    cadre_shard_recovery_t *recovery;
    cadre_windows_t *windows;
    cadre_shard_requests_t *requests;
    cadre_effects_t *effects;
} cadre_checkpoint_links_t;

typedef struct {
    cadre_checkpoint_links_t links;
    bool enabled;
    uint64_t every_ms;    /* interval of automatic checkpoints; 0: none are taken for the time */
    uint64_t every_steps; /* begun steps between automatic checkpoints; 0: none for steps */
    uint64_t due_ms;
    /* Of a job with tables one of so many checkpoints is full; 0 and 1: each is. The others leave
     * pages of tables to the one before (docs/protocol.md#checkpoints). */
    uint32_t full_every;
    uint32_t chain; /* checkpoints from the newest full one to the newest; 0: the next is full */
    uint64_t full_bytes;  /* size of the files of that full one */
    uint64_t chain_bytes; /* size of the files of those behind it */
    uint64_t since; /* WRITING: the checkpoint to which this one leaves pages; 0: it is full */
    /* `done` of the newest commit; 0 when its files turned out to be unreadable */
    uint64_t saved;
    uint64_t retry_ms; /* a checkpoint that is to empty the full replay log begins no earlier */
    cadre_checkpoint_state_t state;
    uint64_t id;    /* id of the checkpoint under way; 0 before the store has made its directory */
    uint64_t ended; /* highest id of a checkpoint that was committed or given up */
    uint32_t opens; /* orders to open that the store has not answered, old ones included */
    uint32_t retains; /* orders to retain that the store has not answered */
    uint64_t spared;  /* id of a checkpoint that the store is not to delete; 0: none */
    uint64_t cut;
    size_t below; /* CUT: how many closures below the cut have not ended */
    uint64_t begun_ms;
    uint64_t state_ms; /* when the checkpoint came into `state` */
    uint64_t told_ms;  /* when the log last said what the checkpoint waits for; at first state_ms */
    /* COMMITTING: takes too long; a lost shard is restored without waiting for it */
    bool overdue;
    /* COMMITTING: path of the committed checkpoint, which counts only when a restore under way has
     * ended; else NULL */
    char *committed;
    char *draft; /* path of the temporary directory; NULL before the store has made it */
    /* progress record of this checkpoint, JSON: from the program's save, or from `on_progress`;
     * NULL: none */
    char *progress;
    uint64_t assigns;        /* how many assignments noted for a replay are below the cut */
    uint64_t steps;          /* begun->steps at the cut */
    uint64_t steps_saved;    /* begun->steps at the cut of the newest commit */
    uint64_t done;           /* how much work the cut holds, as the function `done` in checkpoint.c
                              * counts it */
    uint64_t unsaved;        /* the replay's `unsaved`, but without closures above the cut */
    uint32_t variable_count; /* so many of the catalogue's first variables are in the checkpoint,
                              * but for dropped ones (`drops`) */
    uint64_t drops;          /* variables that the first `drops` drops deleted are not in the
                              * checkpoint */
    /* counters of the job at the cut; ends of closures below it are added until it closes */
    cadre_totals_t totals;
    cadre_written_shard_t *shards; /* [ps_count] */
    /* sequence numbers of closures that ended well; during a checkpoint only those below its cut */
    cadre_sequences_t held;
    /* sequence numbers of closures that ended well from the open cut on */
    cadre_sequences_t later;
    cadre_progress_t on_progress;
    void *progress_context;
    bool by_ids;        /* what `on_progress` says of the job follows from ids */
    uint64_t failed;    /* begun->failed when `on_progress` was given */
    bool failed_told;   /* the log has said that no automatic checkpoint is taken for that */
    bool is_for_room;   /* this checkpoint makes room for a replay, with or without a record */
    bool is_counted;    /* its `progress` follows from ids */
    bool is_miscounted; /* it does, and a closure below the cut has failed */
    char **awaited; /* names of resumed variables that the program may not have created again yet */
    size_t awaited_count;
    bool awaited_told;

    uint32_t committed_count; /* checkpoints committed since the last cadre_checkpoint_count */
    uint32_t failed_count;    /* checkpoints given up or failed since the last
                               * cadre_checkpoint_count */
    /* how many checkpoints have ended, well or not; a call that saves a checkpoint waits for this
     * to grow */
    uint64_t attempts;
    int last_status; /* how the last checkpoint ended */
    char last_text[CADRE_TEXT_SIZE_MAX + 1];
    bool ps_lost; /* the last checkpoint failed because a ps was lost: the next may well succeed */
    uint64_t last_id;
    /* path of the newest checkpoint that was committed or resumed; NULL when there is none */
    char *last_path;
    /* size of the files of the newest checkpoint that was committed in this session; 0: none was */
    uint64_t last_bytes;
    uint64_t last_took_ms; /* how long the newest committed checkpoint took */
    uint64_t last_ms;      /* when the newest checkpoint was committed; before the first, when the
                            * session began */
} cadre_checkpoint_t;

void cadre_checkpoint_init(cadre_checkpoint_t *self, const cadre_checkpoint_links_t *links);

/* Checkpoints can be taken from now on: when asked, every `every_ms` unless that is 0, and when
 * `every_steps` steps were begun since the cut of the last one, unless that is 0. */
void cadre_checkpoint_enable(cadre_checkpoint_t *self, uint64_t every_ms, uint64_t every_steps);

/* Has one of `count` checkpoints be a full one, at most CADRE_CHECKPOINT_FULL_EVERY_MAX. */
void cadre_checkpoint_chain(cadre_checkpoint_t *self, uint32_t count);

/* Asks `on_progress` for the progress record of every checkpoint that was not given one. */
void cadre_checkpoint_ask_progress(cadre_checkpoint_t *self, cadre_progress_t on_progress,
                                   void *context);

/* Does the same for a record that follows from ids: from how many closures are below the cut. Once
 * a closure of the program that has an id fails or is cancelled, they do not tell how far the job
 * is: a checkpoint that has it below its cut is given up, and none with such a record begins any
 * more, until a callback is given again. */
void cadre_checkpoint_ask_place(cadre_checkpoint_t *self, cadre_progress_t on_progress,
                                void *context);

/* Notes that the checkpoint which was resumed holds closures with these sequence numbers. */
void cadre_checkpoint_hold(cadre_checkpoint_t *self, const cadre_sequence_range_t *range);

/* Notes that the session was resumed from the checkpoint at `path` (copied), which is the newest
 * for now. */
void cadre_checkpoint_resume(cadre_checkpoint_t *self, const char *path);

/* Notes that the checkpoint which was resumed holds this variable. Until the program has created
 * the variable again, a new checkpoint would lack it, and a ps that is lost would reinitialise it:
 * so automatic checkpoints wait. */
void cadre_checkpoint_await(cadre_checkpoint_t *self, const char *variable);

/* Takes back cadre_checkpoint_await: the variable was created again, and is dropped now. */
void cadre_checkpoint_await_no_more(cadre_checkpoint_t *self, const char *variable);

/* Begins a checkpoint, where none is under way (`state`). `progress` (may be NULL) is copied.
 *
 * CADRE_ESTATE: checkpoints are off. */
int cadre_checkpoint_begin(cadre_checkpoint_t *self, const char *progress);

/* Begins one as an automatic one begins, because what is kept for a replay needs room. Where its
 * record would count closures that have failed it has none: nothing else would make room. */
int cadre_checkpoint_begin_for_room(cadre_checkpoint_t *self);

/* Returns whether some shard may have a cut open. */
bool cadre_checkpoint_has_open_cut(const cadre_checkpoint_t *self);

/* Gives the open checkpoint and cut that a closure with this id comes after (`checkpoint` and `cut`
 * of CLOSURE), 0 and 0 when there is none. UINT64_MAX as `id` stands for an assignment that is made
 * now. A cut counts as open until every shard has written its file. */
void cadre_checkpoint_after(const cadre_checkpoint_t *self, uint64_t id, uint64_t *checkpoint,
                            uint64_t *cut);

/* Returns whether an assignment may be made now: not while a closure below an open cut has not been
 * handed out. It comes after the assignment, and the checkpoint would hold the closure without the
 * assignment: a shard that is restored from it could not have them in that order. */
bool cadre_checkpoint_may_assign(const cadre_checkpoint_t *self);

/* Notes that the closure with this id is handed out, again or for the first time. */
void cadre_checkpoint_on_attempt(cadre_checkpoint_t *self, uint64_t id);

/* Notes that a closure that was begun has ended. `unsaved`: it pushed updates and is not kept for a
 * replay. */
void cadre_checkpoint_on_ended(cadre_checkpoint_t *self, const cadre_closure_t *closure,
                               bool unsaved);

/* Notes that the newest checkpoint could not be read: another one is due, even if nothing has
 * changed since. */
void cadre_checkpoint_on_unreadable(cadre_checkpoint_t *self);

/* Keeps the store from deleting the checkpoint `id`, which a call is about to read; 0: none is
 * spared any more. One that the store was ordered to delete before may go still
 * (cadre_checkpoint_is_at_rest). */
void cadre_checkpoint_spare(cadre_checkpoint_t *self, uint64_t id);

/* Returns whether no checkpoint is under way and the store has carried out all orders to delete
 * older ones. */
bool cadre_checkpoint_is_at_rest(const cadre_checkpoint_t *self);

/* Returns the name of a variable that was resumed and is not created again yet; NULL: there is
 * none. */
const char *cadre_checkpoint_awaited(cadre_checkpoint_t *self);

/* Notes that the job goes back to a checkpoint which holds closures with these sequence numbers
 * (copied). Another checkpoint is due. None may be under way. */
void cadre_checkpoint_on_gone_back(cadre_checkpoint_t *self, const cadre_sequences_t *sequences);

/* Returns whether the store is about to decide which checkpoint is the newest: a commit was ordered
 * and is not overdue. */
bool cadre_checkpoint_decides(const cadre_checkpoint_t *self);

/* Moves the checkpoint under way on; called every turn. `may_begin`: an automatic checkpoint may
 * begin now. Returns the time at which it must be called again. */
uint64_t cadre_checkpoint_tick(cadre_checkpoint_t *self, bool may_begin);

/* Adds how many checkpoints were committed and given up since the last call to the totals of the
 * job. */
void cadre_checkpoint_count(cadre_checkpoint_t *self, cadre_totals_t *totals);

void cadre_checkpoint_on_written(cadre_checkpoint_t *self, uint32_t shard,
                                 const cadre_snapshot_written_message_t *written);
void cadre_checkpoint_on_stored(cadre_checkpoint_t *self, const cadre_store_answer_t *answer);

/* Notes that a closure with a sequence number, by which a resumed program learns what is done, has
 * succeeded. The checkpoint that is open holds it if its id is below the cut. */
void cadre_checkpoint_note_ended(cadre_checkpoint_t *self, const cadre_closure_t *closure);

/* Gives up the checkpoint under way, if there is one that is not being committed. */
void cadre_checkpoint_abort(cadre_checkpoint_t *self, int status, const char *text);

/* Notes that a ps is lost, and with it its snapshot of an open cut: gives that checkpoint up as
 * CADRE_EUNAVAILABLE. An automatic checkpoint follows soon. */
void cadre_checkpoint_on_lost(cadre_checkpoint_t *self);

void cadre_checkpoint_fini(cadre_checkpoint_t *self);

#endif
