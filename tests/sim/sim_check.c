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

static sim_part_t *
part_of(sim_check_t *self, uint64_t variable, uint64_t part)
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

/* --- shards --- */

/* The parts that an update must name: all that its shard holds of the step's variables. */
static size_t
expected_parts(const sim_check_t *self, uint32_t variables, uint32_t shard)
{
    size_t count = 0;
    for (uint32_t i = 0; i < self->variable_count; i++) {
        for (uint32_t k = 0; variables >> i & 1 && k < self->variables[i].part_count; k++) {
            count += self->variables[i].parts[k].shard == shard;
        }
    }
    return count;
}

/* The parts of an update that was applied just now. */
static void
apply(sim_check_t *self, const cadre_push_message_t *push, const cadre_applied_message_t *applied)
{
    uint64_t staleness = 0;
    size_t count = push->partitions.count / 3;
    if (applied->versions.count != count) {
        sim_check_fail(self, "APPLIED tells %zu versions of %zu parts", applied->versions.count,
                       count);
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *items = push->partitions.items + 3 * i;
        sim_part_t *part = part_of(self, items[0], items[1]);
        staleness = part->version - items[2] > staleness ? part->version - items[2] : staleness;
        part->updates++;
        sim_part_change(part, part->n + 1);
        if (applied->versions.items[i] != part->version) {
            sim_check_fail(self, "APPLIED says version %" PRIu64 ", it is %" PRIu64,
                           applied->versions.items[i], part->version);
        }
    }
    if (applied->staleness != staleness) {
        sim_check_fail(self, "APPLIED says staleness %" PRIu64 ", it is %" PRIu64,
                       applied->staleness, staleness);
    }
}

void
sim_check_push(sim_check_t *self, uint32_t shard, const cadre_message_t *question,
               const cadre_message_t *answer)
{
    const cadre_push_message_t *push = &question->push;
    const cadre_applied_message_t *applied = &answer->applied;
    sim_shard_record_t *record = &self->shards[shard];
    sim_call_t *call = cadre_u64_map_get(&self->updates, push->update);
    uint64_t step = call ? push->update - call->id : SIM_STEPS_MAX;
    if (!call || step >= call->steps) {
        sim_check_fail(self, "shard %u: update id %" PRIu64 " belongs to no step", shard,
                       push->update);
    }
    bool seen = call->applied[step] >> shard & 1;
    if (push->partitions.count != 3 * expected_parts(self, call->pushes[step], shard)) {
        sim_check_fail(self, "shard %u: update %" PRIu64 " names %zu parts", shard, push->update,
                       push->partitions.count / 3);
    }
    if (applied->status == (uint64_t)-CADRE_EDUPLICATE) {
        record->duplicate++;
        if (!seen && push->update >= record->cut) {
            sim_check_fail(self, "shard %u: update %" PRIu64 " is a duplicate of nothing", shard,
                           push->update);
        }
        return;
    }
    if (applied->status != 0) {
        sim_check_fail(self, "shard %u refused update %" PRIu64 ": %s", shard, push->update,
                       applied->text);
    }
    if (seen || push->update < record->cut) {
        sim_check_fail(self, "I1: shard %u applied update %" PRIu64 " %s", shard, push->update,
                       seen ? "twice" : "after its cut");
    }
    record->applied++;
    call->applied[step] |= 1U << shard;
    apply(self, push, applied);
}

void
sim_check_assign(sim_check_t *self, uint32_t shard, const cadre_message_t *question,
                 const cadre_message_t *answer)
{
    const cadre_assign_message_t *assign = &question->assign;
    sim_shard_record_t *record = &self->shards[shard];
    if (answer->reply.status != 0) {
        sim_check_fail(self, "shard %u refused an assignment: %s", shard, answer->reply.text);
    }
    if (assign->sequence <= record->sequence) {
        return;
    }
    if (assign->sequence != record->sequence + 1) {
        sim_check_fail(self, "shard %u took assignment %" PRIu64 " after %" PRIu64, shard,
                       assign->sequence, record->sequence);
    }
    record->sequence = assign->sequence;
    sim_variable_t *variable = sim_check_variable(self, assign->variable);
    sim_part_t *part = part_of(self, assign->variable, assign->partition);
    int64_t k = sim_check_chunks(self, variable, (uint32_t)assign->partition, question->chunks,
                                 question->chunk_count);
    sim_part_change(part, assign->mode == CADRE_ASSIGN_SET   ? k
                          : assign->mode == CADRE_ASSIGN_ADD ? part->n + k
                                                             : part->n - k);
}

void
sim_check_values_sent(sim_check_t *self, uint32_t shard, const cadre_message_t *question,
                      const cadre_message_t *answer)
{
    const cadre_values_message_t *values = &answer->values;
    size_t count = question->pull.partitions.count / 3;
    if (values->status != 0 || values->partitions.count != 2 * count) {
        sim_check_fail(self, "shard %u refused a pull: %s", shard, values->text);
    }
    size_t chunk = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *asked = question->pull.partitions.items + 3 * i;
        const uint64_t *got = values->partitions.items + 2 * i;
        const sim_variable_t *variable = sim_check_variable(self, asked[0]);
        const sim_part_t *part = part_of(self, asked[0], asked[1]);
        if (got[0] != part->version || (got[1] == 0 && asked[2] != part->version + 1)) {
            sim_check_fail(self, "shard %u answers version %" PRIu64 " for %" PRIu64, shard, got[0],
                           part->version);
        }
        if (got[1] > 0 && sim_check_chunks(self, variable, (uint32_t)asked[1],
                                           answer->chunks + chunk, got[1]) != part->n) {
            sim_check_fail(self, "I4: shard %u sends another value than version %" PRIu64, shard,
                           got[0]);
        }
        chunk += got[1];
    }
}

void
sim_check_snapshot(sim_check_t *self, uint32_t shard, uint64_t cut)
{
    self->shards[shard].cut = cut;
    self->shards[shard].applied_at_cut = self->shards[shard].applied;
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        for (uint32_t step = 0; step < call->steps; step++) {
            if (call->applied[step] >> shard & 1 && call->id + step >= cut) {
                sim_check_fail(self, "I5: update %" PRIu64 " is in a snapshot at cut %" PRIu64,
                               call->id + step, cut);
            }
        }
        if (call->id && call->id < cut && !call->ended) {
            sim_check_fail(self, "I5: closure %" PRIu64 " has not ended at cut %" PRIu64, call->id,
                           cut);
        }
    }
}

void
sim_check_counters(const sim_check_t *self, uint32_t shard, const uint64_t *counters)
{
    const sim_shard_record_t *record = &self->shards[shard];
    if (counters[CADRE_PS_COUNTER_applied] != record->applied ||
        counters[CADRE_PS_COUNTER_duplicate] != record->duplicate ||
        counters[CADRE_PS_COUNTER_refused] != 0) {
        sim_check_fail(self,
                       "I7: shard %u counts %" PRIu64 " applied, %" PRIu64 " duplicate, %" PRIu64
                       " refused; it answered %" PRIu64 ", %" PRIu64 ", 0",
                       shard, counters[CADRE_PS_COUNTER_applied],
                       counters[CADRE_PS_COUNTER_duplicate], counters[CADRE_PS_COUNTER_refused],
                       record->applied, record->duplicate);
    }
}
