#include "tests/sim/sim_values.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "tests/sim/sim_network.h"

enum {
    TAKES = 3500, /* chance of an argument that is a result of another, in 10,000 */
    FORGETS = 3000,
    BIG = 4000,
};

void
sim_futures_fini(sim_futures_t *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        cadre_results_unref(&self->results[i]);
    }
    self->count = 0;
}

static void
drop(sim_futures_t *self, uint32_t at)
{
    cadre_results_unref(&self->results[at]);
    self->count--;
    self->results[at] = self->results[self->count];
    self->calls[at] = self->calls[self->count];
    self->results[self->count] = NULL;
}

void
sim_futures_link(sim_futures_t *self, cadre_random_t *random, sim_call_t *call,
                 cadre_closure_t *closure)
{
    while (self->count > 0 && call->source_count < SIM_SOURCES_MAX && sim_chance(random, TAKES)) {
        uint32_t at = (uint32_t)sim_between(random, 0, self->count - 1);
        char *name = cadre_asprintf("a%u", self->calls[at]);
        cadre_closure_add_argument(closure, name, sim_chance(random, 5000) ? "call" : NULL,
                                   self->results[at]);
        free(name);
        call->sources[call->source_count++] = self->calls[at];
    }
    sim_futures_check(call, closure);
    if (self->count > 0 && sim_chance(random, FORGETS)) {
        drop(self, (uint32_t)sim_between(random, 0, self->count - 1));
    }
    if (!call->wants_results) {
        return;
    }
    call->is_big = sim_chance(random, BIG);
    if (self->count == SIM_FUTURES_MAX) {
        drop(self, (uint32_t)sim_between(random, 0, self->count - 1));
    }
    self->results[self->count] = cadre_results_ref(closure->results);
    self->calls[self->count++] = call->index;
}

void
sim_futures_check(sim_call_t *call, cadre_closure_t *closure)
{
    bool good = true;
    for (size_t i = 0; i < closure->argument_count; i++) {
        good = good && cadre_closure_argument_check(&closure->arguments[i]) == 0;
    }
    for (size_t i = 0; !good && i < closure->argument_count; i++) {
        cadre_closure_argument_fini(&closure->arguments[i]);
    }
    closure->argument_count = good ? closure->argument_count : 0;
    call->source_count = good ? call->source_count : 0;
}

static size_t
count_of(const sim_call_t *call)
{
    return call->is_big ? SIM_VALUE_BIG_COUNT : SIM_VALUE_COUNT;
}

void
sim_value_make(const sim_call_t *call, int64_t stamp, cadre_tensor_list_t *list)
{
    size_t count = count_of(call);
    int64_t *numbers = cadre_calloc(count, sizeof(*numbers));
    cadre_tensor_t tensor = {
        .dtype = CADRE_I64, .rank = 1, .shape = {(int64_t)count}, .data = numbers};
    numbers[0] = call->index;
    for (size_t i = 1; i < count; i++) {
        numbers[i] = stamp + (int64_t)i - 1;
    }
    int status = cadre_tensor_list_encode(&tensor, 1, CADRE_RESULT_SIZE_MAX, list);
    cadre_assert(status == 0);
    free(numbers);
}

int64_t
sim_value_stamp(const sim_check_t *check, const sim_call_t *call, const cadre_tensor_t *value)
{
    const int64_t *numbers = value->data;
    bool good = value->dtype == CADRE_I64 && value->rank == 1 &&
                value->shape[0] == (int64_t)count_of(call) && numbers[0] == (int64_t)call->index;
    for (int64_t i = 2; good && i < value->shape[0]; i++) {
        good = numbers[i] == numbers[1] + i - 1;
    }
    if (!good) {
        sim_check_fail(check, "closure %" PRIu64 " has results of another call", call->id);
    }
    return numbers[1];
}

void
sim_check_values(sim_check_t *check, const sim_call_t *call, const cadre_tensor_t *tensors,
                 size_t count)
{
    if (count != call->source_count) {
        sim_check_fail(check, "call %u begins with %zu values, it takes %u", call->index, count,
                       call->source_count);
    }
    for (size_t i = 0; i < count; i++) {
        const sim_call_t *source = check->calls[call->sources[i]];
        int64_t stamp = sim_value_stamp(check, source, &tensors[i]);
        if (!source->ended || source->status < 0 || stamp != source->stamp) {
            sim_check_fail(check, "C12: call %u begins with a value of call %u that is not its own",
                           call->index, source->index);
        }
    }
    check->taken += count;
}
