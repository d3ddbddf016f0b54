#include "tests/sim/sim_call.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "tests/sim/sim_swarm.h"

enum { DATASET_ROWS = 1000 };

/* Some of `count` things: bits. */
static uint32_t
some(cadre_random_t *random, uint32_t count)
{
    return (uint32_t)cadre_random_next_u64(random) & ((1U << count) - 1);
}

/* One of `count` things, by the call's index. */
static uint32_t
draw_by_index(const sim_check_t *check, const sim_call_t *call, const char *name, uint32_t count)
{
    char what[32];
    snprintf(what, sizeof(what), "%s %u", name, call->index);
    return (uint32_t)sim_swarm_draw(check->seed, what, 0, count - 1);
}

static void
draw_record(cadre_random_t *random, const sim_plan_t *plan, const sim_check_t *check,
            sim_call_t *call)
{
    bool is_long = sim_chance(random, 200);
    call->steps = sim_chance(random, 7000) ? 1 : (uint32_t)sim_between(random, 0, SIM_STEPS_MAX);
    call->reserved = call->steps + (uint32_t)sim_between(random, 0, 5) / 5;
    call->reserved = call->reserved ? call->reserved : 1;
    call->fail_step = sim_chance(random, plan->fails) && call->steps > 0
                          ? (uint32_t)sim_between(random, 0, call->steps - 1)
                          : SIM_NEVER;
    uint32_t usable = sim_check_usable(check);
    call->pulls = sim_chance(random, 6000) ? some(random, check->variable_count) & usable : 0;
    for (uint32_t i = 0; i < call->steps; i++) {
        call->pushes[i] = some(random, check->variable_count) & usable;
    }
    call->compute_ms =
        (uint32_t)sim_between(random, 0, is_long ? plan->long_compute_ms : plan->compute_ms_max);
    call->wants_results = sim_chance(random, 3000);
    call->strength = (uint32_t)sim_between(random, 1, SIM_STRENGTHS);
    call->reads_batch = plan->dataset && sim_chance(random, 2000);
    call->resources =
        plan->resources && sim_chance(random, 3000) ? some(random, SIM_RESOURCE_BROKEN - 1) : 0;
    if (plan->resources && sim_chance(random, plan->fails)) {
        call->resources |= 1U << (SIM_RESOURCE_BROKEN - 1);
    }
    call->group = plan->groups ? draw_by_index(check, call, "group", SIM_GROUPS) : 0;
    call->priority =
        (cadre_priority_t)(plan->priorities ? draw_by_index(check, call, "priority", 3) : 0);
    call->tag = plan->tagged_workers && sim_chance(random, plan->tags)
                    ? (uint32_t)sim_between(random, 0, plan->tagged_workers - 1)
                    : CADRE_TAG_NONE;
}

/* The record of a call that is lost, for the same work again. */
static void
repeat_record(const sim_call_t *lost, uint32_t usable, sim_call_t *call)
{
    uint32_t index = call->index;
    uint32_t life = call->life;
    *call = *lost;
    call->index = index;
    call->life = life;
    call->id = 0;
    call->begun_event = 0;
    call->attempts = 0;
    call->scheduled = false;
    call->ended = false;
    call->ended_event = 0;
    call->status = 0;
    call->given_up = false;
    call->undone = false;
    call->lost = false;
    call->redone = false;
    call->dataset = 0;
    call->source_count = 0; /* what those gave is lost too */
    for (uint32_t i = 0; i < SIM_STEPS_MAX; i++) {
        call->pushes[i] &= usable; /* what was dropped since cannot be used again */
    }
    call->pulls &= usable;
}

cadre_closure_t *
sim_call_new(cadre_random_t *random, const sim_plan_t *plan, sim_check_t *check,
             const cadre_core_t *core)
{
    const sim_call_t *lost = sim_check_next_lost(check);
    sim_call_t *call = sim_check_add_call(check);
    if (lost) {
        check->calls[lost->index]->redone = true;
        repeat_record(lost, sim_check_usable(check), call);
    } else {
        draw_record(random, plan, check, call);
    }
    call->dropped = 0;
    for (uint32_t i = 0; i < check->variable_count; i++) {
        call->dropped |= check->variables[i].dropped ? 1U << i : 0;
    }
    /* those before have been dropped */
    const uint32_t dropped = core->catalogue.function_count - SIM_FUNCTIONS;
    cadre_closure_t *closure =
        cadre_closure_new(dropped + (uint32_t)sim_between(random, 1, SIM_FUNCTIONS));
    closure->results = cadre_results_new();
    closure->results->future = call;
    call->function = closure->function;
    if (core->options.consistency == CADRE_SYNC && call->steps > 1) {
        call->steps = 1; /* as the API asks for */
        call->fail_step = call->fail_step == SIM_NEVER ? SIM_NEVER : 0;
    }
    closure->may_push = call->steps > 0;
    if (call->group == SIM_GROUP_OF_CLIENT && closure->may_push &&
        core->options.consistency != CADRE_ASYNC) {
        call->group = 0; /* a client may not push here */
    }
    closure->steps = call->reserved;
    closure->priority = call->priority;
    closure->variables = core->catalogue.variable_count;
    closure->sequence = (uint64_t)call->index + 1;
    closure->wants_results = call->wants_results;
    closure->names = cadre_calloc(1, sizeof(char *));
    closure->names[0] = cadre_asprintf("%u", call->index);
    closure->name_count = 1;
    int64_t number = call->index;
    cadre_tensor_t tensor = {.dtype = CADRE_I64, .data = &number};
    int status = cadre_tensor_list_encode(&tensor, 1, CADRE_ARGUMENTS_SIZE_MAX, &closure->tensors);
    cadre_assert(status == 0);
    uint32_t datasets = core->catalogue.dataset_count;
    const cadre_dataset_t *dataset = datasets > 0 ? core->catalogue.datasets[datasets - 1] : NULL;
    if (call->reads_batch && dataset && dataset->opened && dataset->status == 0) {
        closure->batches = cadre_calloc(4, sizeof(uint64_t));
        closure->batches[0] = dataset->id;
        call->dataset = dataset->id;
        closure->batches[2] = sim_between(random, 0, DATASET_ROWS - SIM_BATCH_ROWS);
        closure->batches[3] = SIM_BATCH_ROWS;
        closure->batch_items = 4;
        cadre_dataset_note_range(dataset, 1, (int64_t)closure->batches[2], SIM_BATCH_ROWS, closure);
    }
    closure->tag = call->tag;
    call->deadline_ms = call->index % 5 == 3 ? 1000 + 250 * (call->index % 16) : 0;
    closure->deadline_ms = call->deadline_ms;
    call->resources &= (1U << core->catalogue.resource_count) - 1; /* of those that there are */
    closure->resources = cadre_calloc(SIM_RESOURCES_MAX, sizeof(*closure->resources));
    for (uint32_t i = 1; i <= SIM_RESOURCES_MAX; i++) {
        if (call->resources >> (i - 1) & 1) {
            closure->resources[closure->resource_count++] = i;
        }
    }
    return closure;
}

sim_call_t *
sim_call_new_of_client(cadre_random_t *random, const sim_plan_t *plan, sim_check_t *check,
                       uint64_t client)
{
    const uint32_t lasting = plan->drops > 0 ? 1 : UINT32_MAX;
    sim_call_t *call = sim_check_add_call(check);
    draw_record(random, plan, check, call);
    call->client = client;
    call->group = SIM_GROUP_OF_CLIENT;
    call->priority = CADRE_PRIORITY_NORMAL;
    call->tag = CADRE_TAG_NONE;
    call->reads_batch = false;
    call->resources = 0;
    call->wants_results = true; /* a client's does, always */
    call->deadline_ms = call->index % 5 == 3 ? 1000 + 250 * (call->index % 16) : 0;
    call->pulls &= lasting;
    for (uint32_t i = 0; i < call->steps; i++) {
        call->pushes[i] &= lasting;
    }
    return call;
}
