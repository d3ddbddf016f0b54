#include "coordinator/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"
#include "common/status.h"
#include "coordinator/checkpoint_manifest.h"
#include "coordinator/coordinator_core.h"

void
cadre_checkpoint_await(cadre_checkpoint_t *self, const char *variable)
{
    self->awaited = cadre_realloc(self->awaited, self->awaited_count + 1, sizeof(*self->awaited));
    self->awaited[self->awaited_count++] = cadre_strdup(variable);
}

/* How much has been done that a checkpoint would hold: a number that only goes up. */
static uint64_t
done(const cadre_core_t *core)
{
    uint64_t count = core->next_id + core->catalogue.variable_count - (core->creating ? 1 : 0);
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        count += core->assigned[i];
    }
    return count;
}

/* A variable that was resumed and is not there, NULL when there is none. */
static const char *
missing(cadre_core_t *core)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    while (self->awaited_count > 0) {
        char *name = self->awaited[self->awaited_count - 1];
        const cadre_variable_t *variable = cadre_catalogue_variable(&core->catalogue, name);
        if (!variable || !variable->created) {
            return name;
        }
        free(name);
        self->awaited_count--;
    }
    return NULL;
}

static void
await_nothing(cadre_checkpoint_t *self)
{
    while (self->awaited_count > 0) {
        free(self->awaited[--self->awaited_count]);
    }
}

static void
set_state(cadre_checkpoint_t *self, cadre_checkpoint_state_t state)
{
    static const uint8_t allowed[] = {
        [CADRE_CHECKPOINT_IDLE] = 1 << CADRE_CHECKPOINT_OPENING,
        [CADRE_CHECKPOINT_OPENING] = 1 << CADRE_CHECKPOINT_DRAINING | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_DRAINING] = 1 << CADRE_CHECKPOINT_SNAPSHOT | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_SNAPSHOT] = 1 << CADRE_CHECKPOINT_WRITING | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_WRITING] = 1 << CADRE_CHECKPOINT_COMMITTING | 1 << CADRE_CHECKPOINT_IDLE,
        [CADRE_CHECKPOINT_COMMITTING] = 1 << CADRE_CHECKPOINT_IDLE,
    };
    cadre_assert(allowed[self->state] & 1 << state);
    self->state = state;
}

static void
order(cadre_core_t *core, cadre_store_order_kind_t kind, void *manifest)
{
    cadre_core_event_t event = {.kind = CADRE_CORE_STORE};
    event.store = (cadre_store_order_t){
        .kind = kind, .checkpoint = core->checkpoint.id, .manifest = manifest};
    cadre_core_emit(core, &event);
}

int
cadre_checkpoint_begin(cadre_core_t *core, const char *progress)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    if (!self->enabled) {
        return cadre_fail(CADRE_ESTATE, "this job has no checkpoint directory");
    }
    cadre_assert(self->state == CADRE_CHECKPOINT_IDLE);
    set_state(self, CADRE_CHECKPOINT_OPENING);
    free(self->progress);
    self->progress = progress ? cadre_strdup(progress) : NULL;
    self->core = core;
    self->id = 0;
    self->begun_ms = core->now_ms;
    self->deadline_ms = core->now_ms + CADRE_CHECKPOINT_DRAIN_MS;
    if (!self->shards) {
        self->shards = cadre_calloc(core->options.ps_count, sizeof(*self->shards));
    }
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        self->shards[i] = (cadre_written_shard_t){.taken = false};
    }
    self->opens++;
    order(core, CADRE_STORE_OPEN, NULL);
    return 0;
}

bool
cadre_checkpoint_holds(const cadre_core_t *core)
{
    return core->checkpoint.state == CADRE_CHECKPOINT_DRAINING ||
           core->checkpoint.state == CADRE_CHECKPOINT_SNAPSHOT;
}

/* --- the end --- */

static void
end(cadre_core_t *core, int status, const char *text)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    set_state(self, CADRE_CHECKPOINT_IDLE);
    cadre_shard_requests_forget(&core->requests, self);
    self->attempts++;
    self->last_status = status;
    self->ps_lost = false;
    snprintf(self->last_text, sizeof(self->last_text), "%s", text);
    self->due_ms = core->now_ms + self->every_ms;
    self->retry_ms = core->now_ms + (status < 0 ? CADRE_CHECKPOINT_RETRY_MS : 0);
    free(self->draft);
    self->draft = NULL;
    cadre_sequences_merge(&self->held, &self->later);
    core->progress = true;
}

static void
tell_end(cadre_core_t *core, uint32_t shard, uint64_t checkpoint, bool committed)
{
    if (core->membership.ps[shard] && checkpoint > 0) {
        cadre_message_t message = cadre_core_message(core, CADRE_MESSAGE_CHECKPOINT_END);
        message.checkpoint_end =
            (cadre_checkpoint_end_message_t){.checkpoint = checkpoint, .committed = committed};
        cadre_outbox_send(&core->outbox, &core->membership.ps[shard]->task, &message);
    }
}

static void
tell_shards_end(cadre_core_t *core, bool committed)
{
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        tell_end(core, i, core->checkpoint.id, committed);
    }
}

static void
give_up(cadre_core_t *core, int status, const char *text)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    if (self->state != CADRE_CHECKPOINT_COMMITTING) {
        order(core, CADRE_STORE_ABORT, NULL);
    }
    tell_shards_end(core, false);
    core->totals.checkpoints_failed++;
    cadre_core_log(core, 'W', "checkpoint_failed",
                   "checkpoint=%" PRIu64 " why=\"%s\" next=\"the one before stays valid%s\"",
                   self->id, text,
                   core->replay_holds ? "; nothing new begins until one is committed" : "");
    end(core, status, text);
}

void
cadre_checkpoint_abort(cadre_core_t *core, int status, const char *text)
{
    cadre_checkpoint_state_t state = core->checkpoint.state;
    if (state != CADRE_CHECKPOINT_IDLE && state != CADRE_CHECKPOINT_COMMITTING) {
        give_up(core, status, text);
    }
}

void
cadre_checkpoint_on_lost(cadre_core_t *core)
{
    uint64_t attempts = core->checkpoint.attempts;
    cadre_checkpoint_abort(core, CADRE_EUNAVAILABLE, "a ps is lost");
    core->checkpoint.ps_lost = core->checkpoint.ps_lost || core->checkpoint.attempts > attempts;
}

/* --- snapshot and write --- */

static void
on_taken(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    cadre_checkpoint_t *self = context;
    cadre_core_t *core = self->core;
    if (self->state != CADRE_CHECKPOINT_SNAPSHOT) {
        return;
    }
    if (!reply || reply->type != CADRE_MESSAGE_SNAPSHOT_TAKEN) {
        cadre_checkpoint_abort(core, status < 0 ? status : CADRE_EMALFORMED,
                               "a shard answered out of turn");
    } else if (reply->snapshot_taken.checkpoint != self->id) {
        return;
    } else if (reply->snapshot_taken.status != 0) {
        cadre_checkpoint_abort(core, -(int)reply->snapshot_taken.status,
                               reply->snapshot_taken.text);
    } else {
        self->shards[shard].taken = true;
    }
}

static void
take_snapshots(cadre_core_t *core)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    set_state(self, CADRE_CHECKPOINT_SNAPSHOT);
    const char *lost = missing(core);
    if (lost) {
        cadre_core_log(core, 'W', "variables_left_out",
                       "checkpoint=%" PRIu64
                       " variable=%s count=%zu next=\"the checkpoint that was "
                       "resumed holds them, this one does not\"",
                       self->id, lost, self->awaited_count);
    }
    self->totals = core->totals;
    self->totals.scheduled = core->begun; /* what was not is not below the cut */
    self->totals.failed -= core->refused;
    self->assigns = cadre_replay_assigns(&core->replay);
    self->done = done(core);
    self->unsaved = core->unsaved;
    self->variable_count = core->catalogue.variable_count - (core->creating ? 1 : 0);
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        self->shards[i].assigned = core->assigned[i];
        cadre_message_t message = cadre_core_message(core, CADRE_MESSAGE_SNAPSHOT);
        message.snapshot = (cadre_snapshot_message_t){.checkpoint = self->id,
                                                      .cut = self->cut,
                                                      .directory = self->draft,
                                                      .generation = core->shards[i].generation,
                                                      .shard = i};
        cadre_shard_requests_ask(&core->requests, i, &message, on_taken, self, i);
    }
}

void
cadre_checkpoint_on_written(cadre_core_t *core, uint32_t shard,
                            const cadre_snapshot_written_message_t *written)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    cadre_assert(shard < core->options.ps_count);
    if (self->state == CADRE_CHECKPOINT_IDLE || written->checkpoint != self->id) {
        /* It says so until it hears of the end. */
        tell_end(core, shard, written->checkpoint, written->checkpoint == self->last_id);
        return;
    }
    if (self->state != CADRE_CHECKPOINT_WRITING && self->state != CADRE_CHECKPOINT_SNAPSHOT) {
        return;
    }
    if (written->status != 0) {
        char text[CADRE_TEXT_SIZE_MAX];
        snprintf(text, sizeof(text), "ps %u: %.200s", shard, written->text);
        cadre_checkpoint_abort(core, -(int)written->status, text);
        return;
    }
    cadre_written_shard_t *entry = &self->shards[shard];
    entry->taken = true;
    entry->written = true;
    snprintf(entry->file, sizeof(entry->file), "%s", written->file);
    entry->size_bytes = written->size_bytes;
    entry->hash = written->hash;
    entry->counter_count = written->counters.count;
    for (size_t i = 0; i < written->counters.count && i < 64; i++) {
        entry->counters[i] = written->counters.items[i];
    }
}

void
cadre_checkpoint_note_ended(cadre_core_t *core, const cadre_closure_t *closure)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    bool has_cut = self->state != CADRE_CHECKPOINT_IDLE && self->state != CADRE_CHECKPOINT_OPENING;
    bool is_later = has_cut && closure->id >= self->cut;
    cadre_sequences_add(is_later ? &self->later : &self->held, closure->sequence,
                        closure->sequence);
}

/* --- moving on --- */

static bool
all_shards(const cadre_core_t *core, bool written)
{
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        const cadre_written_shard_t *shard = &core->checkpoint.shards[i];
        if (written ? !shard->written : !shard->taken) {
            return false;
        }
    }
    return true;
}

/* A variable that was resumed is being created again. A cut now would leave it out, with its values
 * on some shards already, and the commit would be one without it. */
static bool
is_creating_awaited(const cadre_core_t *core)
{
    const cadre_checkpoint_t *self = &core->checkpoint;
    if (!core->creating || core->catalogue.variable_count == 0) {
        return false;
    }
    const char *newest = core->catalogue.variables[core->catalogue.variable_count - 1]->name;
    for (size_t i = 0; i < self->awaited_count; i++) {
        if (strcmp(self->awaited[i], newest) == 0) {
            return true;
        }
    }
    return false;
}

/* The cut: every id below it is begun, and nothing at or above it will be until the snapshots are
 * taken. */
static void
cut(cadre_core_t *core)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    set_state(self, CADRE_CHECKPOINT_DRAINING);
    self->cut = core->next_id;
    self->hold_ms = core->now_ms;
    if (!self->progress && self->on_progress) {
        self->progress = self->on_progress(self->progress_context, self->cut);
    }
}

static void
commit(cadre_core_t *core)
{
    cadre_manifest_t *manifest = NULL;
    int status = cadre_checkpoint_manifest(core, &manifest);
    if (status < 0) {
        cadre_checkpoint_abort(core, status, cadre_error_text());
        return;
    }
    set_state(&core->checkpoint, CADRE_CHECKPOINT_COMMITTING);
    order(core, CADRE_STORE_COMMIT, manifest);
}

static void
give_restore_point(cadre_core_t *core, const char *path)
{
    const cadre_checkpoint_t *self = &core->checkpoint;
    cadre_restore_point_t point = {.path = cadre_strdup(path),
                                   .cut = self->cut,
                                   .assigns = self->assigns,
                                   .unsaved = self->unsaved};
    point.assigned = cadre_calloc(core->options.ps_count, sizeof(*point.assigned));
    for (uint32_t i = 0; i < core->options.ps_count; i++) {
        point.assigned[i] = self->shards[i].assigned;
    }
    cadre_recovery_on_commit(core, &point);
}

void
cadre_checkpoint_on_stored(cadre_core_t *core, const cadre_store_answer_t *answer)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    if (answer->kind == CADRE_STORE_OPEN) {
        if (--self->opens > 0 || self->state != CADRE_CHECKPOINT_OPENING) {
            return; /* of one that was given up before the store came to it */
        }
        if (answer->status < 0) {
            give_up(core, answer->status, answer->text);
            return;
        }
        self->id = answer->checkpoint;
        self->draft = cadre_strdup(answer->text); /* the cut follows in the next tick */
    } else if (answer->kind == CADRE_STORE_COMMIT && self->state == CADRE_CHECKPOINT_COMMITTING) {
        if (answer->status < 0) {
            give_up(core, answer->status, answer->text);
            return;
        }
        tell_shards_end(core, true);
        free(self->last_path);
        self->last_path = cadre_strdup(answer->text);
        self->last_id = self->id;
        self->saved = self->done;
        core->settled = self->cut > core->settled ? self->cut : core->settled;
        give_restore_point(core, answer->text);
        core->totals.checkpoints++;
        await_nothing(self);
        cadre_core_log(core, 'I', "checkpoint",
                       "checkpoint=%" PRIu64 " cut=%" PRIu64 " ms=%" PRIu64 " path=\"%s\"",
                       self->id, self->cut, core->now_ms - self->begun_ms, self->last_path);
        end(core, 0, "");
    }
}

/* A resumed program may still be creating its variables again, a checkpoint could only lose those
 * that it has not come to. One whose checkpoint held none has until it runs something. */
static bool
is_resuming(cadre_core_t *core)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    if (core->next_id == core->resumed_cut) {
        return true;
    }
    const char *awaited = missing(core);
    if (awaited && !self->awaited_told) {
        self->awaited_told = true;
        cadre_core_log(core, 'W', "checkpoints_wait",
                       "variable=%s count=%zu next=\"automatic checkpoints begin when what was "
                       "resumed is created again, or after one that the program saves\"",
                       awaited, self->awaited_count);
    }
    return awaited != NULL;
}

/* When the next automatic one begins; UINT64_MAX for never. */
static uint64_t
automatic_due_ms(cadre_core_t *core)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    bool automatic = self->enabled && self->every_ms > 0;
    if (!automatic || core->fatal || core->catalogue.variable_count == 0 || is_resuming(core)) {
        return UINT64_MAX;
    }
    /* Where nothing was done it would only push out an older one that differs. */
    if (self->due_ms == 0 || (core->now_ms >= self->due_ms && done(core) == self->saved)) {
        self->due_ms = core->now_ms + self->every_ms;
    }
    return self->due_ms;
}

uint64_t
cadre_checkpoint_tick(cadre_core_t *core)
{
    cadre_checkpoint_t *self = &core->checkpoint;
    uint64_t now_ms = core->now_ms;
    if (self->state == CADRE_CHECKPOINT_IDLE) {
        if (now_ms < automatic_due_ms(core)) {
            return automatic_due_ms(core);
        }
        cadre_checkpoint_begin(core, NULL);
    }
    if (core->fatal) {
        cadre_checkpoint_abort(core, core->fatal, core->fatal_text);
    } else if (now_ms >= self->deadline_ms) {
        cadre_checkpoint_abort(core, CADRE_ETIMEOUT, "it took longer than its limit");
    }
    if (self->state == CADRE_CHECKPOINT_OPENING && self->draft && cadre_recovery_is_calm(core) &&
        !is_creating_awaited(core)) {
        cut(core);
    }
    if (self->state == CADRE_CHECKPOINT_DRAINING && core->closures.count == 0) {
        take_snapshots(core);
    }
    if (self->state == CADRE_CHECKPOINT_SNAPSHOT && all_shards(core, false)) {
        set_state(self, CADRE_CHECKPOINT_WRITING);
        self->deadline_ms = now_ms + CADRE_CHECKPOINT_WRITE_MS;
        cadre_core_log(core, 'D', "checkpoint_snapshot",
                       "checkpoint=%" PRIu64 " cut=%" PRIu64 " pause_ms=%" PRIu64, self->id,
                       self->cut, now_ms - self->hold_ms);
    }
    if (self->state == CADRE_CHECKPOINT_WRITING && all_shards(core, true)) {
        commit(core);
    }
    if (self->state == CADRE_CHECKPOINT_IDLE) {
        return automatic_due_ms(core);
    }
    return self->state == CADRE_CHECKPOINT_COMMITTING ? UINT64_MAX : self->deadline_ms;
}

void
cadre_checkpoint_fini(cadre_checkpoint_t *self)
{
    free(self->draft);
    free(self->progress);
    await_nothing(self);
    free(self->awaited);
    free(self->shards);
    cadre_sequences_fini(&self->held);
    cadre_sequences_fini(&self->later);
    free(self->last_path);
    *self = (cadre_checkpoint_t){.enabled = false};
}
