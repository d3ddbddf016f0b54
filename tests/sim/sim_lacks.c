#include "tests/sim/sim_lacks.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/status.h"
#include "tests/sim/sim_call.h"
#include "tests/sim/sim_swarm.h"

enum {
    ONE_IN = 4,  /* seeds with such workers */
    TENTHS = 10, /* of its workers, 1 to all */
    ROWS = 1000,
    FEWER = 990,
    HASH = 4711,
    ROW_CHUNKS = 2 * CADRE_MEMORY_PIECE_CHUNKS + 1, /* of rows in memory */
};

static uint64_t
draw(uint64_t seed, const char *what, uint32_t node, uint64_t most)
{
    char name[64];
    snprintf(name, sizeof(name), "%s of %" PRIu32, what, node);
    return sim_swarm_draw(seed, name, 0, most);
}

bool
sim_lacks_anywhere(uint64_t seed)
{
    return sim_swarm_has(seed, "lacks", ONE_IN);
}

sim_lacks_t
sim_lacks_of(uint64_t seed, uint32_t node)
{
    sim_lacks_t lacks = {.functions = 0};
    if (!sim_lacks_anywhere(seed) ||
        draw(seed, "lacks", node, TENTHS - 1) >= sim_swarm_draw(seed, "lacking", 1, TENTHS)) {
        return lacks;
    }
    lacks.functions = (uint32_t)draw(seed, "functions", node, (1 << SIM_FUNCTIONS) - 1);
    lacks.data = (sim_data_t)draw(seed, "data", node, SIM_DATA_FEWER);
    return lacks;
}

uint32_t
sim_slowness_of(uint64_t seed, uint32_t node)
{
    static const uint32_t times[] = {10, 1, 1};
    return sim_swarm_has(seed, "backups", 3) ? times[draw(seed, "slow", node, 2)] : 1;
}

static int
do_nothing(cadre_invocation_t *invocation, void *state)
{
    (void)invocation;
    (void)state;
    return 0;
}

cadre_registry_t *
sim_lacks_registry(const sim_lacks_t *self)
{
    cadre_registry_t *registry = cadre_registry_new();
    for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "f%u", i);
        if (!(self->functions >> i & 1)) {
            cadre_registry_add(registry, name, do_nothing, NULL);
        }
    }
    return registry;
}

static uint64_t
hash_of(sim_data_t data)
{
    return HASH + (uint64_t)data;
}

cadre_row_chunks_t
sim_rows(void)
{
    cadre_row_chunks_t rows = {.features = 1, .label = CADRE_F32};
    for (uint64_t i = 0; i < ROW_CHUNKS; i++) {
        cadre_row_chunks_add(&rows, cadre_chunk_new_copy(&i, sizeof(i)));
    }
    return rows;
}

void
sim_rows_check(const sim_check_t *check, uint32_t node, const cadre_row_chunks_t *rows)
{
    bool is_good = rows->count == ROW_CHUNKS && rows->features == 1 && rows->label == CADRE_F32;
    for (uint64_t i = 0; is_good && i < ROW_CHUNKS; i++) {
        uint64_t number = 0;
        cadre_row_chunks_read(rows, i * sizeof(number), sizeof(number), &number);
        is_good = number == i;
    }
    if (!is_good) {
        sim_check_fail(check, "worker %u opens rows from memory that are not the program's", node);
    }
}

cadre_dataset_ready_message_t
sim_lacks_ready(const sim_lacks_t *self)
{
    if (self->data == SIM_DATA_MISSING) {
        return (cadre_dataset_ready_message_t){.status = (uint64_t)-CADRE_ENOTFOUND,
                                               .text = "no such file in the simulation"};
    }
    return (cadre_dataset_ready_message_t){.rows = self->data == SIM_DATA_FEWER ? FEWER : ROWS,
                                           .features = 4,
                                           .label_dtype = CADRE_I32,
                                           .text = "",
                                           .hash = hash_of(self->data)};
}

void
sim_lacks_check_start(const sim_lacks_t *self, uint32_t node, sim_check_t *check, uint64_t epoch,
                      const cadre_closure_message_t *closure)
{
    sim_life_t *life = sim_check_life(check);
    if (self->functions >> (closure->function - 1) % SIM_FUNCTIONS & 1) {
        sim_check_fail(check, "worker %u runs function %" PRIu64 ", which it has not", node,
                       closure->function);
    }
    if (closure->batches.count == 0 || epoch != life->epoch || check->is_deposed) {
        return;
    }
    uint64_t hash = hash_of(self->data);
    if (self->data == SIM_DATA_MISSING || (life->data_hash && life->data_hash != hash)) {
        sim_check_fail(check, "worker %u reads other rows than those before it", node);
    }
    life->data_hash = hash;
}

static bool
can_run(const cadre_core_t *core, const sim_lacks_t *lacks, const sim_call_t *call)
{
    bool can = !(lacks->functions >> (call->function - 1) % SIM_FUNCTIONS & 1);
    for (uint32_t i = 0; i < core->catalogue.resource_count; i++) {
        const cadre_resource_t *resource = core->catalogue.resources[i];
        bool uses = call->resources >> i & 1;
        can = can && !(uses && lacks->functions >> (resource->call->function - 1) & 1);
    }
    return can && (call->dataset == 0 ||
                   (lacks->data != SIM_DATA_MISSING &&
                    hash_of(lacks->data) == core->catalogue.datasets[call->dataset - 1]->hash));
}

void
sim_lacks_check_unserved(const sim_check_t *check, const cadre_core_t *core, const sim_call_t *call)
{
    for (uint32_t i = 0; i < core->membership.worker_capacity; i++) {
        const cadre_member_t *member = core->membership.workers[i];
        bool is_for =
            member && !member->draining && (call->tag == CADRE_TAG_NONE || call->tag == i);
        if (!is_for) {
            continue;
        }
        const sim_lacks_t lacks = sim_lacks_of(check->seed, member->process);
        if (can_run(core, &lacks, call)) {
            sim_check_fail(check, "closure %" PRIu64 " fails since nobody can run it: node %u can",
                           call->id, member->process);
        }
    }
}
