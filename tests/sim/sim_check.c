#include "tests/sim/sim_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/status.h"
#include "common/tensor.h"

void
sim_check_init(sim_check_t *self, uint64_t seed, uint32_t shard_count)
{
    *self = (sim_check_t){.seed = seed, .shard_count = shard_count};
}

void
sim_check_fini(sim_check_t *self)
{
    for (uint32_t i = 0; i < self->known_count; i++) {
        sim_variable_fini(&self->variables[i]);
    }
    for (uint32_t i = 0; i < self->call_count; i++) {
        free(self->calls[i]);
    }
    free(self->calls);
    cadre_u64_map_fini(&self->updates);
}

void
sim_check_fail(const sim_check_t *self, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "sim: seed %" PRIu64 " at %" PRIu64 " ms, event %" PRIu64 ": %s\n", self->seed,
            *self->now_ms, *self->events, text);
    _Exit(1);
}

/* --- variables --- */

void
sim_check_add_variable(sim_check_t *self, const cadre_variable_t *variable)
{
    sim_variable_init(&self->variables[self->known_count++], variable);
}

sim_variable_t *
sim_check_variable(sim_check_t *self, uint64_t id)
{
    if (id < 1 || id > self->known_count) {
        sim_check_fail(self, "variable %" PRIu64 " of %u", id, self->known_count);
    }
    return &self->variables[id - 1];
}

sim_part_t *
sim_check_part(sim_check_t *self, uint64_t variable, uint64_t part)
{
    sim_variable_t *entry = sim_check_variable(self, variable);
    if (part >= entry->part_count) {
        sim_check_fail(self, "part %" PRIu64 " of %s", part, entry->variable->name);
    }
    return &entry->parts[part];
}

uint32_t
sim_check_shards(const sim_check_t *self, uint32_t variables)
{
    uint32_t shards = 0;
    for (uint32_t i = 0; i < self->variable_count; i++) {
        for (uint32_t k = 0; variables >> i & 1 && k < self->variables[i].part_count; k++) {
            shards |= 1U << self->variables[i].parts[k].shard;
        }
    }
    return shards;
}

int64_t
sim_check_chunks(sim_check_t *self, const sim_variable_t *variable, uint32_t part,
                 cadre_chunk_t *const *chunks, size_t count)
{
    const cadre_variable_t *its = variable->variable;
    const sim_part_t *model = &variable->parts[part];
    int64_t size_bytes = (int64_t)cadre_dtype_size(its->dtype);
    int64_t element = model->first;
    int64_t n = count > 0 ? sim_guess(its->dtype, cadre_chunk_data(chunks[0]), element) : 0;
    for (size_t i = 0; i < count; i++) {
        int64_t elements = (int64_t)cadre_chunk_size_bytes(chunks[i]) / size_bytes;
        int64_t bad = sim_differs(its->dtype, cadre_chunk_data(chunks[i]), element, elements, n);
        if (bad >= 0) {
            sim_check_fail(self,
                           "I4: part %u of %s: element %" PRId64 " is not of the version with n = "
                           "%" PRId64,
                           part, its->name, element + bad, n);
        }
        element += elements;
    }
    if (element != model->first + model->count) {
        sim_check_fail(self, "part %u of %s has %" PRId64 " elements, not %" PRId64, part,
                       its->name, element - model->first, model->count);
    }
    return n;
}

void
sim_check_partition(sim_check_t *self, const sim_variable_t *variable, uint32_t part,
                    const cadre_partition_t *partition)
{
    const sim_part_t *model = &variable->parts[part];
    size_t count = cadre_partition_layout(partition)->count;
    cadre_chunk_t **chunks = cadre_calloc(count, sizeof(*chunks));
    cadre_partition_pull(partition, chunks);
    int64_t n = sim_check_chunks(self, variable, part, chunks, count);
    if (n != model->n) {
        sim_check_fail(self, "I2: part %u of %s holds n = %" PRId64 ", its updates make %" PRId64,
                       part, variable->variable->name, n, model->n);
    }
    if (cadre_partition_version(partition) != model->version) {
        sim_check_fail(self, "part %u of %s is at version %" PRIu64 ", not %" PRIu64, part,
                       variable->variable->name, cadre_partition_version(partition),
                       model->version);
    }
    for (size_t i = 0; i < count; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    free(chunks);
}

void
sim_check_read_begins(sim_variable_t *variable)
{
    for (uint32_t i = 0; i < variable->part_count; i++) {
        variable->parts[i].since = variable->parts[i].version;
    }
}

void
sim_check_read(const sim_check_t *self, const sim_variable_t *variable, const void *bytes)
{
    const cadre_variable_t *its = variable->variable;
    size_t size_bytes = cadre_dtype_size(its->dtype);
    for (uint32_t i = 0; i < variable->part_count; i++) {
        const sim_part_t *part = &variable->parts[i];
        const char *from = (const char *)bytes + (size_t)part->first * size_bytes;
        int64_t n = sim_guess(its->dtype, from, part->first);
        if (sim_differs(its->dtype, from, part->first, part->count, n) >= 0) {
            sim_check_fail(self, "I4: part %u of %s as read is not n = %" PRId64, i, its->name, n);
        }
        if (!sim_part_had(part, n)) {
            sim_check_fail(self,
                           "part %u of %s as read was n = %" PRId64 " at no time, it is %" PRId64,
                           i, its->name, n, part->n);
        }
    }
}

/* --- calls --- */

sim_call_t *
sim_check_add_call(sim_check_t *self)
{
    sim_call_t *call = cadre_calloc(1, sizeof(*call));
    call->index = self->call_count++;
    self->calls = cadre_realloc(self->calls, self->call_count, sizeof(sim_call_t *));
    self->calls[call->index] = call;
    return call;
}

/* A closure's id, known for the first time or again. */
static void
know_id(sim_check_t *self, sim_call_t *call, uint64_t id)
{
    if (call->id == id) {
        return;
    }
    if (call->id != 0) {
        sim_check_fail(self, "call %u had id %" PRIu64 " and now has %" PRIu64, call->index,
                       call->id, id);
    }
    call->id = id;
    for (uint32_t i = 0; i < call->reserved; i++) {
        if (cadre_u64_map_put(&self->updates, id + i, call)) {
            sim_check_fail(self, "update id %" PRIu64 " was given to two calls", id + i);
        }
    }
}

sim_call_t *
sim_check_started(sim_check_t *self, const cadre_closure_message_t *closure)
{
    uint32_t index =
        closure->names.count == 1 ? (uint32_t)strtoul(closure->names.items[0], NULL, 10) : 0;
    if (closure->names.count != 1 || index >= self->call_count) {
        sim_check_fail(self, "closure %" PRIu64 " is no call of ours", closure->id);
    }
    sim_call_t *call = self->calls[index];
    know_id(self, call, closure->id);
    if (closure->steps != call->reserved) {
        sim_check_fail(self, "call %u has %u steps, its closure %" PRIu64, index, call->reserved,
                       closure->steps);
    }
    call->attempts++;
    return call;
}

void
sim_check_pushed(sim_check_t *self, const sim_call_t *call, uint32_t step)
{
    uint32_t missing = sim_check_shards(self, call->pushes[step]) & ~call->applied[step];
    for (uint32_t i = 0; call->ended && call->status != 0 && i < self->shard_count; i++) {
        if (call->id + step < self->shards[i].cut) {
            missing &= ~(1U << i); /* given up before a cut: what comes after it is dropped */
        }
    }
    if (missing) {
        sim_check_fail(self,
                       "I7: closure %" PRIu64 " step %u: its worker goes on, shards %x have "
                       "not applied it",
                       call->id, step, missing);
    }
}

static void
check_results(const sim_check_t *self, const sim_call_t *call, const cadre_closure_end_t *end)
{
    const cadre_closure_done_message_t *done = &end->message->closure_done;
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    if (cadre_tensor_list_decode(done->tensors, end->message, CADRE_RESULT_SIZE_MAX, &tensors,
                                 &count) < 0) {
        sim_check_fail(self, "results of closure %" PRIu64 ": %s", call->id, cadre_error_text());
    }
    bool good = !call->wants_results
                    ? count == 0
                    : count == 1 && done->names.count == 1 &&
                          strcmp(done->names.items[0], "call") == 0 &&
                          *(const int64_t *)tensors[0].data == (int64_t)call->index;
    cadre_tensors_fini(&tensors, count);
    if (!good) {
        sim_check_fail(self, "closure %" PRIu64 " has results of another call", call->id);
    }
}

/* How a closure may end. */
static void
check_status(sim_check_t *self, const sim_call_t *call, const cadre_closure_t *closure,
             const cadre_closure_end_t *end)
{
    bool good = false;
    if (end->status == 0) {
        good = call->fail_step == SIM_NEVER && call->attempts > 0;
    } else if (end->status == CADRE_ECANCELLED) {
        good = self->may_cancel;
    } else if (end->status == CADRE_EFUNCTION) {
        good = call->fail_step != SIM_NEVER && call->attempts > 0;
    } else if (end->status == CADRE_EPOISON) {
        good = closure->lost >= CADRE_ATTEMPTS_MAX;
    }
    if (!good) {
        sim_check_fail(self, "call %u, closure %" PRIu64 " ended as %s: %s", call->index, call->id,
                       cadre_status_name(end->status), end->text ? end->text : "");
    }
}

void
sim_check_ended(sim_check_t *self, uint32_t index, const cadre_closure_t *closure,
                const cadre_closure_end_t *end)
{
    sim_call_t *call = self->calls[index];
    if (call->ended) {
        sim_check_fail(self, "closure %" PRIu64 " ended twice", call->id);
    }
    if (closure->id) {
        know_id(self, call, closure->id);
    }
    check_status(self, call, closure, end);
    call->ended = true;
    call->status = end->status;
    self->ended_count++;
    if (end->status == 0) {
        for (uint32_t step = 0; step < call->steps; step++) {
            sim_check_pushed(self, call, step);
        }
        check_results(self, call, end);
    } else if (end->status != CADRE_ECANCELLED && self->first_error == 0) {
        self->first_error = end->status;
        snprintf(self->first_text, sizeof(self->first_text), "%s", end->text);
    }
}

void
sim_check_raised(sim_check_t *self, int status, const char *text)
{
    size_t length = strlen(self->first_text);
    length = length < 700 ? length : 700;
    if (status != self->first_error || (status && strncmp(text, self->first_text, length) != 0)) {
        sim_check_fail(self, "raised %s (%s), the first error was %s (%s)",
                       cadre_status_name(status), text, cadre_status_name(self->first_error),
                       self->first_text);
    }
    for (uint32_t i = 0; status && i < self->call_count; i++) {
        if (self->calls[i]->scheduled && !self->calls[i]->ended) {
            sim_check_fail(self, "an error was raised before closure %" PRIu64 " has ended",
                           self->calls[i]->id);
        }
    }
    self->first_error = 0;
    self->first_text[0] = '\0';
}

/* What the calls make of one part. */
static int64_t
updates_of(const sim_check_t *self, uint32_t variable, const sim_part_t *part)
{
    int64_t updates = 0;
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        for (uint32_t step = 0; step < call->steps; step++) {
            bool finished = call->ended && call->status == 0;
            bool applied = finished || call->applied[step] >> part->shard & 1;
            updates += call->pushes[step] >> variable & 1 && applied;
        }
    }
    return updates;
}

void
sim_check_join(sim_check_t *self)
{
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (!call->ended && call->tag == CADRE_TAG_NONE) {
            sim_check_fail(self, "I2: join returned before call %u, closure %" PRIu64, i, call->id);
        }
    }
    for (uint32_t i = 0; i < self->variable_count; i++) {
        for (uint32_t k = 0; k < self->variables[i].part_count; k++) {
            const sim_part_t *part = &self->variables[i].parts[k];
            int64_t updates = updates_of(self, i, part);
            if (updates != part->updates) {
                sim_check_fail(self,
                               "I2: part %u of %s has %" PRId64 " updates, its calls make %" PRId64,
                               k, self->variables[i].variable->name, part->updates, updates);
            }
        }
    }
}
