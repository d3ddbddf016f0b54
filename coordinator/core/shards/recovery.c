#include "coordinator/core/shards/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

/* Ids of the recovery's requests begin above this: answers do not say whose they are. */
#define REPAIR_REQUESTS (UINT64_C(1) << 62)

void
cadre_recovery_init(cadre_shard_recovery_t *self, const cadre_recovery_links_t *links)
{
    uint32_t ps_count = links->options->ps_count;
    *self = (cadre_shard_recovery_t){.links = *links};
    self->places = cadre_calloc(ps_count, sizeof(*self->places));
    cadre_restore_points_init(&self->points);
    cadre_shard_requests_init(&self->repairs, ps_count, REPAIR_REQUESTS);
}

void
cadre_recovery_fini(cadre_shard_recovery_t *self)
{
    cadre_shard_requests_fini(&self->repairs);
    cadre_restore_points_fini(&self->points);
    free(self->places);
    self->places = NULL;
}

void
cadre_recovery_resume(cadre_shard_recovery_t *self, const char *path, uint64_t id, uint64_t cut)
{
    cadre_restore_points_resume(&self->points, path, id, cut);
}

/* --- what others are to do --- */

/* The outcome, to be added to. */
static cadre_recovery_outcome_t *
outcome(cadre_shard_recovery_t *self)
{
    self->has_outcome = true;
    return &self->outcome;
}

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

static void
end_job(cadre_shard_recovery_t *self, int status, const char *text)
{
    if (!self->job_ended) {
        self->job_ended = true;
        snprintf(self->job_text, sizeof(self->job_text), "%s", text);
        outcome(self)->status = status;
        outcome(self)->text = self->job_text;
    }
}

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
        return; /* told when it comes */
    }
    cadre_effects_send(self->links.effects, &worker->task, &message);
}

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

/* --- ready --- */

const cadre_restore_point_t *
cadre_recovery_point(const cadre_shard_recovery_t *self, uint32_t shard)
{
    return &self->points.at[self->places[shard].point];
}

/* Nothing runs again for a shard that was restored. */
static void
tell_loss(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    uint64_t closures = self->links.replay->unsaved - point->unsaved;
    uint64_t assigns =
        self->places[shard].assigned - (point->assigned ? point->assigned[shard] : 0);
    const char *next = closures > 0 && assigns > 0
                           ? "what they pushed to it and what was assigned since the cut is lost"
                       : closures > 0 ? "what they pushed to it since the cut is lost"
                       : assigns > 0  ? "what was assigned to it since the cut is lost"
                                      : "nothing is lost";
    outcome(self)->at_risk += cadre_restore_points_take_risk(
        &self->points, self->places[shard].point, self->links.replay->unsaved);
    cadre_effects_log(self->links.effects, closures + assigns > 0 ? 'W' : 'I', "ps_restored",
                      "shard=%u cut=%" PRIu64 " generation=%" PRIu64 " closures_at_risk=%" PRIu64
                      " assignments_at_risk=%" PRIu64 " next=\"%s\"",
                      shard, point->cut, self->places[shard].generation, closures, assigns, next);
}

static void
begin_replay(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
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

static void
become_ready(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    const cadre_member_t *ps = self->links.members->ps[shard];
    bool restored = place->state == CADRE_PLACE_RESTORING;
    cadre_assert(ps); /* a shard whose ps is lost is away */
    set_state(place, CADRE_PLACE_READY);
    place->holder = ps->task.incarnation;
    self->announced += place->generation - place->announced;
    place->announced = place->generation;
    place->deadline_ms = 0;
    place->progress_ms = self->links.effects->now_ms;
    place->progress_same = 0;
    place->differs_ms = 0;
    if (restored && place->lost_once) {
        outcome(self)->restored++;
        begin_replay(self, shard);
    } else if (place->lost_once) {
        cadre_effects_log(self->links.effects, 'I', "ps_back",
                          "shard=%u generation=%" PRIu64 " ms=%" PRIu64, shard, place->generation,
                          self->links.effects->now_ms - place->lost_ms);
    }
    outcome(self)->is_ready = true;
    cadre_replay_release(self->links.replay);
    announce(self, shard);
    cadre_effects_note_progress(self->links.effects);
}

/* --- restoring --- */

/* `detail`: the shard, and the id of a variable that is being created just now, or 0. */
enum { MAY_REFUSE = 1 << 16 };

/* Whether a shard refuses a variable that does not exist yet. It may have taken it before it was
 * lost, and is not asked by the call any more: so the creation fails. */
static bool
is_creation_refused(cadre_shard_recovery_t *self, uint64_t id, int status,
                    const cadre_message_t *reply)
{
    if (id == 0 || self->links.catalogue->variables[id - 1]->created) {
        return false;
    }
    bool is_gone = cadre_catalogue_is_vacant(self->links.catalogue, (uint32_t)id);
    bool is_refused = status == CADRE_EFULL || status == CADRE_EDTYPE || status == CADRE_ESHAPE;
    if (is_refused && !is_gone && self->creation_status == 0) {
        self->creation_status = status;
        snprintf(self->creation_text, sizeof(self->creation_text), "%s", reply->reply.text);
    }
    return is_refused || is_gone;
}

static void
on_repaired(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    cadre_shard_recovery_t *self = context;
    uint64_t shard = detail % MAY_REFUSE;
    cadre_place_t *place = &self->places[shard];
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (status == CADRE_ECANCELLED || place->state != CADRE_PLACE_RESTORING) {
        return;
    }
    status = answered ? -(int)reply->reply.status : CADRE_EMALFORMED;
    bool may_go_on = status == 0 || is_creation_refused(self, detail / MAY_REFUSE, status, reply);
    if (!may_go_on && place->point == 0 && self->points.at[1].path) {
        place->begin_anew = true;
        return;
    }
    if (!may_go_on) {
        char text[CADRE_CLOSURE_ERROR_SIZE];
        const char *why = answered ? reply->reply.text : "it answered out of turn";
        snprintf(text, sizeof(text), "ps %" PRIu64 " cannot begin: %s", shard, why);
        if (!self->job_ended) { /* one line, however many variables cannot be loaded */
            cadre_effects_log(self->links.effects, 'E', "restore_failed",
                              "shard=%" PRIu64 " path=\"%s\" why=\"%.200s\" "
                              "next=\"the job cannot go on\"",
                              shard, cadre_recovery_point(self, (uint32_t)shard)->path, why);
        }
        end_job(self, status, text);
        return;
    }
    cadre_assert(place->pending > 0);
    place->pending--;
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
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_RETIRE);
    message.retire = (cadre_retire_message_t){.variable = variable,
                                              .checkpoint = checkpoint,
                                              .generation = self->places[shard].generation,
                                              .shard = shard};
    return message;
}

/* What is retired must not get into the next checkpoint; asked after all CREATEs. */
static void
ask_retires(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    for (uint64_t i = 0; i < self->links.drops->retired - self->links.drops->done; i++) {
        const cadre_variable_t *variable = self->links.drops->drops[i].variable;
        if (cadre_variable_is_on(variable, shard) &&
            !cadre_restore_point_is_past(point, variable)) {
            cadre_message_t message = cadre_recovery_retire_message(self, variable->id, shard, 0);
            cadre_shard_requests_ask(&self->repairs, shard, &message, on_repaired, self, shard);
            self->places[shard].pending++;
        }
    }
}

static void
ask_creates(cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    for (uint32_t i = 0; i < self->links.catalogue->variable_count; i++) {
        const cadre_variable_t *variable = self->links.catalogue->variables[i];
        if (cadre_restore_point_is_past(point, variable)) {
            continue;
        }
        for (uint32_t part = 0; part < variable->partitions; part++) {
            if (variable->shards[part] != shard) {
                continue;
            }
            uint64_t shape[CADRE_RANK_MAX];
            cadre_message_t message = cadre_catalogue_create_message(variable, part, shape);
            message.incarnation = self->links.effects->incarnation;
            message.epoch = self->links.effects->epoch;
            message.create.generation = self->places[shard].generation;
            message.create.fresh = cadre_recovery_is_fresh(self, shard, variable);
            uint64_t detail = shard + (variable->created ? 0 : MAY_REFUSE * (uint64_t)variable->id);
            cadre_shard_requests_ask(&self->repairs, shard, &message, on_repaired, self, detail);
            self->places[shard].pending++;
        }
    }
}

/* The lowest id of which an update may still count on a shard that begins there. */
static uint64_t
window_base(const cadre_shard_recovery_t *self, const cadre_restore_point_t *point)
{
    uint64_t base = cadre_begun_lowest(self->links.begun);
    uint64_t kept = cadre_replay_lowest(self->links.replay, point->cut);
    base = kept < base ? kept : base;
    return base > point->cut ? base : point->cut;
}

/* A ps that left its index open may have served another shard: it must not take what is on its way
 * to that one for its own. */
static uint64_t
next_generation(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    cadre_assert(ps); /* a place whose ps is lost is away: cadre_recovery_on_lost */
    bool is_open = ps->task.index == CADRE_INDEX_ANY;
    uint64_t last = self->places[shard].generation;
    for (uint32_t i = 0; is_open && i < self->links.options->ps_count; i++) {
        const cadre_place_t *place = &self->places[i];
        last = place->lost_once && place->generation > last ? place->generation : last;
    }
    return last + 1;
}

static void
begin_restore(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    set_state(place, CADRE_PLACE_RESTORING);
    place->generation = next_generation(self, shard);
    place->holder = 0;
    place->begin_anew = false;
    place->pending = 1;
    cadre_shard_requests_clear(&self->repairs, shard);
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_RESTORE);
    const cadre_restore_point_t *point = cadre_recovery_point(self, shard);
    place->drops = point->drops;
    message.restore = (cadre_restore_message_t){.path = point->path,
                                                .cut = window_base(self, point),
                                                .generation = place->generation,
                                                .shard = shard,
                                                .ended = self->turn.ended};
    cadre_shard_requests_ask(&self->repairs, shard, &message, on_repaired, self, shard);
    ask_creates(self, shard);
    ask_retires(self, shard);
}

/* Where nothing is kept, a shard that is whole would only lose what the others have. */
static bool
rolls_back(const cadre_shard_recovery_t *self)
{
    return self->links.options->recovery == CADRE_RECOVERY_ROLLBACK && self->links.replay->keeping;
}

/* Whether closures run again, or are about to, that name variables which the newest checkpoint does
 * not hold any more: they were dropped between the two. */
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

/* What a shard that was lost is to begin with. Those of a rollback begin with the same: once one of
 * them had to begin with the checkpoint before, all do until the next commit. */
static int
first_point(const cadre_shard_recovery_t *self)
{
    int point = has_pass_from_before_drops(self) ? 1 : 0;
    for (uint32_t shard = 0; rolls_back(self) && shard < self->links.options->ps_count; shard++) {
        point = self->places[shard].point > point ? self->places[shard].point : point;
    }
    return point;
}

/* Restores a shard that is there, or half restored, from `point`. */
static void
take_back(cadre_shard_recovery_t *self, uint32_t shard, int point)
{
    cadre_place_t *place = &self->places[shard];
    place->lost_ms =
        place->state == CADRE_PLACE_READY ? self->links.effects->now_ms : place->lost_ms;
    place->lost_once = true;
    place->point = point;
    begin_restore(self, shard);
    announce(self, shard); /* away until it is done */
}

/* Restores every other shard from the point that `shard` is restored from, also those whose ps are
 * away: they may return with what was applied after it. */
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
            continue;
        }
        take_back(self, other, point);
    }
}

/* A shard goes back to the checkpoint before, and closures since that one run again for it. Some
 * may name variables that were dropped since: who began without these goes back, too. */
static void
take_back_who_lacks(cadre_shard_recovery_t *self)
{
    for (uint32_t shard = 0; self->links.replay->keeping && shard < self->links.options->ps_count;
         shard++) {
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

/* The newest checkpoint cannot be read by this shard: it begins with the one before. */
static void
pass_over(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    cadre_effects_log(self->links.effects, 'E', "checkpoint_passed_over",
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

static void
connect(cadre_shard_recovery_t *self, const cadre_member_t *ps)
{
    cadre_effect_t event = {
        .kind = CADRE_EFFECT_SHARD_MOVED, .shard = ps->index, .incarnation = ps->task.incarnation};
    snprintf(event.text, sizeof(event.text), "%s", ps->address);
    self->places[ps->index].connected_ms = self->links.effects->now_ms;
    cadre_shard_requests_connected(self->links.requests, ps->index);
    cadre_shard_requests_connected(&self->repairs, ps->index);
    cadre_effects_emit(self->links.effects, &event);
}

/* A ps that is a member and leaves requests for values unanswered may have lost the connection that
 * they go over: half of one looks whole from here. Every request can be repeated over another one,
 * but that costs what was under way: so the limit grows with it, and doubles each time. */
static uint64_t
watch_silence(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    const cadre_member_t *ps = self->links.members->ps[shard];
    size_t size_bytes = 0;
    size_t repair_bytes = 0;
    uint64_t since_ms = cadre_shard_requests_silent_ms(self->links.requests, shard, &size_bytes);
    uint64_t repair_ms = cadre_shard_requests_silent_ms(&self->repairs, shard, &repair_bytes);
    since_ms = repair_ms < since_ms ? repair_ms : since_ms;
    if (!ps || since_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    place->mutes = since_ms > place->connected_ms ? 0 : place->mutes;
    uint64_t limit_ms = CADRE_MUTE_MS + 1000 * (size_bytes + repair_bytes) / CADRE_LINK_RATE_MIN;
    for (uint32_t i = 0; i < place->mutes && limit_ms < CADRE_MUTE_MAX_MS; i++) {
        limit_ms *= 2;
    }
    since_ms = since_ms > place->connected_ms ? since_ms : place->connected_ms;
    if (self->links.effects->now_ms >= since_ms + limit_ms) {
        place->mutes++;
        connect(self, ps);
        since_ms = self->links.effects->now_ms;
    }
    return since_ms + limit_ms;
}

void
cadre_recovery_on_confused(cadre_shard_recovery_t *self, uint64_t incarnation)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        cadre_place_t *place = &self->places[shard];
        place->holder = place->holder == incarnation ? 0 : place->holder;
    }
}

void
cadre_recovery_on_ps(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                     const cadre_hello_message_t *hello)
{
    cadre_place_t *place = &self->places[ps->index];
    connect(self, ps);
    place->progress_ms = self->links.effects->now_ms; /* of this process nothing is known */
    place->progress_same = 0;
    bool intact = place->holder == ps->task.incarnation && hello->index == ps->index &&
                  hello->generation == place->generation &&
                  hello->session == self->links.options->incarnation;
    if (intact) {
        become_ready(self, ps->index);
        return;
    }
    place->holder = 0; /* restored in a turn to come, see cadre_recovery_tick */
}

/* --- lost --- */

void
cadre_recovery_on_lost(cadre_shard_recovery_t *self, const cadre_member_t *ps, const char *why)
{
    cadre_place_t *place = &self->places[ps->index];
    char name[32];
    snprintf(place->lost_text, sizeof(place->lost_text),
             "%s (process %u on %.100s) is lost: %.120s", cadre_member_name(ps, name), ps->process,
             ps->host, why);
    if (place->state == CADRE_PLACE_AWAY) {
        return; /* it was there for less than a turn */
    }
    bool half = place->state == CADRE_PLACE_RESTORING;
    set_state(place, CADRE_PLACE_AWAY);
    if (!half || place->deadline_ms == 0) { /* else it has been lost since before */
        place->lost_ms = self->links.effects->now_ms;
        place->deadline_ms = self->links.catalogue->variable_count > 0
                                 ? self->links.effects->now_ms + self->links.options->ps_timeout_ms
                                 : 0;
    }
    place->lost_once = true;
    announce(self, ps->index);
}

/* --- a ps that lives, and its shard does not --- */

enum {
    BEATS_MIN = 3, /* HEARTBEATs that must say the same */
};

cadre_ps_condition_t
cadre_recovery_on_heartbeat(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                            const cadre_heartbeat_message_t *heartbeat,
                            char why[CADRE_RECOVERY_WHY_SIZE])
{
    cadre_place_t *place = &self->places[ps->index];
    uint64_t now_ms = self->links.effects->now_ms;
    uint64_t lease_ms = self->links.options->lease_ms;
    if (heartbeat->progress != place->progress) {
        place->progress = heartbeat->progress;
        place->progress_ms = now_ms;
        place->progress_same = 0;
    }
    bool differs = place->state == CADRE_PLACE_READY &&
                   (heartbeat->shard != ps->index || heartbeat->generation != place->generation);
    if (!differs || place->differs_ms == 0) {
        place->differs_ms = differs ? now_ms : 0;
        place->differs_same = 0;
    }
    bool is_stuck = ++place->progress_same > BEATS_MIN && now_ms >= place->progress_ms + lease_ms;
    bool is_another =
        differs && ++place->differs_same > BEATS_MIN && now_ms >= place->differs_ms + lease_ms;
    if (is_stuck) {
        snprintf(why, CADRE_RECOVERY_WHY_SIZE, "its shard has made no progress for %" PRIu64 " ms",
                 now_ms - place->progress_ms);
        return CADRE_PS_STANDS_STILL;
    }
    if (is_another) {
        snprintf(why, CADRE_RECOVERY_WHY_SIZE,
                 "it serves shard %" PRIu64 ", generation %" PRIu64 ", and not generation %" PRIu64
                 " of its own",
                 heartbeat->shard, heartbeat->generation, place->generation);
        return CADRE_PS_SERVES_ANOTHER;
    }
    return CADRE_PS_GOES_ON;
}

void
cadre_recovery_excuse(cadre_shard_recovery_t *self, uint64_t ms)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        cadre_place_t *place = &self->places[shard];
        place->deadline_ms += place->deadline_ms ? ms : 0;
    }
}

/* --- a commit --- */

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

/* --- a pass --- */

static void
on_assigned(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)detail;
    cadre_shard_recovery_t *self = context;
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (answered) {
        status = -(int)reply->reply.status;
    }
    bool is_made = answered && status == 0;
    bool is_refused_again = answered && status == CADRE_ENOTFINITE;
    if (!is_made && !is_refused_again && status != CADRE_ECANCELLED) {
        cadre_effects_log(self->links.effects, 'E', "assignment_not_repeated", "why=\"%.200s\"",
                          answered ? reply->reply.text : "it answered out of turn");
    }
    if (self->links.replay->assign_pending > 0) {
        cadre_replay_assigned(self->links.replay);
    }
}

/* One that begins anew begins the pass anew: what it were asked before would come out of turn. */
static bool
next_shard_is_ready(const cadre_shard_recovery_t *self)
{
    const cadre_replay_t *replay = self->links.replay;
    return replay->assign_next < replay->assign_count &&
           self->places[replay->assigns[replay->assign_next].shard].state == CADRE_PLACE_READY;
}

/* It is in what the shard began with, or its variable was dropped and nothing needs that. */
static bool
is_needless(const cadre_shard_recovery_t *self, const cadre_replay_assign_t *assign)
{
    return cadre_replay_assign_number(self->links.replay) <=
               cadre_recovery_point(self, assign->shard)->assigns ||
           cadre_catalogue_is_vacant(self->links.catalogue, assign->variable);
}

static void
repeat_assigns(cadre_shard_recovery_t *self)
{
    const cadre_replay_assign_t *assign = NULL;
    while (next_shard_is_ready(self) && (assign = cadre_replay_next_assign(self->links.replay))) {
        if (is_needless(self, assign)) {
            cadre_replay_assigned(self->links.replay);
            continue;
        }
        cadre_message_t message;
        const cadre_outbox_entry_t *entry = &assign->entry;
        cadre_chunk_t **chunks = cadre_calloc(entry->chunk_count, sizeof(cadre_chunk_t *));
        for (size_t i = 0; i < entry->chunk_count; i++) {
            chunks[i] = cadre_chunk_ref(entry->chunks[i]);
        }
        int status = cadre_message_decode(cadre_chunk_data(entry->header),
                                          cadre_chunk_size_bytes(entry->header), chunks,
                                          entry->chunk_count, &message);
        cadre_assert(status == 0);
        message.assign.checkpoint = 0; /* while closures run again no cut is open */
        message.assign.cut = 0;
        cadre_shard_requests_ask(&self->repairs, assign->shard, &message, on_assigned, self,
                                 assign->shard);
        cadre_message_fini(&message);
        free(chunks);
    }
}

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

/* --- time --- */

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
        end_job(self, CADRE_EUNAVAILABLE, text);
        place->deadline_ms = 0;
        return UINT64_MAX;
    }
    return place->deadline_ms;
}

/* Moves a shard on, as far as its ps has come. */
static void
advance(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_place_t *place = &self->places[shard];
    const cadre_member_t *ps = self->links.members->ps[shard];
    if (ps && place->state == CADRE_PLACE_AWAY && !self->turn.is_committing) {
        place->point = first_point(self);
        begin_restore(self, shard); /* not before it is known to which cut */
        if (rolls_back(self) && place->lost_once) {
            roll_back_others(self, shard);
        }
    }
    if (place->state == CADRE_PLACE_RESTORING && place->begin_anew) {
        pass_over(self, shard);
    }
    if (place->state == CADRE_PLACE_RESTORING && place->pending == 0) {
        become_ready(self, shard);
    }
}

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

/* Who is to be asked for `shard`; nobody while it is away. */
static cadre_shard_target_t
repair_target(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_member_t *ps = self->links.members->ps[shard];
    bool serves = ps && self->places[shard].state != CADRE_PLACE_AWAY;
    return (cadre_shard_target_t){.task = serves ? &ps->task : NULL,
                                  .generation = self->places[shard].generation};
}

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
    cadre_shard_requests_pump(&self->repairs, shard, &repair, now_ms, resend_ms, outbox);
    cadre_shard_requests_pump(self->links.requests, shard, &target, now_ms, resend_ms, outbox);
}

bool
cadre_recovery_pump(cadre_shard_recovery_t *self)
{
    if (self->repairs.count + self->links.requests->count == 0) {
        return false;
    }
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        pump(self, shard);
    }
    return true;
}

/* --- what shards answer --- */

void
cadre_recovery_on_answer(cadre_shard_recovery_t *self, uint32_t shard,
                         const cadre_message_t *answer)
{
    if (!cadre_shard_requests_answer(&self->repairs, shard, answer)) {
        cadre_shard_requests_answer(self->links.requests, shard, answer);
    }
}

void
cadre_recovery_on_probed(cadre_shard_recovery_t *self, uint32_t shard,
                         const cadre_message_t *probed)
{
    cadre_shard_requests_probed(&self->repairs, shard, probed);
    cadre_shard_requests_probed(self->links.requests, shard, probed);
}

void
cadre_recovery_doubt(cadre_shard_recovery_t *self, uint32_t shard)
{
    cadre_shard_requests_doubt(self->links.requests, shard);
    cadre_shard_requests_doubt(&self->repairs, shard);
}

/* --- what others ask --- */

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

bool
cadre_recovery_is_settled(const cadre_shard_recovery_t *self)
{
    const cadre_restore_point_t *newest = &self->points.at[0];
    bool passing = self->links.replay->active; /* maybe from the point before the newest */
    return cadre_recovery_is_calm(self) ||
           (!passing && !cadre_replay_has_work(self->links.replay, newest->cut, newest->assigns));
}

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
cadre_recovery_begin_creation(cadre_shard_recovery_t *self)
{
    self->creation_status = 0;
}

uint64_t
cadre_recovery_welcome_generation(const cadre_shard_recovery_t *self, uint32_t shard)
{
    const cadre_place_t *place = &self->places[shard];
    return place->generation + (place->state == CADRE_PLACE_AWAY ? 1 : 0);
}

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
                     path[0] ? " from " : "", path, place->pending);
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
