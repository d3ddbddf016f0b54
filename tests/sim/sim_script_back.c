/*
 * sim_script_back - how the user program takes the running job back to a checkpoint.
 */
#include "common/base/status.h"
#include "coordinator/core/checkpoint/checkpoint_manifest.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_script.h"
#include "tests/sim/sim_swarm.h"

enum { READ_MS_MAX = 3000 }; /* that the files of a checkpoint take to be verified */

static cadre_core_t *
core_of(const sim_script_t *self)
{
    return &self->coordinator->core;
}

/* One that is whole and has every variable that there is: the newest, or one before; NULL when
 * there is none. */
static const sim_checkpoint_t *
choose(const sim_script_t *self)
{
    const sim_disk_t *disk = self->coordinator->disk;
    const uint32_t usable = sim_check_usable(self->check);
    const uint64_t skips = self->operations_done % 2;
    const sim_checkpoint_t *chosen = NULL;
    uint64_t seen = 0;
    for (size_t i = disk->count; i > 0 && seen <= skips; i--) {
        const sim_checkpoint_t *at = disk->checkpoints[i - 1];
        if (at->manifest && !at->removed && !at->damaged && (usable & ~at->holds) == 0) {
            chosen = at;
            seen++;
        }
    }
    return chosen;
}

/* Waits until nothing is deleted any more, and spares a checkpoint; true: there is none. */
static bool
spare(sim_script_t *self)
{
    cadre_checkpoint_t *state = &core_of(self)->checkpoint;
    cadre_closure_queue_cut_short(&core_of(self)->queue);
    if (!cadre_closure_queue_is_empty(&core_of(self)->queue) ||
        !cadre_checkpoint_is_at_rest(state)) {
        return false;
    }
    const sim_checkpoint_t *chosen = choose(self);
    if (!chosen) {
        return true;
    }
    const uint64_t wait_ms = sim_between(&self->back_random, 0, READ_MS_MAX);
    self->back_to = chosen->id;
    self->due_ms = self->network->now_ms + wait_ms;
    sim_network_at(self->network, wait_ms, SIM_SCRIPT, SIM_COORDINATOR_NODE, 0);
    cadre_checkpoint_spare(state, chosen->id);
    return false;
}

/* The checkpoint that was spared is there still. */
static const sim_checkpoint_t *
find_spared(const sim_script_t *self)
{
    const sim_disk_t *disk = self->coordinator->disk;
    for (size_t i = disk->count; i > 0; i--) {
        if (disk->checkpoints[i - 1]->id == self->back_to && !disk->checkpoints[i - 1]->removed) {
            return disk->checkpoints[i - 1];
        }
    }
    sim_check_fail(self->check, "checkpoint %llu was spared and is removed",
                   (unsigned long long)self->back_to);
}

static void
begin(sim_script_t *self, const sim_checkpoint_t *to)
{
    sim_state_t *files[SIM_SHARDS_MAX] = {NULL};
    cadre_sequences_t held = {.count = 0};
    for (uint32_t i = 0; i < self->check->shard_count; i++) {
        files[i] = to->files[i].state;
    }
    if (cadre_checkpoint_sequences(to->manifest, &held) < 0) {
        sim_check_fail(self->check, "I5: %s", cadre_error_text());
    }
    sim_check_go_back(self->check, &held, files);
    cadre_restoration_begin(&core_of(self)->restoration,
                            &(cadre_restoration_target_t){to->path, to->id, &held});
    cadre_sequences_fini(&held);
}

/* The checkpoint was read: goes back to it once nothing is under way; true: the program gives it
 * up. */
static bool
begin_when_calm(sim_script_t *self)
{
    const char *what = NULL;
    cadre_core_t *core = core_of(self);
    int status = cadre_restoration_check(&core->restoration, &what);
    if (status == CADRE_EAGAIN && self->network->now_ms < self->patience_ms) {
        return false;
    }
    if (status == 0 && find_spared(self)->damaged) {
        status = cadre_fail(CADRE_ECORRUPT, "it was damaged since"); /* as its reader says */
    }
    if (status == 0) {
        begin(self, find_spared(self));
    }
    cadre_checkpoint_spare(&core->checkpoint, 0);
    self->back_to = 0;
    self->asked = true;
    self->given_up += status < 0;
    return status < 0;
}

bool
sim_script_go_back(sim_script_t *self)
{
    if (self->asked) {
        return cadre_recovery_is_calm(&core_of(self)->recovery);
    }
    if (self->back_to == 0) {
        return spare(self);
    }
    return self->network->now_ms >= self->due_ms && begin_when_calm(self);
}
