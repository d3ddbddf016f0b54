#include "tests/sim/sim_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/split.h"
#include "common/tensor/tensor.h"
#include "tests/sim/sim_values.h"

void
sim_check_init(sim_check_t *self, uint64_t seed, uint32_t shard_count)
{
    *self = (sim_check_t){.seed = seed, .shard_count = shard_count, .staleness_bound = UINT64_MAX};
    self->read.variable = SIM_NEVER;
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
    for (uint32_t i = 0; i < self->state_count; i++) {
        sim_state_destroy(&self->states[i]);
    }
    for (uint32_t i = 0; i < self->life_count; i++) {
        cadre_u64_map_fini(&self->lives[i].updates);
    }
    free(self->calls);
    free(self->states);
    free(self->assignments);
    free(self->cuts);
    free(self->read.parts);
    free(self->read.told);
    free(self->read.rows);
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

/* --- lives --- */

sim_life_t *
sim_check_life(sim_check_t *self)
{
    return &self->lives[self->life_count - 1];
}

static sim_life_t *
life_of(sim_check_t *self, uint64_t epoch)
{
    for (uint32_t i = self->life_count; i > 0; i--) {
        if (self->lives[i - 1].epoch == epoch) {
            return &self->lives[i - 1];
        }
    }
    sim_check_fail(self, "epoch %" PRIu64 " is of no life of the coordinator", epoch);
}

/* An assignment that a part of its variable lacks in the checkpoint is lost. */
static void
lose_assignments(sim_check_t *self, sim_state_t *const *files)
{
    for (uint32_t i = 0; i < self->assignment_count; i++) {
        sim_assignment_t *assignment = &self->assignments[i];
        const sim_variable_t *variable = &self->variables[assignment->variable];
        for (uint32_t k = 0; k < variable->part_count; k++) {
            const sim_state_t *file = files[variable->parts[k].shard];
            sim_taken_t taken = {.assignment = i, .variable = assignment->variable, .part = k};
            assignment->lost = assignment->lost || !file || !sim_state_taken(file, &taken);
        }
    }
}

/* Whether a checkpoint has a call that has finished: one of the program by its number; one of a
 * client, which has none, by its updates. */
static bool
is_held(const sim_check_t *self, const sim_call_t *call, const cadre_sequences_t *held,
        sim_state_t *const *files)
{
    const uint64_t sequence = (uint64_t)call->index + 1;
    bool found = cadre_sequences_next(held, sequence) != sequence;
    bool pushes = false;
    for (uint32_t step = 0; call->client > 0 && step < call->steps; step++) {
        pushes = pushes || call->pushes[step] != 0;
        for (uint32_t i = 0; i < self->shard_count; i++) {
            found = found || (files[i] && sim_state_stamp(files[i], call->index, step) > 0);
        }
    }
    return found || (call->client > 0 && !pushes);
}

/* Of the calls that have finished those are undone that a checkpoint lacks; it may have some that
 * were undone before. */
static void
undo(sim_check_t *self, const cadre_sequences_t *held, sim_state_t *const *files)
{
    for (uint32_t i = 0; i < self->call_count; i++) {
        sim_call_t *call = self->calls[i];
        call->undone =
            !call->lost && call->ended && call->status == 0 && !is_held(self, call, held, files);
    }
}

void
sim_check_go_back(sim_check_t *self, const cadre_sequences_t *held, sim_state_t *const *files)
{
    lose_assignments(self, files);
    undo(self, held, files);
    sim_check_life(self)->missing += sim_check_missing(self, files);
    self->went_back++;
}

void
sim_check_begin_life(sim_check_t *self, uint64_t epoch, uint64_t cut, const cadre_sequences_t *held,
                     sim_state_t *const *files)
{
    uint64_t kept = 0;
    lose_assignments(self, files);
    for (uint32_t i = 0; i < self->call_count; i++) {
        sim_call_t *call = self->calls[i];
        bool is_kept = !call->lost && call->id > 0 && call->id < cut;
        call->lost = !is_kept;
        call->redone =
            call->redone || (call->lost && call->client > 0); /* no client does it again */
        kept += is_kept;
    }
    undo(self, held, files);
    self->redo = 0;
    self->is_deposed = false;
    if (self->life_count == SIM_LIVES_MAX) {
        sim_check_fail(self, "too many lives for this simulation");
    }
    self->lives[self->life_count++] = (sim_life_t){.epoch = epoch, .cut = cut, .scheduled = kept};
    sim_check_life(self)->missing = sim_check_missing(self, files);
    for (uint32_t i = 0; i < self->known_count; i++) {
        self->variables[i].dropped = false;
        self->variables[i].drop = 0;
        self->variables[i].rates = 0;
    }
    self->left_out = 0;
    self->variable_count = 0;
    for (uint32_t i = 0; i < SIM_GROUPS; i++) {
        self->groups[i] = (sim_group_t){.closures = self->groups[i].closures};
    }
    self->cancels_all = false;
    self->read.variable = SIM_NEVER;
}

/* --- variables --- */

void
sim_check_add_variable(sim_check_t *self, const cadre_variable_t *variable,
                       const sim_definition_t *definition)
{
    if (variable->id > self->known_count) {
        sim_variable_init(&self->variables[self->known_count++], variable, definition);
    } else if (!sim_variable_is(&self->variables[variable->id - 1], variable)) {
        sim_check_fail(self, "variable %s lies elsewhere than in the life before", variable->name);
    }
}

/* Where none is short there is no limit; else one has room for what is usual, and the others for
 * one variable that is too large, beside it: for the next if what is left of the one before has
 * gone. */
size_t
sim_check_memory(const sim_check_t *self, uint32_t shard)
{
    if (self->short_shard == SIM_NEVER) {
        return SIZE_MAX;
    }
    return shard == self->short_shard ? SIM_USUAL_SIZE : SIM_USUAL_SIZE + SIM_TOO_LARGE_SIZE;
}

bool
sim_check_is_refused(const sim_check_t *self, uint32_t variable)
{
    bool found = false;
    const sim_variable_t *entry = &self->variables[variable];
    for (uint32_t i = 0; i < entry->part_count && entry->definition.too_large; i++) {
        found = found || entry->parts[i].shard == self->short_shard;
    }
    return found;
}

uint32_t
sim_check_usable(const sim_check_t *self)
{
    uint32_t usable = 0;
    for (uint32_t i = 0; i < self->variable_count; i++) {
        bool is_there = !self->variables[i].given_up && !self->variables[i].dropped;
        usable |= is_there ? 1U << i : 0;
    }
    return usable;
}

bool
sim_check_names_dropped(sim_check_t *self, const cadre_u64s_t *items, size_t size)
{
    bool found = false;
    for (size_t i = 0; i + size <= items->count; i += size) {
        found = found || sim_check_variable(self, items->items[i])->was_dropped;
    }
    return found;
}

sim_variable_t *
sim_check_variable(sim_check_t *self, uint64_t id)
{
    if (id < 1 || id > self->known_count) {
        sim_check_fail(self, "variable %" PRIu64 " of %u", id, self->known_count);
    }
    return &self->variables[id - 1];
}

uint32_t
sim_check_shards(const sim_check_t *self, uint32_t variables)
{
    uint32_t shards = 0;
    for (uint32_t i = 0; i < self->known_count; i++) {
        for (uint32_t k = 0; variables >> i & 1 && k < self->variables[i].part_count; k++) {
            shards |= 1U << self->variables[i].parts[k].shard;
        }
    }
    return shards;
}

int64_t
sim_check_chunks(const sim_check_t *self, const sim_variable_t *variable, uint32_t part,
                 cadre_chunk_t *const *chunks, size_t count)
{
    cadre_dtype_t dtype = variable->definition.dtype;
    const sim_part_t *model = &variable->parts[part];
    int64_t size_bytes = (int64_t)cadre_dtype_size(dtype);
    int64_t element = model->first;
    int64_t n = count > 0 ? sim_guess(dtype, cadre_chunk_data(chunks[0]), element) : 0;
    const sim_number_t number = sim_number(n);
    for (size_t i = 0; i < count; i++) {
        int64_t elements = (int64_t)cadre_chunk_size_bytes(chunks[i]) / size_bytes;
        int64_t bad = sim_differs(dtype, cadre_chunk_data(chunks[i]), element, elements, &number);
        if (bad >= 0) {
            sim_check_fail(self,
                           "I4: part %u of %s: element %" PRId64 " is not of the version with n = "
                           "%" PRId64,
                           part, variable->name, element + bad, n);
        }
        element += elements;
    }
    if (element != model->first + model->count) {
        sim_check_fail(self, "part %u of %s has %" PRId64 " elements, not %" PRId64, part,
                       variable->name, element - model->first, model->count);
    }
    return n;
}

/* --- reading and assigning --- */

void
sim_check_read_begins(sim_check_t *self, uint32_t variable, uint64_t request)
{
    self->read.variable = variable;
    self->read.begun_event = *self->events;
    self->read.request = request;
    self->read.count = 0;
    self->read.is_beside = false;
}

/* Whether a shard has told, since the read began, that a key of a table has this row. */
static bool
was_row_told(const sim_check_t *self, const sim_variable_t *table, uint64_t key, const void *row)
{
    const uint32_t part = cadre_table_shard(key, table->part_count);
    bool told = false;
    for (size_t k = 0; k < self->read.count; k++) {
        told = told || (self->read.parts[k] == part &&
                        sim_table_are(table, &self->read.rows[k], &key, 1, CADRE_F32, row));
    }
    return told;
}

/* Whether a shard has told, since the read began, that a part has these elements. */
static bool
was_told(const sim_check_t *self, uint32_t part, const void *bytes, int64_t first, int64_t count)
{
    const cadre_dtype_t dtype = self->variables[self->read.variable].definition.dtype;
    bool told = false;
    for (size_t k = 0; k < self->read.count; k++) {
        told = told || (self->read.parts[k] == part &&
                        sim_differs(dtype, bytes, first, count, &self->read.told[k]) < 0);
    }
    return told;
}

void
sim_check_rows(sim_check_t *self, const cadre_row_plan_t *plan, const void *bytes)
{
    const sim_variable_t *variable = &self->variables[self->read.variable];
    const cadre_dtype_t dtype = variable->definition.dtype;
    const int64_t row_elements = (int64_t)(variable->row_size_bytes / cadre_dtype_size(dtype));
    for (size_t i = 0; i < plan->count; i++) {
        const char *row = (const char *)bytes + i * variable->row_size_bytes;
        if (variable->dim > 0) {
            if (!was_row_told(self, variable, (uint64_t)plan->ids[i], row)) {
                sim_check_fail(self, "I4: key %" PRIu64 " of %s as read is what no shard said",
                               (uint64_t)plan->ids[i], variable->name);
            }
            continue;
        }
        const int64_t first = plan->ids[i] * row_elements;
        const int64_t part = cadre_split_part(variable->rows, variable->part_count, plan->ids[i]);
        if (!was_told(self, (uint32_t)part, row, first, row_elements)) {
            sim_check_fail(self,
                           "I4: row %" PRId64 " of %s as read begins with %g, no shard said so",
                           plan->ids[i], variable->name, sim_get(dtype, row, 0));
        }
    }
    sim_check_read_ends(self);
}

void
sim_check_read(sim_check_t *self, const void *bytes)
{
    const sim_variable_t *variable = &self->variables[self->read.variable];
    cadre_dtype_t dtype = variable->definition.dtype;
    for (uint32_t i = 0; i < variable->part_count; i++) {
        const sim_part_t *part = &variable->parts[i];
        const char *from = (const char *)bytes + (size_t)part->first * cadre_dtype_size(dtype);
        if (!was_told(self, i, from, part->first, part->count)) {
            sim_check_fail(self, "I4: part %u of %s as read begins with %g, no shard said so", i,
                           variable->name, sim_get(dtype, from, 0));
        }
    }
    sim_check_read_ends(self);
}

void
sim_check_read_ends(sim_check_t *self)
{
    self->read.variable = SIM_NEVER;
}

uint32_t
sim_check_add_assignment(sim_check_t *self, uint32_t variable, cadre_assign_mode_t mode)
{
    self->assignments =
        cadre_realloc(self->assignments, self->assignment_count + 1, sizeof(*self->assignments));
    self->assignments[self->assignment_count] =
        (sim_assignment_t){.variable = variable, .mode = mode, .asked_event = *self->events};
    return self->assignment_count++;
}

/* --- calls --- */

sim_call_t *
sim_check_add_call(sim_check_t *self)
{
    sim_call_t *call = cadre_calloc(1, sizeof(*call));
    call->index = self->call_count++;
    call->life = self->life_count - 1;
    self->calls = cadre_realloc(self->calls, self->call_count, sizeof(sim_call_t *));
    self->calls[call->index] = call;
    return call;
}

const sim_call_t *
sim_check_next_lost(sim_check_t *self)
{
    for (; self->redo < self->call_count; self->redo++) {
        const sim_call_t *call = self->calls[self->redo];
        if (call->lost && !call->redone) {
            return call;
        }
    }
    return NULL;
}

static sim_call_t *
call_of(sim_check_t *self, const cadre_closure_message_t *closure)
{
    uint32_t index =
        closure->names.count > 0 ? (uint32_t)strtoul(closure->names.items[0], NULL, 10) : 0;
    if (closure->names.count == 0 || index >= self->call_count) {
        sim_check_fail(self, "closure %" PRIu64 " is no call of ours", closure->id);
    }
    return self->calls[index];
}

/* A closure's id, known for the first time or again. */
static void
know_id(sim_check_t *self, uint64_t epoch, sim_call_t *call, uint64_t id)
{
    sim_life_t *life = life_of(self, epoch);
    if (call->life != (uint32_t)(life - self->lives) || id < life->cut) {
        sim_check_fail(self, "call %u of life %u has id %" PRIu64 " in another life", call->index,
                       call->life, id);
    }
    if (call->id == id) {
        return;
    }
    if (call->id != 0) {
        sim_check_fail(self, "call %u had id %" PRIu64 " and now has %" PRIu64, call->index,
                       call->id, id);
    }
    call->id = id;
    call->begun_event = *self->events;
    for (uint32_t i = 0; i < call->reserved; i++) {
        if (cadre_u64_map_put(&life->updates, id + i, call)) {
            sim_check_fail(self, "update id %" PRIu64 " was given to two calls", id + i);
        }
    }
}

void
sim_check_begun(sim_check_t *self, uint64_t epoch, const cadre_closure_message_t *closure)
{
    sim_call_t *call = call_of(self, closure);
    know_id(self, epoch, call, closure->id);
    if (closure->steps != call->reserved) {
        sim_check_fail(self, "call %u has %u steps, its closure %" PRIu64, call->index,
                       call->reserved, closure->steps);
    }
}

/* Whether a call of this life has a turn. */
static bool
has_turn(const sim_check_t *self, const sim_call_t *call)
{
    return call->life == self->life_count - 1 && call->scheduled && !call->lost &&
           call->tag == CADRE_TAG_NONE && call->client == 0 && call->group != SIM_GROUP_OF_CLIENT;
}

/* A closure of a bounded job begins no more than the bound behind the oldest that has not
 * ended. Of those between them the ones that have begun or not ended surely have a turn. */
static void
check_bound(const sim_check_t *self, const sim_call_t *call)
{
    uint64_t behind = 0;
    const bool counts_here = has_turn(self, call) && !self->is_deposed;
    for (uint32_t i = 0; i < call->index && counts_here; i++) {
        const sim_call_t *other = self->calls[i];
        const bool counts = !other->ended || (behind > 0 && other->attempts > 0);
        behind += counts && has_turn(self, other);
    }
    if (behind > self->staleness_bound) {
        sim_check_fail(self,
                       "call %u begins %" PRIu64 " behind one that has not ended, the bound is "
                       "%" PRIu64,
                       call->index, behind, self->staleness_bound);
    }
}

sim_call_t *
sim_check_started(sim_check_t *self, uint64_t epoch, const cadre_closure_message_t *closure)
{
    sim_check_begun(self, epoch, closure);
    sim_call_t *call = call_of(self, closure);
    check_bound(self, call);
    call->attempts++;
    return call;
}

bool
sim_chunks_are(const sim_pulled_t *self, cadre_dtype_t dtype, const sim_number_t *number)
{
    const sim_part_t *part = &self->variable->parts[self->part];
    int64_t element = part->first;
    for (size_t i = 0; i < self->chunk_count; i++) {
        size_t size_bytes = cadre_chunk_size_bytes(self->chunks[i]);
        int64_t count = (int64_t)(size_bytes / cadre_dtype_size(dtype));
        if (sim_differs(dtype, cadre_chunk_data(self->chunks[i]), element, count, number) >= 0) {
            return false;
        }
        element += count;
    }
    return element == part->first + part->count;
}

bool
sim_pulled_is(const sim_pulled_t *self, const sim_number_t *number)
{
    return sim_chunks_are(self, self->variable->wire, number);
}

bool
sim_pulled_was(const sim_pulled_t *self, const sim_value_t *value)
{
    if (self->variable->dim == 0) {
        const sim_number_t *was = sim_value_at(value, self->version);
        return was && sim_pulled_is(self, was);
    }
    const sim_rows_t *rows = sim_value_rows_at(value, self->version);
    return rows && self->chunk_count == 1 &&
           sim_table_are_named(self->variable, rows, self->keys, self->variable->wire,
                               cadre_chunk_data(self->chunks[0]));
}

void
sim_check_pulled(sim_check_t *self, uint64_t epoch, const sim_pulled_t *pulled)
{
    const sim_variable_t *variable = pulled->variable;
    uint32_t shard = variable->parts[pulled->part].shard;
    for (uint32_t i = self->state_count; i > 0; i--) {
        sim_state_t *state = self->states[i - 1];
        if (state->shard == shard && state->epoch == epoch &&
            sim_pulled_was(pulled, sim_state_value(state, variable, pulled->part))) {
            return;
        }
    }
    sim_check_fail(self,
                   "I4: a worker has something of %s part %u as version %" PRIu64
                   ", shard %u never had that",
                   variable->name, pulled->part, pulled->version, shard);
}

void
sim_check_part_read(sim_check_t *self, uint64_t epoch, const sim_pulled_t *read)
{
    const cadre_dtype_t dtype = read->variable->definition.dtype;
    for (uint32_t i = self->state_count; i > 0; i--) {
        sim_state_t *state = self->states[i - 1];
        if (state->shard != read->variable->parts[read->part].shard || state->epoch != epoch) {
            continue;
        }
        const sim_value_t *value = sim_state_value(state, read->variable, read->part);
        const sim_number_t *was = sim_value_at(value, read->version);
        if (was && sim_chunks_are(read, dtype, was)) {
            return;
        }
    }
    sim_check_fail(self,
                   "I4: a client reads something of %s part %u as version %" PRIu64
                   ", its shard never had that",
                   read->variable->name, read->part, read->version);
}

void
sim_check_kept(sim_check_t *self, uint64_t epoch, uint64_t generation, const sim_pulled_t *kept)
{
    const sim_variable_t *variable = kept->variable;
    uint32_t shard = variable->parts[kept->part].shard;
    for (uint32_t i = self->state_count; i > 0; i--) {
        sim_state_t *state = self->states[i - 1];
        if (state->shard == shard && state->epoch == epoch && state->generation == generation) {
            const sim_value_t *value = sim_state_value(state, variable, kept->part);
            const sim_number_t *was = sim_value_at(value, kept->version);
            if (was && sim_pulled_is(kept, was)) {
                return;
            }
        }
    }
    sim_check_fail(self,
                   "I4: a worker keeps something of %s part %u as version %" PRIu64
                   " of generation %" PRIu64 ", shard %u never had that",
                   variable->name, kept->part, kept->version, generation, shard);
}

void
sim_check_pushed(sim_check_t *self, const sim_call_t *call, uint32_t step)
{
    uint32_t missing = sim_check_shards(self, call->pushes[step]);
    uint64_t epoch = self->lives[call->life].epoch;
    for (uint32_t i = self->state_count; missing && i > 0; i--) {
        const sim_state_t *state = self->states[i - 1];
        /* What was given up before a cut is dropped when it comes after it. */
        bool given_up = call->ended && call->status != 0 && call->id + step < state->cut;
        bool has =
            sim_state_stamp(state, call->index, step) || sim_state_held(state, call->id + step);
        if (state->epoch == epoch && (given_up || has)) {
            missing &= ~(1U << state->shard);
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
check_results(const sim_check_t *self, sim_call_t *call, const cadre_results_t *results)
{
    cadre_message_t message = {.chunks = results->tensors.chunks,
                               .chunk_count = results->tensors.chunk_count};
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    if (cadre_tensor_list_decode(cadre_tensor_list_items(&results->tensors), &message,
                                 CADRE_RESULT_SIZE_MAX, &tensors, &count) < 0) {
        sim_check_fail(self, "results of closure %" PRIu64 ": %s", call->id, cadre_error_text());
    }
    bool good = !call->wants_results ? count == 0
                                     : count == 1 && results->name_count == 1 &&
                                           strcmp(results->names[0], "call") == 0;
    if (good && call->wants_results) {
        call->stamp = sim_value_stamp(self, call, &tensors[0]);
    }
    cadre_tensors_fini(&tensors, count);
    if (!good) {
        sim_check_fail(self, "closure %" PRIu64 " has results of another call", call->id);
    }
}

/* Whether a call that it takes results of has ended like this. */
static bool
fails_with_source(const sim_check_t *self, const sim_call_t *call, int status)
{
    bool found = false;
    for (uint32_t i = 0; i < call->source_count; i++) {
        const sim_call_t *source = self->calls[call->sources[i]];
        found = found || (source->ended && source->status == status);
    }
    return found && call->id == 0;
}

bool
sim_check_has_failed_source(const sim_check_t *self, const sim_call_t *call)
{
    bool found = false;
    for (uint32_t i = 0; i < call->source_count; i++) {
        const sim_call_t *source = self->calls[call->sources[i]];
        found =
            found || (source->ended && source->status < 0 && source->status != CADRE_ECANCELLED);
    }
    return found;
}

/* Whether the text is of a resource that the call names, which workers were killed over. */
static bool
names_failed(const sim_call_t *call, const char *text)
{
    for (uint32_t id = 1; id <= SIM_RESOURCES_MAX; id++) {
        char part[64];
        snprintf(part, sizeof(part), "resource r%" PRIu32 ": ", id);
        if (call->resources >> (id - 1) & 1 && strstr(text, part) &&
            strstr(text, " workers died while they built it")) {
            return true;
        }
    }
    return false;
}

/* How a closure may end. */
/* Whether the text says that so many attempts, or more, ended as `what`. */
static bool
tells(const char *text, const char *what, unsigned long least)
{
    const char *at = strstr(text, what);
    while (at && at > text && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    return at && strtoul(at, NULL, 10) >= least;
}

/* Whether a call may end cancelled: what it is in was, or has failed. */
static bool
may_cancel(const sim_check_t *self, const sim_call_t *call)
{
    const sim_group_t *group = &self->groups[call->group];
    bool has_failed = group->closures->error < 0 && call->group < SIM_GROUP_GOES_ON;
    return self->cancels_all || group->is_cancelled || has_failed || call->client > 0;
}

/* Whether a call that has ended badly is a failure of its group: it failed, or takes a result of
 * one that ended badly in another group. */
static bool
is_failure(const sim_check_t *self, const sim_call_t *call, int status)
{
    bool found = status < 0 && status != CADRE_ECANCELLED;
    bool was_cancelled = self->cancels_all || self->groups[call->group].is_cancelled;
    for (uint32_t i = 0; i < call->source_count; i++) {
        const sim_call_t *source = self->calls[call->sources[i]];
        found = found || (source->ended && source->status < 0 && source->group != call->group &&
                          !was_cancelled);
    }
    return found;
}

/* Notes an error that is to be raised. Of those of one event the check does not know which was
 * first: it takes either of two. Where a failure in a replay cancels calls of its group, they are
 * told before it is, so that it counts for more than the second of them. */
static void
note_error(const sim_check_t *self, sim_group_t *group, int status, const char *text)
{
    const bool has_room = group->other_error == 0 || group->other_error == CADRE_ECANCELLED;
    if (group->first_error == 0) {
        group->first_error = status;
        group->first_event = *self->events;
        snprintf(group->first_text, sizeof(group->first_text), "%s", text);
    } else if (group->first_event == *self->events && has_room) {
        group->other_error = status;
        snprintf(group->other_text, sizeof(group->other_text), "%s", text);
    }
}

static void
check_status(sim_check_t *self, const sim_call_t *call, const cadre_results_t *end)
{
    bool good = false;
    bool is_broken = call->resources >> (SIM_RESOURCE_BROKEN - 1) & 1;
    if (end->status == 0) {
        good = !is_broken && call->fail_step == SIM_NEVER && call->attempts > 0;
    } else if (end->status == CADRE_ECANCELLED) {
        good = may_cancel(self, call) && !sim_check_has_failed_source(self, call);
    } else if (end->status == CADRE_EFUNCTION) {
        good = call->fail_step != SIM_NEVER && call->attempts > 0;
    } else if (end->status == CADRE_EINVALID) {
        good = is_broken && call->attempts == 0;
    } else if (end->status == CADRE_EPOISON) {
        good = tells(end->text, " attempts died with their workers", CADRE_POISON_DEATHS) ||
               names_failed(call, end->text);
    } else if (end->status == CADRE_ETIMEOUT) {
        good = call->deadline_ms > 0 &&
               tells(end->text, " times, the last time on worker", CADRE_OVERRUNS_MAX);
    } else if (end->status == CADRE_ENOTFOUND || end->status == CADRE_EDATA) {
        good = strstr(end->text, " can run it: ") || strstr(end->text, " cannot run it: ");
    } else if (end->status == CADRE_EFULL) {
        good = (self->few_values && call->source_count > 0 && call->attempts == 0) ||
               (self->full_steps > 0 && strstr(end->text, "step_closures")) ||
               (self->full_tables > 0 && strstr(end->text, "rows_max"));
    }
    good = good || (end->status < 0 && fails_with_source(self, call, end->status));
    if (!good) {
        sim_check_fail(self, "call %u, closure %" PRIu64 " ended as %s: %s", call->index, call->id,
                       cadre_status_name(end->status), end->text ? end->text : "");
    }
}

void
sim_check_ended(sim_check_t *self, sim_call_t *call, const cadre_results_t *end)
{
    if (call->ended) {
        sim_check_fail(self, "closure %" PRIu64 " ended twice", call->id);
    }
    if (end->closure_id) {
        know_id(self, sim_check_life(self)->epoch, call, end->closure_id);
    }
    check_status(self, call, end);
    call->ended = true;
    call->ended_event = *self->events;
    call->status = end->status;
    self->ended_ms = *self->now_ms;
    if (end->status == 0) {
        for (uint32_t step = 0; step < call->steps; step++) {
            sim_check_pushed(self, call, step);
        }
        check_results(self, call, end);
    } else if (call->client == 0 && is_failure(self, call, end->status)) {
        note_error(self, &self->groups[call->group], end->status, end->text);
    }
}

void
sim_check_given_up(sim_check_t *self, uint64_t id, int status)
{
    sim_call_t *call = cadre_u64_map_get(&sim_check_life(self)->updates, id);
    if (!call || !call->ended || call->status != 0) {
        sim_check_fail(self, "closure %" PRIu64 " is given up and had not finished", id);
    }
    call->given_up = true;
    note_error(self, &self->groups[call->client > 0 ? 0 : call->group], status,
               "while it ran again");
}

/* Returns whether what was raised is this error, whose text it begins with. */
static bool
is_error(int raised, const char *raised_text, int status, const char *text)
{
    size_t length = strlen(text);
    length = length < 700 ? length : 700;
    return raised == status && (raised == 0 || strncmp(raised_text, text, length) == 0);
}

void
sim_check_raised(sim_check_t *self, uint32_t group, int status, const char *text)
{
    sim_group_t *of = &self->groups[group];
    bool is_other = of->other_error < 0 && is_error(status, text, of->other_error, of->other_text);
    if (!is_error(status, text, of->first_error, of->first_text) && !is_other) {
        sim_check_fail(self, "group %u raised %s (%s), the first error was %s (%s)", group,
                       cadre_status_name(status), text, cadre_status_name(of->first_error),
                       of->first_text);
    }
    for (uint32_t i = 0; status && group < SIM_GROUP_GOES_ON && i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (call->group == group && call->scheduled && !call->ended && !call->lost) {
            sim_check_fail(self, "an error was raised before closure %" PRIu64 " has ended",
                           call->id);
        }
    }
    of->first_error = 0;
    of->first_text[0] = '\0';
    of->other_error = 0;
}
