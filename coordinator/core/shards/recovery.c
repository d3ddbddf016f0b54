#include "coordinator/core/shards/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* Returns the state of a shard as a word, for people. */
const char *
cadre_place_state_text(cadre_place_state_t state)
{
    switch (state) {
    case CADRE_PLACE_AWAY:
        return "away";
    case CADRE_PLACE_RESTORING:
        return "restoring";
    case CADRE_PLACE_READY:
        return "ready";
    }
    return "";
}

/* Initialises: all shards are away, and begin with initial values. */
void
cadre_recovery_init(cadre_shard_recovery_t *self, const cadre_recovery_links_t *links)
{
    uint32_t ps_count = links->options->ps_count;
    *self = (cadre_shard_recovery_t){.links = *links};

    self->places = cadre_calloc(ps_count, sizeof(*self->places));
    cadre_restore_points_init(&self->points);
    cadre_repairs_init(&self->repairs,
                       &(cadre_repairs_links_t){.catalogue = links->catalogue,
                                                .drops = links->drops,
                                                .replay = links->replay,
                                                .effects = links->effects},
                       ps_count);
}

void
cadre_recovery_fini(cadre_shard_recovery_t *self)
{
    cadre_repairs_fini(&self->repairs);
    cadre_restore_points_fini(&self->points);
    free(self->places);
    self->places = NULL;
}

void
cadre_recovery_resume(cadre_shard_recovery_t *self, const char *path, uint64_t id, uint64_t cut)
{
    cadre_restore_points_resume(&self->points, path, id, cut);
}

/* --- what other classes are to do --- */

/* Returns the outcome, which the caller adds to. */
static cadre_recovery_outcome_t *
outcome(cadre_shard_recovery_t *self)
{
    self->has_outcome = true;
    return &self->outcome;
}

/* Takes out what other classes are to do; false: nothing. */
bool
cadre_recovery_take_outcome(cadre_shard_recovery_t *self, cadre_recovery_outcome_t *taken)
{
    if (!self->has_outcome) {
        return false;
    }
    *taken = self->outcome;
    self->outcome = (cadre_recovery_outcome_t){.status = 0};
    self->has_outcome = false;
    return true;
}

/* Says, once, by the outcome that the job cannot go on. */
void
cadre_recovery_end_job(cadre_shard_recovery_t *self, int status, const char *text)
{
    if (!self->job_ended) {
        self->job_ended = true;
        snprintf(self->job_text, sizeof(self->job_text), "%s", text);
        outcome(self)->status = status;
        outcome(self)->text = self->job_text;
    }
}

/* Sends a worker a SHARD: the address and generation of the ps that serves the shard, or that none
 * does now. */
void
cadre_recovery_tell(const cadre_shard_recovery_t *self, const cadre_member_t *worker,
                    uint32_t shard)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    const cadre_place_t *place = &self->places[shard];
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_SHARD);
    if (place->state == CADRE_PLACE_READY) {
        message.shard = (cadre_shard_message_t){.index = shard,
                                                .address = ps->address,
                                                .incarnation = ps->task.incarnation,
                                                .generation = place->generation};
    } else if (place->lost_once) {
        message.shard =
            (cadre_shard_message_t){.index = shard, .address = "", .generation = place->announced};
    } else {
        return; /* no ps has served the shard yet: workers learn of the first one that does */
    }

    cadre_effects_send(self->links.effects, &worker->task, &message);
}

/* Tells every worker which ps serves the shard, or that the shard is away. */
static void
announce(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        if (members->workers[i]) {
            cadre_recovery_tell(self, members->workers[i], shard);
        }
    }
}

/* --- states --- */

/* Changes the state of a shard, which must be allowed. */
static void
set_state(cadre_place_t *self, cadre_place_state_t state)
{
    static const uint8_t allowed[] = {
        [CADRE_PLACE_AWAY] = 1 << CADRE_PLACE_RESTORING | 1 << CADRE_PLACE_READY,
        [CADRE_PLACE_RESTORING] =
            1 << CADRE_PLACE_READY | 1 << CADRE_PLACE_AWAY | 1 << CADRE_PLACE_RESTORING,
        [CADRE_PLACE_READY] = 1 << CADRE_PLACE_AWAY | 1 << CADRE_PLACE_RESTORING,
    };
    cadre_assert(allowed[self->state] & 1 << state);
    self->state = state;
}

/* --- shards that become ready --- */

const cadre_restore_point_t *
cadre_recovery_point(const cadre_shard_recovery_t *self, uint32_t shard)
{
    return &self->points.at[self->places[shard].point];
}

/* Returns in words what a restored shard has lost for good: `closures` and `assigns` are counts. */
static const char *
what_is_lost(uint64_t closures, uint64_t assigns)
{
    if (closures > 0 && assigns > 0) {
        return "what they pushed to it and what was assigned since the cut is lost";
    }
    if (closures > 0) {
        return "what they pushed to it since the cut is lost";
    }
    return assigns > 0 ? "what was assigned to it since the cut is lost" : "nothing is lost";
}

/* Counts and logs the closures and assignments that a restored shard has lost for good, as none are
 * kept for a replay. */
static void
tell_loss(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    uint64_t closures = self->links.replay->unsaved - point->unsaved;
    /* NULL: the restore point holds no assignment */
    uint64_t assigns =
        self->places[shard].assigned - (point->assigned ? point->assigned[shard] : 0);

    outcome(self)->at_risk += cadre_restore_points_take_risk(
        &self->points, self->places[shard].point, self->links.replay->unsaved);
    cadre_effects_log(self->links.effects, closures + assigns > 0 ? 'W' : 'I', "ps_restored",
                      "shard=%u cut=%" PRIu64 " generation=%" PRIu64 " closures_at_risk=%" PRIu64
                      " assignments_at_risk=%" PRIu64 " next=\"%s\"",
                      shard, point->cut, self->places[shard].generation, closures, assigns,
                      what_is_lost(closures, assigns));
}

/* Begins a replay pass of the closures and assignments that a restored shard has lost (I3); if none
 * are kept for a replay, counts the loss. */
static void
begin_replay(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    /* Attempts under way may have pushed to the shard before it was lost (I3). */
    cadre_begun_mark_stale(self->links.begun);
    if (!self->links.replay->keeping) {
        tell_loss(self, shard);
        return;
    }

    bool has_work = cadre_replay_has_work(self->links.replay, point->cut, point->assigns);
    if (has_work) {
        self->places[shard].replaying = true;
        cadre_replay_begin(self->links.replay, point->cut, point->assigns);
    }

    cadre_effects_log(
        self->links.effects, 'I', "ps_restored",
        "shard=%u cut=%" PRIu64 " generation=%" PRIu64 " closures=%zu assignments=%zu "
        "ms=%" PRIu64 " next=\"%s\"",
        shard, point->cut, self->places[shard].generation,
        has_work ? self->links.replay->pass_count : 0,
        has_work ? cadre_replay_pass_assigns(self->links.replay) : 0,
        self->links.effects->now_ms - self->places[shard].lost_ms,
        has_work ? "they run again, in front of new work" : "nothing is to run again");
}

/* Makes a shard READY, restored or with the state that it had, and tells the workers which ps
 * serves it. */
static void
become_ready(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    const cadre_member_t *ps = self->links.members->ps[shard];
    bool restored = place->state == CADRE_PLACE_RESTORING;

    cadre_assert(ps); /* a shard whose ps is lost is away */

    set_state(place, CADRE_PLACE_READY);
    place->holder = ps->task.incarnation;
    /* Answers of the generation before may have come since begin_restore. */
    place->step = restored ? 0 : place->step;
    /* CLOSURE carries this sum of the generations of all shards: a worker whose own sum is lower
     * has missed a SHARD message, and waits for it (I3). The difference is added, as the sum has
     * the shard's old generation already. */
    self->announced += place->generation - place->announced;
    place->announced = place->generation;
    place->deadline_ms = 0;
    cadre_shard_health_begin_anew(&place->health, self->links.effects->now_ms);

    if (restored && place->lost_once) {
        outcome(self)->restored++;
        begin_replay(self, shard);
    } else if (place->lost_once) {
        cadre_effects_log(self->links.effects, 'I', "ps_reconnected",
                          "shard=%u generation=%" PRIu64 " ms=%" PRIu64, shard, place->generation,
                          self->links.effects->now_ms - place->lost_ms);
    }

    outcome(self)->is_ready = true;
    cadre_replay_release(self->links.replay);
    announce(self, shard);
    cadre_effects_note_progress(self->links.effects);
}

/* --- restoring --- */

/* Takes a shard's refusal to begin with its restore point: it is to begin with the checkpoint
 * before; if there is none the job ends. */
static void
on_refused(cadre_shard_recovery_t *self, uint32_t shard, const cadre_refusal_t *refusal)
{
    cadre_place_t *place = &self->places[shard];
    if (place->point == 0 && self->points.at[1].path) {
        place->begin_anew = true; /* done in the next cadre_recovery_tick */
        return;
    }

    if (!self->job_ended) { /* logged once, however many variables cannot be loaded */
        cadre_effects_log(self->links.effects, 'E', "restore_failed",
                          "shard=%u path=\"%s\" why=\"%.200s\" next=\"the job cannot go on\"",
                          shard, cadre_recovery_point(self, shard)->path, refusal->text);
    }

    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text), "ps %u cannot begin: %s", shard, refusal->text);
    cadre_recovery_end_job(self, refusal->status, text);
}

bool
cadre_recovery_is_fresh(const cadre_shard_recovery_t *self, uint32_t shard,
                        const cadre_variable_t *variable)
{
    return cadre_restore_point_lacks(cadre_recovery_point(self, shard), variable);
}

cadre_message_t
cadre_recovery_retire_message(const cadre_shard_recovery_t *self, uint32_t variable, uint32_t shard,
                              uint64_t checkpoint)
{
    return cadre_repairs_retire_message(&self->repairs, variable, shard,
                                        self->places[shard].generation, checkpoint);
}

/* Returns the lowest id of which an update may still count on a shard that begins with `point`: the
 * base of its applied window (I1). */
static uint64_t
window_base(const cadre_shard_recovery_t *self, const cadre_restore_point_t *point)
{
    uint64_t base = cadre_begun_lowest(self->links.begun);
    uint64_t kept = cadre_replay_lowest(self->links.replay, point->cut);
    base = cadre_min_u64(base, kept);
    return base > point->cut ? base : point->cut;
}

/* Returns the generation that a shard begins. It is above the generations of all shards if the ps
 * left its index open: that ps may have served another shard before, and must not take messages
 * that are still under way to that shard for its own. */
static uint64_t
next_generation(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    /* A place whose ps is lost is AWAY (cadre_recovery_on_lost), and not restored. */
    cadre_assert(ps);
    bool is_open = ps->task.index == CADRE_INDEX_ANY;
    uint64_t last = self->places[shard].generation;
    for (uint32_t i = 0; is_open && i < self->links.options->ps_count; i++) {
        const cadre_place_t *place = &self->places[i];
        last = place->lost_once ? cadre_max_u64(place->generation, last) : last;
    }
    return last + 1;
}

/* Asks the ps of a shard to begin with its restore point, in a new generation: messages that were
 * sent to an earlier generation are refused by it (I1). */
static void
begin_restore(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    set_state(place, CADRE_PLACE_RESTORING);
    place->generation = next_generation(self, shard);
    place->holder = 0;
    place->step = 0;
    place->begin_anew = false;

    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    place->drops = point->drops;
    cadre_repairs_begin(&self->repairs, shard,
                        &(cadre_repair_order_t){.point = point,
                                                .generation = place->generation,
                                                .base = window_base(self, point),
                                                .ended = self->turn.ended});
}

/* Returns whether one lost shard makes all others roll back, too. Not if nothing is kept for a
 * replay: a shard that is well would only lose updates. */
static bool
rolls_back(const cadre_shard_recovery_t *self)
{
    return self->links.options->recovery == CADRE_RECOVERY_ROLLBACK && self->links.replay->keeping;
}

/* Returns whether closures run again, or are about to, that may name variables which only the older
 * of the two checkpoints holds, because they were dropped between the two cuts. */
static bool
has_pass_from_before_drops(const cadre_shard_recovery_t *self)
{
    const cadre_restore_point_t *newest = &self->points.at[0];
    if (!self->links.replay->keeping || self->points.at[1].drops == newest->drops) {
        return false;
    }

    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        const cadre_place_t *place = &self->places[shard];
        if (place->state == CADRE_PLACE_RESTORING && place->point == 1) {
            return true;
        }
    }

    return self->links.replay->active && self->links.replay->from < newest->cut;
}

/* Returns the restore point (its index) that a lost shard begins with. In a rollback all shards
 * begin with the same one: once one of them had to begin with the older checkpoint, all do until
 * the next commit. */
static int
first_point(const cadre_shard_recovery_t *self)
{
    int point = has_pass_from_before_drops(self) ? 1 : 0;
    for (uint32_t shard = 0; rolls_back(self) && shard < self->links.options->ps_count; shard++) {
        point = cadre_max_int(point, self->places[shard].point);
    }
    return point;
}

/* Restores a shard from `point`, whatever its ps holds or has restored so far. */
static void
take_back(cadre_shard_recovery_t *self, uint32_t shard, int point)
{
    cadre_place_t *place = &self->places[shard];
    if (place->state == CADRE_PLACE_READY) {
        place->lost_ms = self->links.effects->now_ms;
    }
    place->lost_once = true;
    place->point = point;
    begin_restore(self, shard);
    announce(self, shard); /* for workers the shard is away until it is restored */
}

/* Coordinated rollback: restores every other shard from the restore point of `shard`. A shard whose
 * ps is away, too: the ps may return with updates from after that point, so its state counts for
 * nothing any more (`holder`). */
static void
roll_back_others(cadre_shard_recovery_t *self, uint32_t shard)
{
    int point = self->places[shard].point;
    for (uint32_t other = 0; other < self->links.options->ps_count; other++) {
        cadre_place_t *place = &self->places[other];
        bool begins_there = place->state == CADRE_PLACE_RESTORING && place->point == point;
        if (other == shard || begins_there) {
            continue;
        }
        if (place->state == CADRE_PLACE_AWAY) {
            place->holder = 0;
        } else {
            take_back(self, other, point);
        }
    }
}

/* Restores from the older checkpoint every shard that lacks variables which were dropped after that
 * checkpoint: a closure that runs again since then may name them. */
static void
take_back_who_lacks(cadre_shard_recovery_t *self)
{
    if (!self->links.replay->keeping) {
        return;
    }

    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        const cadre_place_t *place = &self->places[shard];
        if (place->drops <= self->points.at[1].drops) {
            continue;
        }
        if (place->state == CADRE_PLACE_AWAY) {
            self->places[shard].holder = 0;
        } else {
            take_back(self, shard, 1);
        }
    }
}

/* Restores a shard that cannot read the newest checkpoint from the one before. */
static void
pass_over(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    cadre_effects_log(self->links.effects, 'E', "checkpoint_fallback",
                      "shard=%u path=\"%s\" next=\"it begins with %s, and what was done since %s\"",
                      shard, self->points.at[0].path,
                      self->points.at[1].path[0] ? self->points.at[1].path : "initial values",
                      self->links.replay->keeping ? "runs again" : "is lost on it");
    outcome(self)->is_unreadable = true;
    place->point = 1;
    begin_restore(self, shard);
    if (rolls_back(self)) {
        roll_back_others(self, shard);
    }

    take_back_who_lacks(self);
}

/* Makes the shell replace the connection to the ps of a shard; unanswered requests are sent again
 * over the new connection. */
static void
connect(cadre_shard_recovery_t *self, const cadre_member_t *ps)
{
    cadre_effect_t event = {
        .kind = CADRE_EFFECT_SHARD_MOVED, .shard = ps->index, .incarnation = ps->task.incarnation};
    snprintf(event.text, sizeof(event.text), "%s", ps->address);
    cadre_shard_health_on_connected(&self->places[ps->index].health, self->links.effects->now_ms);
    cadre_shard_requests_connected(self->links.requests, ps->index);
    cadre_shard_requests_connected(&self->repairs.requests, ps->index);
    cadre_effects_emit(self->links.effects, &event);
}

/* Replaces the data connection to a ps that is a member and leaves requests for values unanswered
 * for too long: the connection may be half-open, which nothing else shows. Returns when to look
 * again. */
static uint64_t
watch_silence(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    size_t size_bytes = 0;
    size_t repair_bytes = 0;
    uint64_t since_ms = cadre_min_u64(
        cadre_shard_requests_silent_ms(self->links.requests, shard, &size_bytes),
        cadre_shard_requests_silent_ms(&self->repairs.requests, shard, &repair_bytes));
    if (!ps || since_ms == UINT64_MAX) {
        return UINT64_MAX;
    }

    cadre_shard_health_t *health = &self->places[shard].health;
    size_bytes += repair_bytes;
    uint64_t mute_ms = cadre_shard_health_mute_at_ms(health, since_ms, size_bytes);
    if (self->links.effects->now_ms < mute_ms) {
        return mute_ms;
    }

    cadre_shard_health_on_mute(health);
    connect(self, ps);
    return cadre_shard_health_mute_at_ms(health, since_ms, size_bytes);
}

/* Forgets that this process holds the state of any shard. */
void
cadre_recovery_on_confused(cadre_shard_recovery_t *self, uint64_t incarnation)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        cadre_place_t *place = &self->places[shard];
        if (place->holder == incarnation) {
            place->holder = 0;
        }
    }
}

/* Takes the HELLO of a ps: its shard is READY at once if the ps still has its state, else it is
 * restored. */
void
cadre_recovery_on_ps(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                     const cadre_hello_message_t *hello)
{
    cadre_place_t *place = &self->places[ps->index];
    connect(self, ps);
    cadre_shard_health_begin_anew(&place->health, self->links.effects->now_ms);

    /* The ps has the shard's state only if process, shard, generation and session are the same as
     * when it went (I1). */
    bool intact = place->holder == ps->task.incarnation && hello->index == ps->index &&
                  hello->generation == place->generation &&
                  hello->session == self->links.options->incarnation;
    if (intact) {
        become_ready(self, ps->index);
        return;
    }

    place->holder = 0; /* restored by a later cadre_recovery_tick */
}

/* --- shards whose ps is lost --- */

/* Makes the shard of a lost ps AWAY. The job ends if no ps takes the place in time; without
 * variables there is nothing to lose, and no limit. */
void
cadre_recovery_on_lost(cadre_shard_recovery_t *self, const cadre_member_t *ps, const char *why)
{
    cadre_place_t *place = &self->places[ps->index];
    char name[32];

    snprintf(place->lost_text, sizeof(place->lost_text),
             "%s (process %u on %.100s) is lost: %.120s", cadre_member_name(ps, name), ps->process,
             ps->host, why);
    if (place->state == CADRE_PLACE_AWAY) {
        return; /* the ps came and went within one turn: no restore has begun */
    }

    bool half = place->state == CADRE_PLACE_RESTORING;
    set_state(place, CADRE_PLACE_AWAY);
    cadre_repairs_give_up(&self->repairs, ps->index);
    /* A shard that was lost while it was being restored has been away since the first loss. */
    if (!half || place->deadline_ms == 0) {
        place->lost_ms = self->links.effects->now_ms;
        place->deadline_ms = self->links.catalogue->variable_count > 0
                                 ? self->links.effects->now_ms + self->links.options->ps_timeout_ms
                                 : 0;
    }

    place->lost_once = true;
    announce(self, ps->index);
}

/* --- a ps that lives and does not serve its shard --- */

/* Returns the condition of a ps by its heartbeat, and in `why` the reason of a bad one. */
cadre_ps_condition_t
cadre_recovery_on_heartbeat(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                            const cadre_heartbeat_message_t *heartbeat,
                            char why[CADRE_RECOVERY_WHY_SIZE])
{
    cadre_place_t *place = &self->places[ps->index];
    uint64_t now_ms = self->links.effects->now_ms;
    const cadre_shard_belief_t belief = {.is_served = place->state == CADRE_PLACE_READY,
                                         .shard = ps->index,
                                         .generation = place->generation};
    cadre_ps_condition_t condition = cadre_shard_health_on_heartbeat(
        &place->health, heartbeat, &belief, now_ms, self->links.options->lease_ms);

    if (condition == CADRE_PS_STANDS_STILL) {
        snprintf(why, CADRE_RECOVERY_WHY_SIZE, "its shard has made no progress for %" PRIu64 " ms",
                 now_ms - place->health.progress_ms);
    }

    if (condition == CADRE_PS_SERVES_ANOTHER) {
        snprintf(why, CADRE_RECOVERY_WHY_SIZE,
                 "it serves shard %" PRIu64 ", generation %" PRIu64 ", and not generation %" PRIu64
                 " of its own",
                 heartbeat->shard, heartbeat->generation, place->generation);
    }

    return condition;
}

/* Gives shards that are away `ms` longer before the job ends. */
void
cadre_recovery_excuse(cadre_shard_recovery_t *self, uint64_t ms)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        cadre_place_t *place = &self->places[shard];
        place->deadline_ms += place->deadline_ms ? ms : 0;
    }
}

/* --- committed checkpoints --- */

/* Makes a committed checkpoint the newest restore point, and lets the replay forget what the one
 * before it holds. */
void
cadre_recovery_on_commit(cadre_shard_recovery_t *self, const cadre_restore_point_t *point)
{
    const cadre_restore_point_t *before = &self->points.at[1];
    cadre_restore_points_commit(&self->points, point);
    cadre_replay_commit(self->links.replay, point->cut, before->cut, before->assigns);
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        self->places[shard].point = 0;
    }
}

/* Makes `point` the only restore point, and restores every shard from it in a new generation. */
void
cadre_recovery_go_back(cadre_shard_recovery_t *self, const cadre_restore_point_t *point)
{
    cadre_assert(cadre_recovery_is_calm(self) && self->links.begun->closures.count == 0);
    cadre_restore_points_begin_with(&self->points, point);
    cadre_replay_commit(self->links.replay, point->cut, point->cut, point->assigns);
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        take_back(self, shard, 0);
    }
}

/* --- passes of the replay --- */

/* Returns whether the shard of the pass's next assignment is READY. If the shard were being
 * restored again, that would restart the pass, and an assignment repeated before would come out of
 * order. */
static bool
next_shard_is_ready(const cadre_shard_recovery_t *self)
{
    const cadre_replay_t *replay = self->links.replay;
    return replay->assign_next < replay->assign_count &&
           self->places[replay->assigns[replay->assign_next].shard].state == CADRE_PLACE_READY;
}

/* Returns whether an assignment need not be repeated: the shard's restore point holds it, or its
 * variable is dropped and nobody needs its values. */
static bool
is_needless(const cadre_shard_recovery_t *self, const cadre_replay_assign_t *assign)
{
    return cadre_replay_assign_number(self->links.replay) <=
               cadre_recovery_point(self, assign->shard)->assigns ||
           cadre_catalogue_is_vacant(self->links.catalogue, assign->variable);
}

/* Repeats the assignments whose place in the pass has come: before the closures that were begun
 * after them (I3). */
static void
repeat_assigns(cadre_shard_recovery_t *self)
{
    const cadre_replay_assign_t *assign = NULL;
    while (next_shard_is_ready(self) && (assign = cadre_replay_next_assign(self->links.replay))) {
        if (is_needless(self, assign)) {
            cadre_replay_assigned(self->links.replay);
            continue;
        }
        cadre_repairs_repeat(&self->repairs, assign);
    }
}

/* Ends a pass: restored shards have all their updates again, and join need not wait (I2). */
static void
end_pass(cadre_shard_recovery_t *self)
{
    uint64_t since_ms = self->links.effects->now_ms;
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        cadre_place_t *place = &self->places[shard];
        if (place->replaying && place->lost_ms < since_ms) {
            since_ms = place->lost_ms;
        }
        place->replaying = false;
    }

    cadre_effects_log(self->links.effects, 'I', "replay_done",
                      "closures=%zu assignments=%zu ms_since_lost=%" PRIu64,
                      self->links.replay->pass_count, cadre_replay_pass_assigns(self->links.replay),
                      self->links.effects->now_ms - since_ms);
    cadre_effects_note_progress(self->links.effects);
}

/* --- every turn --- */

/* Ends the job if the shard has had no ps until its deadline. Returns the deadline; UINT64_MAX for
 * none. */
static uint64_t
watch_deadline(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    if (self->links.members->ps[shard] || place->deadline_ms == 0) {
        return UINT64_MAX;
    }

    if (self->links.effects->now_ms >= place->deadline_ms) {
        char text[CADRE_CLOSURE_ERROR_SIZE];
        snprintf(text, sizeof(text), "%s; nobody has taken its place for %" PRIu64 " s",
                 place->lost_text, self->links.options->ps_timeout_ms / 1000);
        cadre_recovery_end_job(self, CADRE_EUNAVAILABLE, text);
        place->deadline_ms = 0;
        return UINT64_MAX;
    }

    return place->deadline_ms;
}

/* Moves a shard to its next states as far as its ps allows: begins a restore, restarts it from
 * another point, becomes ready. */
static void
advance(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    const cadre_member_t *ps = self->links.members->ps[shard];
    if (ps && place->state == CADRE_PLACE_AWAY && !self->turn.is_committing) {
        /* Waits while a commit is under way: that decides which checkpoint the shard is restored
         * from (I5). */
        place->point = first_point(self);
        begin_restore(self, shard);
        if (rolls_back(self) && place->lost_once) {
            roll_back_others(self, shard);
        }
    }

    if (place->state == CADRE_PLACE_RESTORING && place->begin_anew) {
        pass_over(self, shard);
    }
    if (place->state == CADRE_PLACE_RESTORING && self->repairs.pending[shard] == 0) {
        become_ready(self, shard);
    }
}

/* Moves every shard on, repeats assignments that are due, and ends a pass that is done. Returns
 * when to call again. */
uint64_t
cadre_recovery_tick(cadre_shard_recovery_t *self, const cadre_recovery_turn_t *turn)
{
    uint64_t due_ms = UINT64_MAX;
    self->turn = *turn;
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        advance(self, shard);
        due_ms = cadre_min_u64(due_ms, watch_deadline(self, shard));
        due_ms = cadre_min_u64(due_ms, watch_silence(self, shard));
    }

    repeat_assigns(self);
    if (cadre_replay_ends(self->links.replay)) {
        end_pass(self);
    }

    return due_ms;
}

/* Returns the ps that the recovery's requests for `shard` go to; none while the shard is away. */
static cadre_shard_target_t
repair_target(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    bool serves = ps && self->places[shard].state != CADRE_PLACE_AWAY;
    return (cadre_shard_target_t){.task = serves ? &ps->task : NULL,
                                  .generation = self->places[shard].generation};
}

/* Sends the requests of one shard: the recovery's from RESTORING on, all others only once it is
 * READY and no replay is under way for it. */
static void
pump(cadre_shard_recovery_t *self, uint32_t shard)
{
    uint64_t now_ms = self->links.effects->now_ms;
    uint64_t resend_ms = self->links.options->resend_ms;
    cadre_outbox_t *outbox = &self->links.effects->outbox;
    cadre_shard_target_t repair = repair_target(self, shard);
    cadre_shard_target_t target = repair;
    if (!cadre_recovery_is_ready(self, shard) || self->places[shard].replaying) {
        target.task = NULL;
    }

    cadre_shard_requests_pump(&self->repairs.requests, shard, &repair, now_ms, resend_ms, outbox);
    cadre_shard_requests_pump(self->links.requests, shard, &target, now_ms, resend_ms, outbox);
}

/* Sends the requests that wait for shards; false: no request waits. */
bool
cadre_recovery_pump(cadre_shard_recovery_t *self)
{
    if (self->repairs.requests.count + self->links.requests->count == 0) {
        return false;
    }
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        pump(self, shard);
    }
    return true;
}

/* --- answers of shards --- */

/* Takes a shard's answer to a request of the recovery, or of anybody else. */
void
cadre_recovery_on_answer(cadre_shard_recovery_t *self, uint32_t shard,
                         const cadre_message_t *answer)
{
    cadre_refusal_t refusal;
    if (!cadre_repairs_on_answer(&self->repairs, shard, answer, &refusal)) {
        cadre_shard_requests_answer(self->links.requests, shard, answer);
    } else if (refusal.status != 0) {
        on_refused(self, shard, &refusal);
    }
}

void
cadre_recovery_on_probed(cadre_shard_recovery_t *self, uint32_t shard,
                         const cadre_message_t *probed)
{
    cadre_shard_requests_probed(&self->repairs.requests, shard, probed);
    cadre_shard_requests_probed(self->links.requests, shard, probed);
}

void
cadre_recovery_doubt(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_shard_requests_doubt(self->links.requests, shard);
    cadre_shard_requests_doubt(&self->repairs.requests, shard);
}

/* --- what others ask --- */

/* Returns whether all shards are READY and no closure runs again. */
bool
cadre_recovery_is_calm(const cadre_shard_recovery_t *self)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        if (self->places[shard].state != CADRE_PLACE_READY) {
            return false;
        }
    }
    return !self->links.replay->active;
}

/* Returns whether no update of an ended closure is missing on a shard and still to come. */
bool
cadre_recovery_is_settled(const cadre_shard_recovery_t *self)
{
    const cadre_restore_point_t *newest = &self->points.at[0];
    /* A pass may run again from the older restore point. */
    bool passing = self->links.replay->active;
    return cadre_recovery_is_calm(self) ||
           (!passing && !cadre_replay_has_work(self->links.replay, newest->cut, newest->assigns));
}

/* Returns whether a shard is being restored, or closures run again for one. */
bool
cadre_recovery_is_under_way(const cadre_shard_recovery_t *self)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        if (self->places[shard].state == CADRE_PLACE_RESTORING) {
            return true;
        }
    }
    return self->links.replay->active;
}

bool
cadre_recovery_is_ready(const cadre_shard_recovery_t *self, uint32_t shard)
{
    return self->places[shard].state == CADRE_PLACE_READY;
}

uint64_t
cadre_recovery_next_assignment(cadre_shard_recovery_t *self, uint32_t shard)
{
    return ++self->places[shard].assigned;
}

void
cadre_recovery_note_step(cadre_shard_recovery_t *self, uint32_t shard, uint64_t step)
{
    self->places[shard].step = step;
}

void
cadre_recovery_begin_creation(cadre_shard_recovery_t *self)
{
    cadre_repairs_begin_creation(&self->repairs);
}

uint64_t
cadre_recovery_welcome_generation(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_place_t *place = &self->places[shard];
    return place->generation + (place->state == CADRE_PLACE_AWAY ? 1 : 0);
}

/* Writes, for people, which shard is away or being restored, or how many closures run again; NULL:
 * none. */
const char *
cadre_recovery_words(const cadre_shard_recovery_t *self, char text[CADRE_WAITING_TEXT_SIZE])
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        const cadre_place_t *place = &self->places[shard];
        if (place->state == CADRE_PLACE_AWAY && place->lost_once) {
            snprintf(text, CADRE_WAITING_TEXT_SIZE,
                     "ps %u to come back (it is lost for %" PRIu64 " s)", shard,
                     (self->links.effects->now_ms - place->lost_ms) / 1000);
            return text;
        }

        if (place->state == CADRE_PLACE_RESTORING) {
            const char *path = cadre_recovery_point(self, shard)->path;
            snprintf(text, CADRE_WAITING_TEXT_SIZE,
                     "ps %u to be restored%s%.200s: it has %u requests to answer", shard,
                     path[0] ? " from " : "", path, self->repairs.pending[shard]);
            return text;
        }
    }

    if (self->links.replay->active) {
        snprintf(text, CADRE_WAITING_TEXT_SIZE, "%zu closures to run again",
                 self->links.replay->redo.count + self->links.replay->aside.count +
                     self->links.replay->in_flight);
        return text;
    }

    return NULL;
}
