#include "coordinator/core/catalogue/drops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "coordinator/core/coordinator_core.h"

void
cadre_drops_fini(cadre_drops_t *self)
{
    free(self->drops);
    *self = (cadre_drops_t){.called = 0};
}

uint64_t
cadre_drops_call(cadre_core_t *core, cadre_variable_t *variable)
{
    cadre_drops_t *self = &core->drops;
    cadre_assert(variable->created && variable->dropped == 0);
    size_t count = (size_t)(self->called - self->done);
    self->drops = cadre_realloc(self->drops, count + 1, sizeof(*self->drops));
    self->drops[count] = (cadre_drop_t){.variable = variable,
                                        .barrier = cadre_closure_queue_note_drop(&core->queue)};
    variable->dropped = ++self->called;
    cadre_announcements_add_drop(&core->announcements, variable);
    return variable->dropped;
}

bool
cadre_drops_is_retired(const cadre_core_t *core, const cadre_variable_t *variable)
{
    return variable->dropped > 0 && variable->dropped <= core->drops.retired;
}

/* --- telling the shards --- */

static void
on_told(void *context, uint64_t variable, const cadre_message_t *reply, int status)
{
    cadre_core_t *core = context;
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (answered ? reply->reply.status != 0 : status != CADRE_ECANCELLED) {
        cadre_effects_log(&core->effects, 'E', "variable_not_retired",
                          "variable=%" PRIu64 " why=\"%.200s\"", variable,
                          answered ? reply->reply.text : "a shard answered out of turn");
    }
}

/* A cut that is open holds the variable, and was made before it was retired. */
static bool
has_open_cut(const cadre_core_t *core)
{
    const cadre_checkpoint_t *checkpoint = &core->checkpoint;
    return checkpoint->state == CADRE_CHECKPOINT_CUT ||
           checkpoint->state == CADRE_CHECKPOINT_WRITING;
}

/* --- moving on --- */

static void
retire(cadre_core_t *core, cadre_variable_t *variable)
{
    uint64_t last = has_open_cut(core) ? core->checkpoint.id : 0;
    for (uint32_t shard = 0; shard < core->options.ps_count; shard++) {
        if (cadre_variable_is_on(variable, shard)) {
            cadre_message_t message =
                cadre_recovery_retire_message(&core->recovery, variable->id, shard, last);
            cadre_shard_requests_ask(&core->requests, shard, &message, on_told, core, variable->id);
        }
    }
    cadre_checkpoint_await_no_more(&core->checkpoint, variable->name);
    cadre_catalogue_free_name(&core->catalogue, variable);
    cadre_effects_log(&core->effects, 'I', "variable_dropped", "variable=%s id=%" PRIu32,
                      variable->name, variable->id);
    core->drops.retired++;
    cadre_effects_note_progress(&core->effects);
}

/* The fewest drops before any closure that is kept for a replay. What is kept later has more before
 * it than have retired, so that those only get fewer. */
static uint64_t
fewest_kept(cadre_core_t *core)
{
    cadre_drops_t *self = &core->drops;
    uint64_t forgotten = core->replay.forgotten;
    if (self->seen_retired != self->retired || self->seen_forgotten != forgotten) {
        self->seen_retired = self->retired;
        self->seen_forgotten = forgotten;
        self->fewest = cadre_replay_fewest_drops(&core->replay);
    }
    return self->fewest;
}

/* Whether nobody can name what drop number `number` took, and nothing holds it. */
static bool
is_needless(cadre_core_t *core, uint64_t number)
{
    bool is_in_cut = has_open_cut(core) && core->checkpoint.drops < number;
    return !is_in_cut && fewest_kept(core) >= number;
}

void
cadre_drops_tick(cadre_core_t *core)
{
    cadre_drops_t *self = &core->drops;
    while (self->retired < self->called) {
        const cadre_drop_t *drop = &self->drops[self->retired - self->done];
        if (!cadre_closure_queue_passed_by_all(&core->queue, drop->barrier)) {
            break;
        }
        retire(core, drop->variable);
    }
    size_t done = 0;
    while (self->done + done < self->retired && is_needless(core, self->done + done + 1)) {
        cadre_core_forget_variable(core, self->drops[done++].variable);
    }
    self->done += done;
    if (done > 0) {
        memmove(self->drops, self->drops + done,
                (size_t)(self->called - self->done) * sizeof(*self->drops));
    }
}
