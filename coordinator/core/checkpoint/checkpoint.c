#include "coordinator/core/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/checkpoint/checkpoint_manifest.h"
#include "coordinator/core/checkpoint/checkpoint_words.h"

/* Why a checkpoint is given up whose progress record would be wrong. */
static const char failed_below[] =
    "a closure below its cut has failed, which the record of the job's place would count";

void
cadre_checkpoint_init(cadre_checkpoint_t *self, const cadre_checkpoint_links_t *links)
{
    *self = (cadre_checkpoint_t){.links = *links, .last_ms = links->effects->now_ms};
}

void
cadre_checkpoint_enable(cadre_checkpoint_t *self, uint64_t every_ms, uint64_t every_steps)
{
    self->enabled = true;
    self->every_ms = every_ms;
    self->every_steps = every_steps;
}

void
cadre_checkpoint_chain(cadre_checkpoint_t *self, uint32_t count)
{
    cadre_assert(count <= CADRE_CHECKPOINT_FULL_EVERY_MAX);
    self->full_every = count;
}

void
cadre_checkpoint_ask_progress(cadre_checkpoint_t *self, cadre_progress_t on_progress, void *context)
{
    self->on_progress = on_progress;
    self->progress_context = context;
    self->by_ids = false;
}

void
cadre_checkpoint_ask_place(cadre_checkpoint_t *self, cadre_progress_t on_progress, void *context)
{
    cadre_checkpoint_ask_progress(self, on_progress, context);
    self->by_ids = on_progress != NULL;
    self->failed = self->links.begun->failed;
    self->failed_told = false;
}

void
cadre_checkpoint_hold(cadre_checkpoint_t *self, const cadre_sequence_range_t *range)
{
    cadre_sequences_add(&self->held, range->first, range->last);
}

void
cadre_checkpoint_resume(cadre_checkpoint_t *self, const char *path)
{
    free(self->last_path);
    self->last_path = cadre_strdup(path);
}

void
cadre_checkpoint_count(cadre_checkpoint_t *self, cadre_totals_t *totals)
{
    totals->checkpoints += self->committed_count;
    totals->checkpoints_failed += self->failed_count;
    self->committed_count = 0;
    self->failed_count = 0;
}

void
cadre_checkpoint_await(cadre_checkpoint_t *self, const char *variable)
{
    self->awaited = cadre_realloc(self->awaited, self->awaited_count + 1, sizeof(*self->awaited));
    self->awaited[self->awaited_count++] = cadre_strdup(variable);
}

/* Takes a name out of the list of resumed variables that the program has yet to create again. */
void
cadre_checkpoint_await_no_more(cadre_checkpoint_t *self, const char *variable)
{
    for (size_t i = 0; i < self->awaited_count; i++) {
        if (strcmp(self->awaited[i], variable) == 0) {
            free(self->awaited[i]);
            self->awaited[i] = self->awaited[--self->awaited_count];
            return;
        }
    }
}

/* Returns how much has been done that a checkpoint would hold: a number that only goes up. */
static uint64_t
done(const cadre_checkpoint_t *self)
{
    uint64_t count = self->links.begun->next_id +
                     cadre_catalogue_whole_count(self->links.catalogue) +
                     self->links.drops->retired;
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        count += self->links.recovery->places[i].assigned;
    }
    return count;
}

/* Returns the name of a variable that was resumed and is not created again yet; NULL when there is
 * none. Forgets names whose variables are there. */
const char *
cadre_checkpoint_awaited(cadre_checkpoint_t *self)
{
    while (self->awaited_count > 0) {
        char *name = self->awaited[self->awaited_count - 1];
        const cadre_variable_t *variable = cadre_catalogue_variable(self->links.catalogue, name);
        if (!variable || !variable->created) {
            return name;
        }
        free(name);
        self->awaited_count--;
    }

    return NULL;
}

/* Forgets all names of resumed variables: a committed checkpoint takes the place of the resumed
 * one. */
static void
await_nothing(cadre_checkpoint_t *self)
{
    while (self->awaited_count > 0) {
        free(self->awaited[--self->awaited_count]);
    }
}

/* Changes the state, which must be allowed, and starts the time for which the log says what the
 * checkpoint waits for. */
static void
set_state(cadre_checkpoint_t *self, cadre_checkpoint_state_t state)
{
    static const uint8_t allowed[] = {
        [CADRE_CHECKPOINT_IDLE] = 1 << CADRE_CHECKPOINT_OPENING,
        [CADRE_CHECKPOINT_OPENING] = 1 << CADRE_CHECKPOINT_CUT | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_CUT] = 1 << CADRE_CHECKPOINT_WRITING | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_WRITING] = 1 << CADRE_CHECKPOINT_COMMITTING | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_COMMITTING] = 1 << CADRE_CHECKPOINT_IDLE,
    };
    cadre_assert(allowed[self->state] & 1 << state);
    self->state = state;
    self->state_ms = self->links.effects->now_ms;
    self->told_ms = self->links.effects->now_ms;
}

/* Orders the store to open, commit, abort or retain; a manifest goes over to the store. */
static void
order(cadre_checkpoint_t *self, cadre_store_order_kind_t kind, uint64_t checkpoint,
      cadre_manifest_t *manifest)
{
    cadre_effect_t event = {.kind = CADRE_EFFECT_STORE};
    event.store =
        (cadre_store_order_t){.kind = kind, .checkpoint = checkpoint, .manifest = manifest};
    cadre_effects_emit(self->links.effects, &event);
}

/* Begins a checkpoint: orders a directory for its draft of the store. The cut is opened by a later
 * tick. */
int
cadre_checkpoint_begin(cadre_checkpoint_t *self, const char *progress)
{
    if (!self->enabled) {
        return cadre_fail(CADRE_ESTATE, "this job has no checkpoint directory");
    }

    cadre_assert(self->state == CADRE_CHECKPOINT_IDLE);
    set_state(self, CADRE_CHECKPOINT_OPENING);
    free(self->progress);
    self->progress = progress ? cadre_strdup(progress) : NULL;
    self->is_for_room = false;
    self->id = 0;
    self->begun_ms = self->links.effects->now_ms;
    self->overdue = false;
    if (!self->shards) {
        self->shards = cadre_calloc(self->links.options->ps_count, sizeof(*self->shards));
    }

    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        self->shards[i] = (cadre_written_shard_t){.taken = false};
    }

    /* An answer to an earlier order to open may be on its way: `opens` tells them apart. */
    self->opens++;
    order(self, CADRE_STORE_OPEN, 0, NULL);
    return 0;
}

int
cadre_checkpoint_begin_for_room(cadre_checkpoint_t *self)
{
    const int status = cadre_checkpoint_begin(self, NULL);
    self->is_for_room = status == 0;
    return status;
}

/* --- closures and the open cut --- */

/* Returns whether the closure with this id is below a cut whose closures have not all ended: its
 * end counts for that checkpoint. */
static bool
is_below(const cadre_checkpoint_t *self, uint64_t id)
{
    return self->state == CADRE_CHECKPOINT_CUT && id < self->cut;
}

bool
cadre_checkpoint_has_open_cut(const cadre_checkpoint_t *self)
{
    return self->state == CADRE_CHECKPOINT_CUT || self->state == CADRE_CHECKPOINT_WRITING;
}

void
cadre_checkpoint_after(const cadre_checkpoint_t *self, uint64_t id, uint64_t *checkpoint,
                       uint64_t *cut)
{
    bool after = cadre_checkpoint_has_open_cut(self) && id >= self->cut;
    *checkpoint = after ? self->id : 0;
    *cut = after ? self->cut : 0;
}

bool
cadre_checkpoint_may_assign(const cadre_checkpoint_t *self)
{
    return self->state != CADRE_CHECKPOINT_CUT ||
           !cadre_begun_has_untried(self->links.begun, self->cut);
}

void
cadre_checkpoint_on_attempt(cadre_checkpoint_t *self, uint64_t id)
{
    self->totals.attempts += is_below(self, id);
}

/* Counts the end of a closure that was begun before the open cut. When the last one has ended the
 * cut can be closed. */
void
cadre_checkpoint_on_ended(cadre_checkpoint_t *self, const cadre_closure_t *closure, bool unsaved)
{
    const int status = closure->end_status;
    if (is_below(self, closure->id)) {
        cadre_assert(self->below > 0);
        self->below--;
        self->totals.finished += status == 0;
        self->totals.failed += status < 0 && status != CADRE_ECANCELLED;
        self->unsaved += unsaved;
        if (status < 0 && self->is_counted && !cadre_closure_is_of_client(closure)) {
            self->is_miscounted = true;
        }
    }
}

void
cadre_checkpoint_on_unreadable(cadre_checkpoint_t *self)
{
    self->saved = 0;
    self->chain = 0; /* what cannot be read is no base */
}

void
cadre_checkpoint_spare(cadre_checkpoint_t *self, uint64_t id)
{
    self->spared = id;
}

bool
cadre_checkpoint_is_at_rest(const cadre_checkpoint_t *self)
{
    return self->state == CADRE_CHECKPOINT_IDLE && self->retains == 0;
}

/* Takes the sequence numbers of the checkpoint that the job goes back to for those that ended so
 * far. */
void
cadre_checkpoint_on_gone_back(cadre_checkpoint_t *self, const cadre_sequences_t *sequences)
{
    cadre_assert(self->state == CADRE_CHECKPOINT_IDLE);
    cadre_sequences_fini(&self->held);
    for (size_t i = 0; i < sequences->count; i++) {
        cadre_checkpoint_hold(self, &sequences->ranges[i]);
    }
    self->saved = 0;
    self->chain = 0;
}

bool
cadre_checkpoint_decides(const cadre_checkpoint_t *self)
{
    return self->state == CADRE_CHECKPOINT_COMMITTING && !self->overdue;
}

/* --- the end --- */

/* Ends the checkpoint under way, well (0) or as failed. Closures of an open cut that were noted for
 * after it count for the next checkpoint. */
static void
end(cadre_checkpoint_t *self, int status, const char *text)
{
    set_state(self, CADRE_CHECKPOINT_IDLE);
    cadre_shard_requests_forget(self->links.requests, self);
    cadre_free(&self->committed);
    self->ended = self->id > self->ended ? self->id : self->ended;
    /* a call that saves a checkpoint waits for this count to grow */
    self->attempts++;
    self->last_status = status;
    self->ps_lost = false;
    snprintf(self->last_text, sizeof(self->last_text), "%s", text);
    self->due_ms = self->links.effects->now_ms + self->every_ms;
    self->retry_ms = self->links.effects->now_ms + (status < 0 ? CADRE_CHECKPOINT_RETRY_MS : 0);
    free(self->draft);
    self->draft = NULL;
    cadre_sequences_merge(&self->held, &self->later);
    cadre_effects_note_progress(self->links.effects);
}

/* How a checkpoint has ended. */
typedef enum {
    GIVEN_UP,
    COMMITTED,
} ending_t;

/* Tells the ps of a shard how a checkpoint has ended. */
static void
tell_end(cadre_checkpoint_t *self, uint32_t shard, uint64_t checkpoint, ending_t ending)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    if (!ps || checkpoint == 0) {
        return;
    }
    cadre_message_t message =
        cadre_effects_message(self->links.effects, CADRE_MESSAGE_CHECKPOINT_END);
    message.checkpoint_end = (cadre_checkpoint_end_message_t){.checkpoint = checkpoint,
                                                              .committed = ending == COMMITTED};
    cadre_effects_send(self->links.effects, &ps->task, &message);
}

/* Takes no notice of the answer: it only ends the repeating of the request. */
static void
on_end_told(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    (void)context, (void)shard, (void)reply, (void)status;
}

/* Asks every shard to drop its image of a checkpoint that was given up, until it has answered: an
 * image that nobody ends would keep its memory. */
static void
ask_shards_to_drop(cadre_checkpoint_t *self)
{
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        cadre_message_t message =
            cadre_effects_message(self->links.effects, CADRE_MESSAGE_CHECKPOINT_END);
        message.checkpoint_end = (cadre_checkpoint_end_message_t){.checkpoint = self->id};
        cadre_shard_requests_ask(self->links.requests, i, &message, on_end_told, NULL, i);
    }
}

/* Ends the checkpoint under way as failed: the store deletes its files, shards drop what they hold
 * of the cut. */
static void
give_up(cadre_checkpoint_t *self, int status, const char *text)
{
    /* A commit that has failed has ended the draft already; before the cut no shard holds
     * anything. */
    if (self->state != CADRE_CHECKPOINT_COMMITTING) {
        order(self, CADRE_STORE_ABORT, self->id, NULL);
    }
    if (self->state != CADRE_CHECKPOINT_OPENING) {
        ask_shards_to_drop(self);
    }

    self->failed_count++;
    cadre_effects_log(
        self->links.effects, 'W', "checkpoint_failed",
        "checkpoint=%" PRIu64 " why=\"%s\" next=\"the one before stays valid%s\"", self->id, text,
        self->links.replay->holds ? "; nothing new begins until one is committed" : "");
    end(self, status, text);
}

/* Gives up the checkpoint under way, unless it is being committed: then the rename decides. */
void
cadre_checkpoint_abort(cadre_checkpoint_t *self, int status, const char *text)
{
    cadre_checkpoint_state_t state = self->state;
    if (state != CADRE_CHECKPOINT_IDLE && state != CADRE_CHECKPOINT_COMMITTING) {
        give_up(self, status, text);
    }
}

/* Gives up the checkpoint under way when a ps is lost with its image of the open cut. */
void
cadre_checkpoint_on_lost(cadre_checkpoint_t *self)
{
    if (cadre_checkpoint_has_open_cut(self)) {
        give_up(self, CADRE_EUNAVAILABLE, "a ps is lost");
        /* the API call that saves a checkpoint begins another one in this case */
        self->ps_lost = true;
        if (self->retry_ms < self->due_ms) {
            /* Try again soon (`retry_ms` is a time): only the absence of a shard is in the way. */
            self->due_ms = self->retry_ms;
        }
    }
}

/* --- cut, snapshot, write --- */

/* Takes a shard's answer to SNAPSHOT: it has opened the cut, or could not. */
static void
on_taken(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    cadre_checkpoint_t *self = context;
    if (self->state != CADRE_CHECKPOINT_CUT) {
        return;
    }

    if (!reply || reply->type != CADRE_MESSAGE_SNAPSHOT_TAKEN) {
        cadre_checkpoint_abort(self, status < 0 ? status : CADRE_EMALFORMED,
                               "a shard answered out of turn");
    } else if (reply->snapshot_taken.checkpoint != self->id) {
        /* The answer is to an earlier checkpoint. */
        return;
    } else if (reply->snapshot_taken.status != 0) {
        cadre_checkpoint_abort(self, -(int)reply->snapshot_taken.status,
                               reply->snapshot_taken.text);
    } else {
        self->shards[shard].taken = true;
    }
}

/* Notes what the cut holds: the closures that have ended so far, and those that were begun and have
 * not ended: they end before the shards close the cut (I5). */
static void
note_what_is_below(cadre_checkpoint_t *self)
{
    self->cut = self->links.begun->next_id;
    self->below = self->links.begun->closures.count;
    self->totals = *self->links.totals;
    /* Closures that were not begun are not below the cut: neither those that wait, nor those that
     * failed before they had an id (`refused`). */
    self->totals.scheduled = self->links.begun->total;
    self->totals.failed -= self->links.begun->refused;
    self->assigns = cadre_replay_assigns(self->links.replay);
    self->steps = self->links.begun->steps;
    self->done = done(self);
    self->unsaved = self->links.replay->unsaved;
    self->variable_count = cadre_catalogue_whole_count(self->links.catalogue);
    self->drops = self->links.drops->retired;
}

/* Returns whether a record that follows from ids would count a closure that has failed. */
static bool
miscounts(const cadre_checkpoint_t *self)
{
    return self->by_ids && self->links.begun->failed > self->failed;
}

/* Opens the cut: every closure with an id below it is begun, and CLOSURE of every later one says
 * that it comes after the cut. */
static void
cut(cadre_checkpoint_t *self)
{
    const char *lost = cadre_checkpoint_awaited(self);
    /* a checkpoint that the program asks for does not wait for resumed variables */
    if (lost) {
        cadre_effects_log(self->links.effects, 'W', "variables_omitted",
                          "checkpoint=%" PRIu64
                          " variable=%s count=%zu next=\"the checkpoint that was "
                          "resumed holds them, this one does not\"",
                          self->id, lost, self->awaited_count);
    }

    set_state(self, CADRE_CHECKPOINT_CUT);
    note_what_is_below(self);
    const bool is_astray = miscounts(self);
    self->is_counted = !self->progress && self->by_ids && !is_astray;
    self->is_miscounted = false;
    if (!self->progress && self->on_progress && !is_astray) {
        self->progress =
            self->on_progress(self->progress_context, self->cut, self->links.begun->of_clients);
    }

    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        self->shards[i].assigned = self->links.recovery->places[i].assigned;
        self->shards[i].step = self->links.recovery->places[i].step;
        cadre_message_t message =
            cadre_effects_message(self->links.effects, CADRE_MESSAGE_SNAPSHOT);
        message.snapshot =
            (cadre_snapshot_message_t){.checkpoint = self->id,
                                       .cut = self->cut,
                                       .generation = self->links.recovery->places[i].generation,
                                       .shard = i};
        cadre_shard_requests_ask(self->links.requests, i, &message, on_taken, self, i);
    }
}

/* Takes a shard's answer to CLOSE_CUT. That the file is written comes later, as SNAPSHOT_WRITTEN:
 * only a refusal matters here. */
static void
on_closed(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    cadre_checkpoint_t *self = context;
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (self->state != CADRE_CHECKPOINT_WRITING || (answered && reply->reply.status == 0)) {
        return;
    }

    char text[CADRE_TEXT_SIZE_MAX];
    snprintf(text, sizeof(text), "ps %" PRIu64 ": %.200s", shard,
             answered ? reply->reply.text : "it answered out of turn");
    status = answered ? -(int)reply->reply.status : status;
    cadre_checkpoint_abort(self, status < 0 ? status : CADRE_EMALFORMED, text);
}

/* Returns whether a table is below the cut, and not dropped before it. */
static bool
has_tables(const cadre_checkpoint_t *self)
{
    for (uint32_t i = 0; i < self->variable_count; i++) {
        const cadre_variable_t *variable = self->links.catalogue->variables[i];
        const bool is_dropped = variable->dropped > 0 && variable->dropped <= self->drops;
        if (variable->table && variable->created && !is_dropped) {
            return true;
        }
    }
    return false;
}

/* Returns whether the chain takes so much room behind its full checkpoint that the next one is
 * full: of tables that change all over an incremental one is as large as a full one. */
static bool
is_chain_heavy(const cadre_checkpoint_t *self)
{
    return self->chain_bytes > CADRE_CHECKPOINT_CHAIN_BYTES_FREE &&
           self->chain_bytes > self->full_bytes / CADRE_CHECKPOINT_CHAIN_SHARE;
}

/* Returns the checkpoint to which this one leaves pages of tables that have not changed since: the
 * newest that was committed in this session. 0: this one is full, since the chain is long or heavy
 * enough or there is no table. */
static uint64_t
base_of(const cadre_checkpoint_t *self)
{
    const bool is_full =
        self->chain == 0 || self->chain >= self->full_every || is_chain_heavy(self);
    return is_full || !has_tables(self) ? 0 : self->last_id;
}

/* Asks the shards to close the cut and to write their files: no update from below the cut comes any
 * more (I5). */
static void
close_cut(cadre_checkpoint_t *self)
{
    cadre_effects_log(self->links.effects, 'D', "checkpoint_snapshot",
                      "checkpoint=%" PRIu64 " cut=%" PRIu64 " open_ms=%" PRIu64, self->id,
                      self->cut, self->links.effects->now_ms - self->state_ms);
    set_state(self, CADRE_CHECKPOINT_WRITING);
    self->since = base_of(self);
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        cadre_message_t message =
            cadre_effects_message(self->links.effects, CADRE_MESSAGE_CLOSE_CUT);
        message.close_cut =
            (cadre_close_cut_message_t){.checkpoint = self->id,
                                        .cut = self->cut,
                                        .directory = self->draft,
                                        .generation = self->links.recovery->places[i].generation,
                                        .shard = i,
                                        .since = self->since};
        cadre_shard_requests_ask(self->links.requests, i, &message, on_closed, self, i);
    }
}

/* Takes a ps's word that the file of its shard is written, or could not be. The word may be a
 * repetition, also of an earlier checkpoint. */
void
cadre_checkpoint_on_written(cadre_checkpoint_t *self, uint32_t shard,
                            const cadre_snapshot_written_message_t *written)
{
    cadre_assert(shard < self->links.options->ps_count);
    if (self->state == CADRE_CHECKPOINT_IDLE || written->checkpoint != self->id) {
        /* A ps repeats SNAPSHOT_WRITTEN until it hears of the checkpoint's end. */
        bool is_newest = written->checkpoint == self->last_id;
        tell_end(self, shard, written->checkpoint, is_newest ? COMMITTED : GIVEN_UP);
        return;
    }

    if (self->state != CADRE_CHECKPOINT_WRITING) {
        return;
    }

    if (written->status != 0) {
        char text[CADRE_TEXT_SIZE_MAX];
        snprintf(text, sizeof(text), "ps %u: %.200s", shard, written->text);
        cadre_checkpoint_abort(self, -(int)written->status, text);
        return;
    }

    cadre_written_shard_t *entry = &self->shards[shard];
    entry->written = true;
    entry->written_step = written->step;
    snprintf(entry->file, sizeof(entry->file), "%s", written->file);
    entry->size_bytes = written->size_bytes;
    entry->hash = written->hash;
    entry->counter_count = written->counters.count;
    /* The entry has room for 64 counters. */
    for (size_t i = 0; i < written->counters.count && i < 64; i++) {
        entry->counters[i] = written->counters.items[i];
    }
}

/* Notes the sequence number of a closure that ended well: for the checkpoint under way where the
 * closure is below its cut, else for the next one. */
void
cadre_checkpoint_note_ended(cadre_checkpoint_t *self, const cadre_closure_t *closure)
{
    bool has_cut = self->state != CADRE_CHECKPOINT_IDLE && self->state != CADRE_CHECKPOINT_OPENING;
    bool is_later = has_cut && closure->id >= self->cut;
    cadre_sequences_add(is_later ? &self->later : &self->held, closure->sequence,
                        closure->sequence);
}

/* --- moving on --- */

/* What each shard has to do for a checkpoint. */
typedef enum {
    OPEN_CUT,
    WRITE_FILE,
} duty_t;

static bool
has_done(const cadre_written_shard_t *shard, duty_t duty)
{
    return duty == OPEN_CUT ? shard->taken : shard->written;
}

/* Returns whether every shard has done this duty. */
static bool
all_shards(const cadre_checkpoint_t *self, duty_t duty)
{
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        if (!has_done(&self->shards[i], duty)) {
            return false;
        }
    }
    return true;
}

/* Returns whether a variable that was resumed is being created again. A cut now would leave it
 * out, though some shards have its values already, and the commit would be of a checkpoint
 * without it. */
static bool
is_creating_awaited(const cadre_checkpoint_t *self)
{
    for (size_t i = 0; self->links.catalogue->creating > 0 && i < self->awaited_count; i++) {
        const cadre_variable_t *variable =
            cadre_catalogue_variable(self->links.catalogue, self->awaited[i]);
        if (variable && !variable->created) {
            return true;
        }
    }
    return false;
}

/* Orders the store to commit the checkpoint; a manifest that cannot be built ends it. */
static void
commit(cadre_checkpoint_t *self)
{
    cadre_manifest_t *manifest = NULL;
    int status = cadre_checkpoint_manifest(self, &manifest);
    if (status < 0) {
        cadre_checkpoint_abort(self, status, cadre_error_text());
        return;
    }
    set_state(self, CADRE_CHECKPOINT_COMMITTING);
    order(self, CADRE_STORE_COMMIT, self->id, manifest);
}

/* Tells the recovery of the committed checkpoint: a lost shard is restored from it from now on. */
static void
give_restore_point(cadre_checkpoint_t *self, const char *path)
{
    cadre_restore_point_t point = {.path = cadre_strdup(path),
                                   .id = self->id,
                                   .cut = self->cut,
                                   .assigns = self->assigns,
                                   .unsaved = self->unsaved,
                                   .variable_count = self->variable_count,
                                   .drops = self->drops};
    point.assigned = cadre_calloc(self->links.options->ps_count, sizeof(*point.assigned));
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        point.assigned[i] = self->shards[i].assigned;
    }

    cadre_recovery_on_commit(self->links.recovery, &point);
}

/* Orders the deletion of checkpoints that no shard can be restored from any more, all but the
 * newest that counts and the one before it. This is done only once the newest commit counts: while
 * a shard is being restored from the checkpoint before it, both are kept; and a checkpoint whose
 * last fsync failed is on disk, but is not used. */
static void
retain(cadre_checkpoint_t *self)
{
    uint64_t newest = self->links.recovery->points.at[0].id;
    uint64_t before = self->links.recovery->points.at[1].id;
    uint64_t oldest = before > 0 && before < newest ? before : newest;
    bool is_spared = self->spared > 0 && self->spared < oldest;
    self->retains++;
    order(self, CADRE_STORE_RETAIN, is_spared ? self->spared : oldest, NULL);
}

/* Makes this checkpoint the last of the chain, or the full one with which another begins. */
static void
note_chain(cadre_checkpoint_t *self)
{
    const bool is_full = self->since == 0;
    self->chain = is_full ? 1 : self->chain + 1;
    self->full_bytes = is_full ? self->last_bytes : self->full_bytes;
    self->chain_bytes = is_full ? 0 : self->chain_bytes + self->last_bytes;
}

/* Makes this checkpoint the newest, for whoever resumes and for shards that are restored. */
static void
take_commit(cadre_checkpoint_t *self, const char *path)
{
    /* This whole function runs in one turn: nobody sees half of a commit. */
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        tell_end(self, i, self->id, COMMITTED);
    }

    free(self->last_path);
    self->last_path = cadre_strdup(path);
    self->last_id = self->id;
    self->last_ms = self->links.effects->now_ms;
    self->last_took_ms = self->links.effects->now_ms - self->begun_ms;
    self->last_bytes = 0;
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        self->last_bytes += self->shards[i].size_bytes;
    }
    note_chain(self);

    self->saved = self->done;
    self->steps_saved = self->steps;
    /* what is below the cut needs no place in the applied windows any more */
    cadre_windows_raise(self->links.windows, self->cut);
    give_restore_point(self, path);
    retain(self);
    self->committed_count++;
    await_nothing(self);
    cadre_effects_log(self->links.effects, 'I', "checkpoint",
                      "checkpoint=%" PRIu64 " cut=%" PRIu64 " ms=%" PRIu64 " path=\"%s\"", self->id,
                      self->cut, self->links.effects->now_ms - self->begun_ms, self->last_path);
    end(self, 0, "");
}

/* Takes the store's answer to the order to open a draft: its id and path, or why it failed. */
static void
on_opened(cadre_checkpoint_t *self, const cadre_store_answer_t *answer)
{
    if (--self->opens > 0 || self->state != CADRE_CHECKPOINT_OPENING) {
        /* The answer belongs to a checkpoint that was given up before the store came to it. */
        return;
    }
    if (answer->status < 0) {
        give_up(self, answer->status, answer->text);
        return;
    }
    self->id = answer->checkpoint;
    self->draft = cadre_strdup(answer->text); /* the cut is opened in the next turn */
}

/* Takes an answer of the store. */
void
cadre_checkpoint_on_stored(cadre_checkpoint_t *self, const cadre_store_answer_t *answer)
{
    if (answer->kind == CADRE_STORE_OPEN) {
        on_opened(self, answer);
    } else if (answer->kind == CADRE_STORE_RETAIN) {
        cadre_assert(self->retains > 0);
        self->retains--;
    } else if (answer->kind == CADRE_STORE_COMMIT && self->state == CADRE_CHECKPOINT_COMMITTING) {
        if (answer->status < 0) {
            give_up(self, answer->status, answer->text);
        } else if (cadre_recovery_is_under_way(self->links.recovery)) {
            /* The commit counts when the restore is over (watch_commit). */
            self->committed = cadre_strdup(answer->text);
        } else {
            take_commit(self, answer->text);
        }
    }
}

/* Returns whether a resumed program may still be creating its variables again: a checkpoint now
 * would lack those that are not there yet. A program whose checkpoint held no variables counts as
 * resuming until its first closure. */
static bool
is_resuming(cadre_checkpoint_t *self)
{
    if (self->links.begun->next_id == self->links.begun->resumed_at) {
        return true;
    }

    const char *awaited = cadre_checkpoint_awaited(self);
    if (awaited && !self->awaited_told) {
        self->awaited_told = true;
        cadre_effects_log(self->links.effects, 'W', "checkpoints_deferred",
                          "variable=%s count=%zu next=\"automatic checkpoints begin when what was "
                          "resumed is created again, or after one that the program saves\"",
                          awaited, self->awaited_count);
    }

    return awaited != NULL;
}

/* Returns whether no automatic checkpoint can say how far the job is, and logs that once. */
static bool
is_astray(cadre_checkpoint_t *self)
{
    if (miscounts(self) && !self->failed_told) {
        self->failed_told = true;
        cadre_effects_log(self->links.effects, 'W', "checkpoints_stopped",
                          "why=\"a closure has failed, which the record of the job's place would "
                          "count\" next=\"the newest checkpoint from before is what a resume goes "
                          "on from; only what is kept for a replay has more taken, without such "
                          "a record\"");
    }
    return miscounts(self);
}

/* Puts the next automatic checkpoint off if nothing has changed since the last one: it would only
 * evict an older checkpoint that differs. Exception: deleted variables whose memory is still held
 * for a replay from an older checkpoint (`done` below `retired`); a new checkpoint lets that memory
 * be freed. */
static void
put_off_the_same(cadre_checkpoint_t *self)
{
    bool is_same =
        done(self) == self->saved && self->links.drops->done == self->links.drops->retired;
    if (self->due_ms == 0 || (self->links.effects->now_ms >= self->due_ms && is_same)) {
        self->due_ms = self->links.effects->now_ms + self->every_ms;
    }
}

/* Schedules the next automatic checkpoint, and returns when it begins; UINT64_MAX for never. */
static uint64_t
schedule_automatic(cadre_checkpoint_t *self, bool may_begin)
{
    bool automatic = self->enabled && (self->every_ms > 0 || self->every_steps > 0);
    if (!automatic || !may_begin || self->links.catalogue->variable_count == 0 ||
        is_resuming(self) || is_astray(self)) {
        return UINT64_MAX;
    }

    /* By steps no earlier than a while after a failure, which would come again at once. */
    bool has_steps =
        self->every_steps > 0 && self->links.begun->steps - self->steps_saved >= self->every_steps;
    uint64_t by_steps_ms = has_steps ? self->retry_ms : UINT64_MAX;
    if (self->every_ms == 0) {
        return by_steps_ms;
    }

    put_off_the_same(self);
    return cadre_min_u64(by_steps_ms, self->due_ms);
}

/* Logs, every CADRE_CHECKPOINT_REPORT_MS, what the checkpoint waits for (I6). Returns the time of
 * the next such log. */
static uint64_t
report(cadre_checkpoint_t *self)
{
    if (self->links.effects->now_ms >= self->told_ms + CADRE_CHECKPOINT_REPORT_MS) {
        char text[CADRE_CHECKPOINT_WAITS_SIZE];
        bool served = self->links.members->worker_count > 0;
        cadre_checkpoint_waits(self, text);
        self->told_ms = self->links.effects->now_ms;
        cadre_effects_log(self->links.effects, 'W', "checkpoint_delayed",
                          "checkpoint=%" PRIu64 " for=\"%.300s\" ms=%" PRIu64 " next=\"%s\"",
                          self->id, text, self->links.effects->now_ms - self->state_ms,
                          served ? "training goes on, and so does the checkpoint"
                                 : "no worker is heard: training waits for one, too");
    }

    return self->told_ms + CADRE_CHECKPOINT_REPORT_MS;
}

/* Watches a commit: a store that does not answer must not keep a shard from being restored (I6),
 * and a commit that the store has answered counts as soon as no shard is being restored from the
 * checkpoint before. */
static void
watch_commit(cadre_checkpoint_t *self)
{
    if (!self->overdue &&
        self->links.effects->now_ms >= self->state_ms + CADRE_CHECKPOINT_COMMIT_MS) {
        self->overdue = true;
        cadre_effects_log(self->links.effects, 'E', "commit_overdue",
                          "checkpoint=%" PRIu64 " ms=%" PRIu64
                          " next=\"it may be there or not; a ps "
                          "that is lost meanwhile begins with the one before\"",
                          self->id, self->links.effects->now_ms - self->state_ms);
    }

    if (self->committed && !cadre_recovery_is_under_way(self->links.recovery)) {
        cadre_auto(cadre_free) char *path = self->committed;
        self->committed = NULL;
        take_commit(self, path);
    }
}

/* Moves the checkpoint on as far as it can in this turn. Returns when to call again. */
uint64_t
cadre_checkpoint_tick(cadre_checkpoint_t *self, bool may_begin)
{
    if (self->state == CADRE_CHECKPOINT_IDLE) {
        uint64_t due_ms = schedule_automatic(self, may_begin);
        if (self->links.effects->now_ms < due_ms) {
            return due_ms;
        }
        cadre_checkpoint_begin(self, NULL);
    }

    /* A state that has nothing to wait for is left in the same turn: each `if` may lead to the
     * next. */
    /* A cut waits until no shard is away, nothing runs again, no resumed variable is half created
     * and no synchronous step is under way. */
    if (self->state == CADRE_CHECKPOINT_OPENING && self->draft &&
        cadre_recovery_is_calm(self->links.recovery) && !is_creating_awaited(self) &&
        cadre_pace_is_between_steps(self->links.pace)) {
        if (!self->progress && !self->is_for_room && miscounts(self)) {
            give_up(self, CADRE_ESTATE, failed_below);
        } else {
            cut(self);
        }
    }

    if (self->state == CADRE_CHECKPOINT_CUT && self->is_miscounted) {
        give_up(self, CADRE_ESTATE, failed_below);
    }
    if (self->state == CADRE_CHECKPOINT_CUT && self->below == 0 && all_shards(self, OPEN_CUT)) {
        close_cut(self);
    }
    if (self->state == CADRE_CHECKPOINT_WRITING && all_shards(self, WRITE_FILE)) {
        commit(self);
    }
    if (self->state == CADRE_CHECKPOINT_COMMITTING) {
        watch_commit(self);
    }

    return self->state == CADRE_CHECKPOINT_IDLE ? schedule_automatic(self, may_begin)
                                                : report(self);
}

/* Frees what it owns, also that of a checkpoint under way. */
void
cadre_checkpoint_fini(cadre_checkpoint_t *self)
{
    free(self->draft);
    free(self->committed);
    free(self->progress);
    await_nothing(self);
    free(self->awaited);
    free(self->shards);
    cadre_sequences_fini(&self->held);
    cadre_sequences_fini(&self->later);
    free(self->last_path);
    *self = (cadre_checkpoint_t){.enabled = false};
}
