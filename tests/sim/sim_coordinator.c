#include "tests/sim/sim_coordinator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/checkpoint/manifest.h"
#include "common/memory.h"
#include "common/status.h"

enum { STORE_MS_MAX = 60 };

static void
on_ended(void *context, cadre_closure_t *closure, const cadre_closure_end_t *end)
{
    sim_coordinator_t *self = context;
    uint32_t index = (uint32_t)strtoul(closure->names[0], NULL, 10);
    if (end->status != CADRE_ECLOSED) {
        self->check->may_cancel = self->user_cancels || self->core.queue.error < 0;
        sim_check_ended(self->check, index, closure, end);
    }
}

void
sim_coordinator_start(sim_coordinator_t *self, const cadre_core_options_t *options)
{
    cadre_core_options_t mine = *options;
    mine.incarnation = self->task.incarnation;
    mine.ended = on_ended;
    mine.context = self;
    cadre_core_init(&self->core, &mine, self->network->now_ms);
    self->tick_due_ms = UINT64_MAX;
}

void
sim_coordinator_stop(sim_coordinator_t *self)
{
    cadre_core_fini(&self->core);
}

/* --- the store --- */

static void
check_manifest(sim_coordinator_t *self, const cadre_manifest_t *manifest)
{
    if (manifest->cut != self->core.checkpoint.cut ||
        manifest->shard_count != self->check->shard_count) {
        sim_check_fail(self->check, "I5: a manifest of cut %" PRIu64 " for %" PRIu64, manifest->cut,
                       self->core.checkpoint.cut);
    }
    for (uint32_t i = 0; i < manifest->shard_count; i++) {
        sim_check_commit(self->check, i, manifest->id, &manifest->shards[i].state);
    }
}

static void
on_order(sim_coordinator_t *self, const cadre_store_order_t *order)
{
    if (order->kind == CADRE_STORE_ABORT) {
        return;
    }
    uint64_t id = order->checkpoint;
    if (order->kind == CADRE_STORE_OPEN) {
        id = ++self->drafts;
    } else {
        cadre_manifest_t *manifest = order->manifest;
        check_manifest(self, manifest);
        cadre_manifest_fini(manifest);
        free(manifest);
    }
    sim_network_at(self->network, sim_between(self->random, 1, STORE_MS_MAX), SIM_STORED,
                   SIM_COORDINATOR_NODE, id << 2 | order->kind);
}

void
sim_coordinator_stored(sim_coordinator_t *self, uint64_t value)
{
    char path[64];
    cadre_store_answer_t answer = {
        .kind = (cadre_store_order_kind_t)(value & 3), .checkpoint = value >> 2, .text = path};
    if (sim_chance(self->random, self->store_fails)) {
        self->store_failures++;
        answer.status = CADRE_EIO;
        snprintf(path, sizeof(path), "the disk of the simulation is bad");
    } else {
        snprintf(path, sizeof(path), "%s-%" PRIu64,
                 answer.kind == CADRE_STORE_OPEN ? "draft" : "ckpt", answer.checkpoint);
    }
    cadre_core_stored(&self->core, &answer, self->network->now_ms);
}

/* --- events --- */

void
sim_coordinator_turn(sim_coordinator_t *self)
{
    uint64_t now_ms = self->network->now_ms;
    uint64_t due_ms = cadre_core_tick(&self->core, now_ms);
    cadre_core_event_t event;
    while (cadre_core_event(&self->core, &event)) {
        if (event.kind == CADRE_CORE_STORE) {
            on_order(self, &event.store);
        } else if (event.kind == CADRE_CORE_LOG && self->verbose) {
            printf("%8" PRIu64 " log %c %s %s\n", now_ms, event.level, event.name, event.text);
        }
    }
    if (due_ms < self->tick_due_ms || self->tick_due_ms <= now_ms) {
        self->tick_due_ms = due_ms;
        if (due_ms != UINT64_MAX) {
            sim_network_at(self->network, due_ms > now_ms ? due_ms - now_ms : 1, SIM_TICK,
                           SIM_COORDINATOR_NODE, 0);
        }
    }
    if (self->core.fatal) {
        sim_check_fail(self->check, "the job cannot go on: %s", self->core.fatal_text);
    }
    if (self->core.progress) {
        self->core.progress = false;
        sim_network_at(self->network, 0, SIM_SCRIPT, SIM_COORDINATOR_NODE, 0);
    }
}
