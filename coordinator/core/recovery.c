#include "coordinator/core/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/status.h"
#include "coordinator/core/coordinator_core.h"

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

static void
end_job(cadre_core_t *core, int status, const char *text)
{
    if (!core->fatal && !core->stopping) {
        core->fatal = status;
        snprintf(core->fatal_text, sizeof(core->fatal_text), "%s", text);
        cadre_effects_note_progress(&core->effects);
    }
}

void
cadre_restore_point_fini(cadre_restore_point_t *self)
{
    free(self->path);
    free(self->assigned);
    *self = (cadre_restore_point_t){.path = NULL};
}

/* --- ready --- */

const cadre_restore_point_t *
cadre_recovery_point(const cadre_core_t *core, uint32_t shard)
{
    return &core->points[core->shards[shard].point];
}

/* Closures since a point that is `at` are at risk. Each counts once in the totals, for however many
 * shards and points that may be: what came since the newest came since the other one too. */
static void
take_risk(cadre_core_t *core, int at)
{
    cadre_restore_point_t *newest = &core->points[0];
    cadre_restore_point_t *before = &core->points[1];
    const cadre_restore_point_t *point = &core->points[at];
    uint64_t count = core->unsaved - point->unsaved - point->risked;
    core->totals.closures_at_risk += count;
    before->risked += count;
    newest->risked = core->unsaved - newest->unsaved;
}

/* Nothing runs again for a shard that was restored. */
static void
tell_loss(cadre_core_t *core, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(core, shard);
    uint64_t closures = core->unsaved - point->unsaved;
    uint64_t assigns = core->assigned[shard] - (point->assigned ? point->assigned[shard] : 0);
    const char *next = closures > 0 && assigns > 0
                           ? "what they pushed to it and what was assigned since the cut is lost"
                       : closures > 0 ? "what they pushed to it since the cut is lost"
                       : assigns > 0  ? "what was assigned to it since the cut is lost"
                                      : "nothing is lost";
    take_risk(core, core->shards[shard].point);
    cadre_effects_log(&core->effects, closures + assigns > 0 ? 'W' : 'I', "ps_restored",
                      "shard=%u cut=%" PRIu64 " generation=%" PRIu64 " closures_at_risk=%" PRIu64
                      " assignments_at_risk=%" PRIu64 " next=\"%s\"",
                      shard, point->cut, core->shards[shard].generation, closures, assigns, next);
}

static void
begin_replay(cadre_core_t *core, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(core, shard);
    cadre_begun_mark_stale(&core->begun);
    if (!core->replay.keeping) {
        tell_loss(core, shard);
        return;
    }
    bool has_work = cadre_replay_has_work(&core->replay, point->cut, point->assigns);
    if (has_work) {
        core->shards[shard].replaying = true;
        cadre_replay_begin(&core->replay, point->cut, point->assigns);
    }
    cadre_effects_log(
        &core->effects, 'I', "ps_restored",
        "shard=%u cut=%" PRIu64 " generation=%" PRIu64 " closures=%zu assignments=%zu "
        "ms=%" PRIu64 " next=\"%s\"",
        shard, point->cut, core->shards[shard].generation, has_work ? core->replay.pass_count : 0,
        has_work ? cadre_replay_pass_assigns(&core->replay) : 0,
        core->effects.now_ms - core->shards[shard].lost_ms,
        has_work ? "they run again, in front of new work" : "nothing is to run again");
}

static void
become_ready(cadre_core_t *core, uint32_t shard)
{
    cadre_place_t *place = &core->shards[shard];
    const cadre_member_t *ps = core->membership.ps[shard];
    bool restored = place->state == CADRE_PLACE_RESTORING;
    cadre_assert(ps); /* a shard whose ps is lost is away */
    set_state(place, CADRE_PLACE_READY);
    place->holder = ps->task.incarnation;
    core->announced += place->generation - place->announced;
    place->announced = place->generation;
    place->deadline_ms = 0;
    place->progress_ms = core->effects.now_ms;
    place->progress_same = 0;
    place->differs_ms = 0;
    if (restored && place->lost_once) {
        core->totals.ps_restored++;
        begin_replay(core, shard);
    } else if (place->lost_once) {
        cadre_effects_log(&core->effects, 'I', "ps_back",
                          "shard=%u generation=%" PRIu64 " ms=%" PRIu64, shard, place->generation,
                          core->effects.now_ms - place->lost_ms);
    }
    cadre_closure_queue_release(&core->queue);
    cadre_replay_release(&core->replay);
    cadre_core_announce_shard(core, shard);
    cadre_effects_note_progress(&core->effects);
}

/* --- restoring --- */

/* `detail`: the shard, and the id of a variable that is being created just now, or 0. */
enum { MAY_REFUSE = 1 << 16 };

/* Whether a shard refuses a variable that does not exist yet. It may have taken it before it was
 * lost, and is not asked by the call any more: so the creation fails. */
static bool
is_creation_refused(cadre_core_t *core, uint64_t id, int status, const cadre_message_t *reply)
{
    if (id == 0 || core->catalogue.variables[id - 1]->created) {
        return false;
    }
    bool is_gone = cadre_catalogue_is_vacant(&core->catalogue, (uint32_t)id);
    bool is_refused = status == CADRE_EFULL || status == CADRE_EDTYPE || status == CADRE_ESHAPE;
    if (is_refused && !is_gone && core->creation_status == 0) {
        core->creation_status = status;
        snprintf(core->creation_text, sizeof(core->creation_text), "%s", reply->reply.text);
    }
    return is_refused || is_gone;
}

static void
on_repaired(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    cadre_core_t *core = context;
    uint64_t shard = detail % MAY_REFUSE;
    cadre_place_t *place = &core->shards[shard];
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (status == CADRE_ECANCELLED || place->state != CADRE_PLACE_RESTORING) {
        return;
    }
    status = answered ? -(int)reply->reply.status : CADRE_EMALFORMED;
    bool may_go_on = status == 0 || is_creation_refused(core, detail / MAY_REFUSE, status, reply);
    if (!may_go_on && place->point == 0 && core->points[1].path) {
        place->begin_anew = true;
        return;
    }
    if (!may_go_on) {
        char text[CADRE_CLOSURE_ERROR_SIZE];
        const char *why = answered ? reply->reply.text : "it answered out of turn";
        snprintf(text, sizeof(text), "ps %" PRIu64 " cannot begin: %s", shard, why);
        if (!core->fatal) { /* one line, however many variables cannot be loaded */
            cadre_effects_log(&core->effects, 'E', "restore_failed",
                              "shard=%" PRIu64 " path=\"%s\" why=\"%.200s\" "
                              "next=\"the job cannot go on\"",
                              shard, cadre_recovery_point(core, (uint32_t)shard)->path, why);
        }
        end_job(core, status, text);
        return;
    }
    cadre_assert(place->pending > 0);
    place->pending--;
}

/* Whether the point, a checkpoint of this session, holds this very variable. */
static bool
holds(const cadre_restore_point_t *point, const cadre_variable_t *variable)
{
    return variable->id <= point->variable_count &&
           (variable->dropped == 0 || variable->dropped > point->drops);
}

bool
cadre_recovery_is_fresh(const cadre_core_t *core, uint32_t shard, const cadre_variable_t *variable)
{
    const cadre_restore_point_t *point = cadre_recovery_point(core, shard);
    bool is_of_session = point->variable_count > 0;
    return is_of_session ? !holds(point, variable) : variable->again;
}

/* Nobody names it who runs again from that point on. */
static bool
is_needless(const cadre_restore_point_t *point, const cadre_variable_t *variable)
{
    return variable->dropped > 0 && variable->dropped <= point->drops;
}

/* What is retired must not get into the next checkpoint; asked after all CREATEs. */
static void
ask_retires(cadre_core_t *core, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(core, shard);
    for (uint64_t i = 0; i < core->drops.retired - core->drops.done; i++) {
        const cadre_variable_t *variable = core->drops.drops[i].variable;
        if (cadre_variable_is_on(variable, shard) && !is_needless(point, variable)) {
            cadre_message_t message = cadre_drops_retire_message(core, variable->id, shard, 0);
            cadre_shard_requests_ask(&core->repairs, shard, &message, on_repaired, core, shard);
            core->shards[shard].pending++;
        }
    }
}

static void
ask_creates(cadre_core_t *core, uint32_t shard)
{
    const cadre_restore_point_t *point = cadre_recovery_point(core, shard);
    for (uint32_t i = 0; i < core->catalogue.variable_count; i++) {
        const cadre_variable_t *variable = core->catalogue.variables[i];
        if (is_needless(point, variable)) {
            continue;
        }
        for (uint32_t part = 0; part < variable->partitions; part++) {
            if (variable->shards[part] != shard) {
                continue;
            }
            uint64_t shape[CADRE_RANK_MAX];
            cadre_message_t message = cadre_catalogue_create_message(variable, part, shape);
            message.incarnation = core->options.incarnation;
            message.epoch = core->options.epoch;
            message.create.generation = core->shards[shard].generation;
            message.create.fresh = cadre_recovery_is_fresh(core, shard, variable);
            uint64_t detail = shard + (variable->created ? 0 : MAY_REFUSE * (uint64_t)variable->id);
            cadre_shard_requests_ask(&core->repairs, shard, &message, on_repaired, core, detail);
            core->shards[shard].pending++;
        }
    }
}

/* The lowest id of which an update may still count on a shard that begins there. */
static uint64_t
window_base(const cadre_core_t *core, const cadre_restore_point_t *point)
{
    uint64_t base = cadre_begun_lowest(&core->begun);
    uint64_t kept = cadre_replay_lowest(&core->replay, point->cut);
    base = kept < base ? kept : base;
    return base > point->cut ? base : point->cut;
}

/* A ps that left its index open may have served another shard: it must not take what is on its way
 * to that one for its own. */
static uint64_t
next_generation(const cadre_core_t *core, uint32_t shard)
{
    bool is_open = core->membership.ps[shard]->task.index == CADRE_INDEX_ANY;
    uint64_t last = core->shards[shard].generation;
    for (uint32_t i = 0; is_open && i < core->options.ps_count; i++) {
        const cadre_place_t *place = &core->shards[i];
        last = place->lost_once && place->generation > last ? place->generation : last;
    }
    return last + 1;
}

static void
begin_restore(cadre_core_t *core, uint32_t shard)
{
    cadre_place_t *place = &core->shards[shard];
    set_state(place, CADRE_PLACE_RESTORING);
    place->generation = next_generation(core, shard);
    place->holder = 0;
    place->begin_anew = false;
    place->pending = 1;
    cadre_shard_requests_clear(&core->repairs, shard);
    cadre_message_t message = cadre_effects_message(&core->effects, CADRE_MESSAGE_RESTORE);
    const cadre_restore_point_t *point = cadre_recovery_point(core, shard);
    place->drops = point->drops;
    message.restore = (cadre_restore_message_t){.path = point->path,
                                                .cut = window_base(core, point),
                                                .generation = place->generation,
                                                .shard = shard,
                                                .ended = core->checkpoint.ended};
    cadre_shard_requests_ask(&core->repairs, shard, &message, on_repaired, core, shard);
    ask_creates(core, shard);
    ask_retires(core, shard);
}

/* Where nothing is kept, a shard that is whole would only lose what the others have. */
static bool
rolls_back(const cadre_core_t *core)
{
    return core->options.recovery == CADRE_RECOVERY_ROLLBACK && core->replay.keeping;
}

/* Whether closures run again, or are about to, that name variables which the newest checkpoint does
 * not hold any more: they were dropped between the two. */
static bool
has_pass_from_before_drops(const cadre_core_t *core)
{
    const cadre_restore_point_t *newest = &core->points[0];
    if (!core->replay.keeping || core->points[1].drops == newest->drops) {
        return false;
    }
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        const cadre_place_t *place = &core->shards[shard];
        if (place->state == CADRE_PLACE_RESTORING && place->point == 1) {
            return true;
        }
    }
    return core->replay.active && core->replay.from < newest->cut;
}

/* What a shard that was lost is to begin with. Those of a rollback begin with the same: once one of
 * them had to begin with the checkpoint before, all do until the next commit. */
static int
first_point(const cadre_core_t *core)
{
    int point = has_pass_from_before_drops(core) ? 1 : 0;
    for (uint32_t shard = 0; rolls_back(core) && shard < core->options.ps_count; shard++) {
        point = core->shards[shard].point > point ? core->shards[shard].point : point;
    }
    return point;
}

/* Restores a shard that is there, or half restored, from `point`. */
static void
take_back(cadre_core_t *core, uint32_t shard, int point)
{
    cadre_place_t *place = &core->shards[shard];
    place->lost_ms = place->state == CADRE_PLACE_READY ? core->effects.now_ms : place->lost_ms;
    place->lost_once = true;
    place->point = point;
    begin_restore(core, shard);
    cadre_core_announce_shard(core, shard); /* away until it is done */
}

/* Everyone else goes back to where `shard` begins. One that is away may come back as it was, with
 * more than that: it is to be restored too. */
static void
roll_back_others(cadre_core_t *core, uint32_t shard)
{
    int point = core->shards[shard].point;
    for (uint32_t other = 0; other < core->options.ps_count; other++) {
        cadre_place_t *place = &core->shards[other];
        bool begins_there = place->state == CADRE_PLACE_RESTORING && place->point == point;
        if (other == shard || begins_there) {
            continue;
        }
        if (place->state == CADRE_PLACE_AWAY) {
            place->holder = 0;
            continue;
        }
        take_back(core, other, point);
    }
}

/* A shard goes back to the checkpoint before, and closures since that one run again for it. Some
 * may name variables that were dropped since: who began without these goes back, too. */
static void
take_back_who_lacks(cadre_core_t *core)
{
    for (uint32_t shard = 0; core->replay.keeping && shard < core->options.ps_count; shard++) {
        const cadre_place_t *place = &core->shards[shard];
        if (place->drops <= core->points[1].drops) {
            continue;
        }
        if (place->state == CADRE_PLACE_AWAY) {
            core->shards[shard].holder = 0;
        } else {
            take_back(core, shard, 1);
        }
    }
}

/* The newest checkpoint cannot be read by this shard: it begins with the one before. */
static void
pass_over(cadre_core_t *core, uint32_t shard)
{
    cadre_place_t *place = &core->shards[shard];
    cadre_effects_log(&core->effects, 'E', "checkpoint_passed_over",
                      "shard=%u path=\"%s\" next=\"it begins with %s, and what was done since %s\"",
                      shard, core->points[0].path,
                      core->points[1].path[0] ? core->points[1].path : "initial values",
                      core->replay.keeping ? "runs again" : "is lost on it");
    core->checkpoint.saved = 0; /* another is due, also where nothing is done any more */
    place->point = 1;
    begin_restore(core, shard);
    if (rolls_back(core)) {
        roll_back_others(core, shard);
    }
    take_back_who_lacks(core);
}

static void
connect(cadre_core_t *core, const cadre_member_t *ps)
{
    cadre_effect_t event = {
        .kind = CADRE_EFFECT_SHARD_MOVED, .shard = ps->index, .incarnation = ps->task.incarnation};
    snprintf(event.text, sizeof(event.text), "%s", ps->address);
    core->shards[ps->index].connected_ms = core->effects.now_ms;
    cadre_shard_requests_connected(&core->requests, ps->index);
    cadre_shard_requests_connected(&core->repairs, ps->index);
    cadre_effects_emit(&core->effects, &event);
}

/* A ps that is a member and leaves requests for values unanswered may have lost the connection that
 * they go over: half of one looks whole from here. Every request can be repeated over another one,
 * but that costs what was under way: so the limit grows with it, and doubles each time. */
static uint64_t
watch_silence(cadre_core_t *core, uint32_t shard)
{
    cadre_place_t *place = &core->shards[shard];
    const cadre_member_t *ps = core->membership.ps[shard];
    size_t size_bytes = 0;
    size_t repair_bytes = 0;
    uint64_t since_ms = cadre_shard_requests_silent_ms(&core->requests, shard, &size_bytes);
    uint64_t repair_ms = cadre_shard_requests_silent_ms(&core->repairs, shard, &repair_bytes);
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
    if (core->effects.now_ms >= since_ms + limit_ms) {
        place->mutes++;
        connect(core, ps);
        since_ms = core->effects.now_ms;
    }
    return since_ms + limit_ms;
}

void
cadre_recovery_on_confused(cadre_core_t *core, uint64_t incarnation)
{
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        cadre_place_t *place = &core->shards[shard];
        place->holder = place->holder == incarnation ? 0 : place->holder;
    }
}

void
cadre_recovery_on_ps(cadre_core_t *core, cadre_member_t *ps, const cadre_hello_message_t *hello)
{
    cadre_place_t *place = &core->shards[ps->index];
    connect(core, ps);
    place->progress_ms = core->effects.now_ms; /* of this process nothing is known */
    place->progress_same = 0;
    bool intact = place->holder == ps->task.incarnation && hello->index == ps->index &&
                  hello->generation == place->generation &&
                  hello->session == core->options.incarnation;
    if (intact) {
        become_ready(core, ps->index);
        return;
    }
    place->holder = 0; /* restored in a turn to come, see cadre_recovery_tick */
}

/* --- lost --- */

void
cadre_recovery_on_lost(cadre_core_t *core, const cadre_member_t *ps, const char *why)
{
    cadre_place_t *place = &core->shards[ps->index];
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
        place->lost_ms = core->effects.now_ms;
        place->deadline_ms = core->catalogue.variable_count > 0
                                 ? core->effects.now_ms + core->options.ps_timeout_ms
                                 : 0;
    }
    place->lost_once = true;
    cadre_core_announce_shard(core, ps->index);
}

/* --- a ps that lives, and its shard does not --- */

enum {
    BEATS_MIN = 3, /* HEARTBEATs that must say the same */
};

void
cadre_recovery_on_heartbeat(cadre_core_t *core, cadre_member_t *ps,
                            const cadre_heartbeat_message_t *heartbeat)
{
    cadre_place_t *place = &core->shards[ps->index];
    uint64_t lease_ms = core->options.lease_ms;
    if (heartbeat->progress != place->progress) {
        place->progress = heartbeat->progress;
        place->progress_ms = core->effects.now_ms;
        place->progress_same = 0;
    }
    bool differs = place->state == CADRE_PLACE_READY &&
                   (heartbeat->shard != ps->index || heartbeat->generation != place->generation);
    if (!differs || place->differs_ms == 0) {
        place->differs_ms = differs ? core->effects.now_ms : 0;
        place->differs_same = 0;
    }
    bool is_stuck =
        ++place->progress_same > BEATS_MIN && core->effects.now_ms >= place->progress_ms + lease_ms;
    bool is_another = differs && ++place->differs_same > BEATS_MIN &&
                      core->effects.now_ms >= place->differs_ms + lease_ms;
    char why[160];
    if (is_stuck) {
        snprintf(why, sizeof(why), "its shard has made no progress for %" PRIu64 " ms",
                 core->effects.now_ms - place->progress_ms);
        cadre_core_say_stop(core, &ps->task, why); /* whoever starts it again gets one that moves */
        cadre_core_lose(core, ps, why, false);
    } else if (is_another) {
        snprintf(why, sizeof(why),
                 "it serves shard %" PRIu64 ", generation %" PRIu64 ", and not generation %" PRIu64
                 " of its own",
                 heartbeat->shard, heartbeat->generation, place->generation);
        cadre_message_t unknown = cadre_effects_message(&core->effects, CADRE_MESSAGE_UNKNOWN_PEER);
        cadre_effects_send(&core->effects, &ps->task, &unknown);
        cadre_core_lose(core, ps, why, false);
    }
}

/* --- a commit --- */

void
cadre_recovery_on_commit(cadre_core_t *core, const cadre_restore_point_t *point)
{
    /* A shard that was restored since the cut, from the point before, has put some at risk. */
    uint64_t told = core->points[0].unsaved + core->points[0].risked;
    uint64_t risked = told > point->unsaved ? told - point->unsaved : 0;
    cadre_restore_point_fini(&core->points[1]);
    core->points[1] = core->points[0];
    core->points[0] = *point;
    core->points[0].risked = risked;
    cadre_replay_commit(&core->replay, point->cut, core->points[1].cut, core->points[1].assigns);
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        core->shards[shard].point = 0;
    }
}

/* --- time --- */

uint64_t
cadre_recovery_tick(cadre_core_t *core)
{
    uint64_t due_ms = UINT64_MAX;
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        cadre_place_t *place = &core->shards[shard];
        const cadre_member_t *ps = core->membership.ps[shard];
        bool committing =
            core->checkpoint.state == CADRE_CHECKPOINT_COMMITTING && !core->checkpoint.overdue;
        if (ps && place->state == CADRE_PLACE_AWAY && !committing) {
            place->point = first_point(core);
            begin_restore(core, shard); /* not before it is known to which cut */
            if (rolls_back(core) && place->lost_once) {
                roll_back_others(core, shard);
            }
        }
        if (place->state == CADRE_PLACE_RESTORING && place->begin_anew) {
            pass_over(core, shard);
        }
        if (place->state == CADRE_PLACE_RESTORING && place->pending == 0) {
            become_ready(core, shard);
        }
        if (!ps && place->deadline_ms && core->effects.now_ms >= place->deadline_ms) {
            char text[CADRE_CLOSURE_ERROR_SIZE];
            snprintf(text, sizeof(text), "%s; nobody has taken its place for %" PRIu64 " s",
                     place->lost_text, core->options.ps_timeout_ms / 1000);
            end_job(core, CADRE_EUNAVAILABLE, text);
            place->deadline_ms = 0;
        }
        if (!ps && place->deadline_ms && place->deadline_ms < due_ms) {
            due_ms = place->deadline_ms;
        }
        uint64_t silence_due_ms = watch_silence(core, shard);
        due_ms = silence_due_ms < due_ms ? silence_due_ms : due_ms;
    }
    cadre_recovery_replay(core);
    return due_ms;
}

/* --- what others ask --- */

bool
cadre_recovery_is_calm(const cadre_core_t *core)
{
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        if (core->shards[shard].state != CADRE_PLACE_READY) {
            return false;
        }
    }
    return !core->replay.active;
}

bool
cadre_recovery_is_settled(const cadre_core_t *core)
{
    const cadre_restore_point_t *newest = &core->points[0];
    bool passing = core->replay.active; /* maybe from the point before the newest */
    return cadre_recovery_is_calm(core) ||
           (!passing && !cadre_replay_has_work(&core->replay, newest->cut, newest->assigns));
}

cadre_shard_target_t
cadre_recovery_repair_target(const cadre_core_t *core, uint32_t shard)
{
    const cadre_member_t *ps = core->membership.ps[shard];
    bool serves = ps && core->shards[shard].state != CADRE_PLACE_AWAY;
    return (cadre_shard_target_t){.task = serves ? &ps->task : NULL,
                                  .generation = core->shards[shard].generation};
}

cadre_shard_target_t
cadre_recovery_target(const cadre_core_t *core, uint32_t shard)
{
    cadre_shard_target_t target = cadre_recovery_repair_target(core, shard);
    const cadre_place_t *place = &core->shards[shard];
    if (place->state != CADRE_PLACE_READY || place->replaying) {
        target.task = NULL;
    }
    return target;
}
