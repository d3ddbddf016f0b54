#include "tests/sim/sim_call.h"

#include <inttypes.h>

#include "common/memory.h"

enum { DATASET_ROWS = 1000 };

/* Some of the variables that exist: bits. */
static uint32_t
some(cadre_random_t *random, uint32_t count)
{
    return (uint32_t)cadre_random_next_u64(random) & ((1U << count) - 1);
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
    call->pulls = sim_chance(random, 6000) ? some(random, check->variable_count) : 0;
    for (uint32_t i = 0; i < call->steps; i++) {
        call->pushes[i] = some(random, check->variable_count);
    }
    call->compute_ms =
        (uint32_t)sim_between(random, 0, is_long ? plan->long_compute_ms : plan->compute_ms_max);
    call->wants_results = sim_chance(random, 3000);
}

cadre_closure_t *
sim_call_new(cadre_random_t *random, const sim_plan_t *plan, sim_check_t *check,
             const cadre_core_t *core)
{
    sim_call_t *call = sim_check_add_call(check);
    draw_record(random, plan, check, call);
    cadre_closure_t *closure = cadre_closure_new((uint32_t)sim_between(random, 1, SIM_FUNCTIONS));
    closure->steps = call->reserved;
    closure->variables = core->catalogue.variable_count;
    closure->wants_results = call->wants_results;
    closure->names = cadre_calloc(1, sizeof(char *));
    closure->names[0] = cadre_asprintf("%u", call->index);
    closure->name_count = 1;
    if (plan->dataset && sim_chance(random, 2000)) {
        closure->batches = cadre_calloc(4, sizeof(uint64_t));
        closure->batches[0] = 1;
        closure->batches[2] = sim_between(random, 0, DATASET_ROWS - 10);
        closure->batches[3] = 10;
        closure->batch_items = 4;
    }
    if (plan->tagged_workers && sim_chance(random, plan->tags)) {
        closure->tag = (uint32_t)sim_between(random, 0, plan->tagged_workers - 1);
    }
    call->tag = closure->tag;
    return closure;
}
