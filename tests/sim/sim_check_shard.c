/* What shards answer, against the model. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/dtype.h"
#include "common/wire/row_list.h"
#include "tests/sim/sim_check.h"

/* --- beginning --- */

/* Says how often keys must be seen in the life that a state is of: what was counted in another one
 * may not count. */
static void
set_admission(const sim_check_t *self, sim_state_t *state)
{
    uint32_t life = self->life_count - 1;
    while (life > 0 && self->lives[life].epoch != state->epoch) {
        life--;
    }
    for (uint32_t i = 0; i < SIM_VARIABLES_MAX; i++) {
        state->admit_after[i] = sim_table_admit_after(self->seed, i, life);
        for (uint32_t k = 0; state->values[i] && k < state->part_counts[i]; k++) {
            if (state->values[i][k].rows) { /* a copy has those of now alone */
                sim_rows_resume(state->values[i][k].rows, state->admit_after[i]);
            }
        }
    }
}

sim_state_t *
sim_check_restored(sim_check_t *self, const sim_state_t *begin, const sim_state_t *file)
{
    sim_state_t *state = file ? sim_state_copy(file)
                              : sim_state_new(begin->shard, begin->epoch, begin->generation, 0);
    for (uint32_t i = 0; i < self->state_count; i++) {
        const sim_state_t *other = self->states[i];
        if (other->shard == begin->shard && other->epoch == begin->epoch &&
            other->generation == begin->generation) {
            sim_check_fail(self, "I1: shard %u begins generation %" PRIu64 " twice", begin->shard,
                           begin->generation);
        }
    }
    state->epoch = begin->epoch;
    state->generation = begin->generation;
    state->cut = begin->cut;
    state->begun_event = *self->events;
    state->compensated = 0;
    state->uncompensated = 0;
    state->sequence = 0;
    state->checkpoint = begin->checkpoint;
    set_admission(self, state);
    self->states = cadre_realloc(self->states, self->state_count + 1, sizeof(sim_state_t *));
    self->states[self->state_count++] = state;
    self->restores++;
    return state;
}

/* --- the fence --- */

/* Whether `question` is of another session or generation than the shard's. */
static bool
is_foreign(const sim_state_t *state, const cadre_message_t *question, uint64_t generation)
{
    return !state || question->epoch != state->epoch || generation != state->generation;
}

bool
sim_check_is_fenced(const sim_check_t *self, const sim_state_t *state,
                    const cadre_message_t *question, uint64_t generation, uint64_t status)
{
    bool foreign = is_foreign(state, question, generation);
    if (foreign != (status == (uint64_t)-CADRE_EFENCED)) {
        sim_check_fail(self,
                       "I1: a shard of epoch %" PRIu64 ", generation %" PRIu64 " answers %s to %s "
                       "of epoch %" PRIu64 ", generation %" PRIu64,
                       state ? state->epoch : 0, state ? state->generation : 0,
                       cadre_status_name(-(int)status), cadre_message_type_text(question->type),
                       question->epoch, generation);
    }
    return foreign;
}

/* --- the open cut --- */

void
sim_check_cut(sim_check_t *self, uint64_t epoch, uint64_t checkpoint, uint64_t cut)
{
    if (sim_check_find_cut(self, epoch, checkpoint)) {
        return;
    }
    self->cuts = cadre_realloc(self->cuts, self->cut_count + 1, sizeof(*self->cuts));
    self->cuts[self->cut_count++] = (sim_cut_of_t){.epoch = epoch,
                                                   .checkpoint = checkpoint,
                                                   .cut = cut,
                                                   .assignments = self->assignment_count,
                                                   .left_out = self->left_out,
                                                   .usable = sim_check_usable(self)};
}

const sim_cut_of_t *
sim_check_find_cut(const sim_check_t *self, uint64_t epoch, uint64_t checkpoint)
{
    for (size_t i = self->cut_count; i > 0; i--) {
        if (self->cuts[i - 1].epoch == epoch && self->cuts[i - 1].checkpoint == checkpoint) {
            return &self->cuts[i - 1];
        }
    }
    return NULL;
}

void
sim_check_open_cut(sim_check_t *self, sim_state_t *state, uint64_t checkpoint, uint64_t cut)
{
    if (checkpoint <= state->checkpoint) {
        return;
    }
    const sim_cut_of_t *made = sim_check_find_cut(self, state->epoch, checkpoint);
    if (!made || made->cut != cut) {
        sim_check_fail(self,
                       "I5: shard %u opens cut %" PRIu64 " of checkpoint %" PRIu64
                       ", which its coordinator has not made",
                       state->shard, cut, checkpoint);
    }
    sim_state_destroy(&state->image);
    state->checkpoint = checkpoint;
    state->image = sim_state_copy(state);
    state->image->cut = cut;
}

void
sim_check_end_cut(sim_state_t *state, uint64_t checkpoint)
{
    if (checkpoint >= state->checkpoint) {
        sim_state_destroy(&state->image);
        state->checkpoint = checkpoint;
    }
}

/* --- updates --- */

/* The parts that an update must name: all that its shard holds of the step's variables. */
static size_t
expected_parts(const sim_check_t *self, uint32_t variables, uint32_t shard)
{
    size_t count = 0;
    for (uint32_t i = 0; i < self->known_count; i++) {
        for (uint32_t k = 0; variables >> i & 1 && k < self->variables[i].part_count; k++) {
            count += self->variables[i].parts[k].shard == shard;
        }
    }
    return count;
}

/* Whether an update that changes these variables names one on the shard that was dropped. */
static bool
names_dropped(const sim_check_t *self, uint32_t variables, uint32_t shard)
{
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < self->known_count; i++) {
        dropped |= (uint32_t)self->variables[i].was_dropped << i;
    }
    return expected_parts(self, variables & dropped, shard) > 0;
}

sim_value_t *
sim_check_value(sim_check_t *self, sim_state_t *state, uint64_t variable, uint64_t part)
{
    const sim_variable_t *entry = sim_check_variable(self, variable);
    if (part >= entry->part_count || entry->parts[part].shard != state->shard) {
        sim_check_fail(self, "shard %u serves part %" PRIu64 " of %s", state->shard, part,
                       entry->name);
    }
    return sim_state_value(state, entry, (uint32_t)part);
}

sim_call_t *
sim_check_call_of(const sim_check_t *self, uint64_t epoch, uint64_t update)
{
    sim_call_t *call = NULL;
    for (uint32_t i = self->life_count; !call && i > 0; i--) {
        if (self->lives[i - 1].epoch == epoch) {
            call = cadre_u64_map_get(&self->lives[i - 1].updates, update);
        }
    }
    return call;
}

uint64_t
sim_check_pushed_keys(sim_check_t *self, const sim_call_t *call, uint64_t update,
                      const uint64_t part[2])
{
    const sim_variable_t *variable = sim_check_variable(self, part[0]);
    return variable->dim > 0 ? sim_table_named(variable, (uint32_t)part[1], SIM_KEYS_PUSHED,
                                               call->index, (uint32_t)(update - call->id))
                             : 0;
}

/* The parts of an update that was applied just now. */
static void
apply(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
      const cadre_message_t *answer, const sim_call_t *call)
{
    const cadre_push_message_t *push = &question->push;
    const cadre_applied_message_t *applied = &answer->applied;
    uint64_t staleness = 0;
    size_t count = push->partitions.count / 3;
    if (applied->versions.count != count) {
        sim_check_fail(self, "APPLIED tells %zu versions of %zu parts", applied->versions.count,
                       count);
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *items = push->partitions.items + 3 * i;
        sim_value_t *value = sim_check_value(self, state, items[0], items[1]);
        if (items[2] > value->version) {
            sim_check_fail(self,
                           "I4: an update of what was pulled as version %" PRIu64
                           " is applied to version %" PRIu64,
                           items[2], value->version);
        }
        const uint64_t keys = sim_check_pushed_keys(self, call, push->update, items);
        const uint64_t stale = value->rows && keys == 0 ? 0 : value->version - items[2];
        staleness = stale > staleness ? stale : staleness;
        const bool is_late = value->now.is_compensated && items[2] < value->version;
        const sim_number_t *pulled = is_late ? sim_value_kept(value, items[2]) : NULL;
        state->compensated += pulled != NULL;
        state->uncompensated += is_late && !pulled;
        self->compensated += pulled != NULL;
        self->uncompensated += is_late && !pulled;
        const uint64_t gone = sim_value_gone(value);
        sim_value_push(value, sim_check_variable(self, items[0]),
                       &(sim_update_t){call->strength, keys, pulled});
        self->row_updates += value->rows != NULL;
        self->keyless += value->rows && keys == 0;
        self->rows_gone += sim_value_gone(value) - gone;
        value->step_version = self->in_series ? value->version : 0;
        if (applied->versions.items[i] != value->version) {
            sim_check_fail(self, "APPLIED says version %" PRIu64 ", it is %" PRIu64,
                           applied->versions.items[i], value->version);
        }
    }
    if (applied->staleness != staleness) {
        sim_check_fail(self, "APPLIED says staleness %" PRIu64 ", it is %" PRIu64,
                       applied->staleness, staleness);
    }
}

/* Whether an update needs more rows of a table than its part may have. */
static bool
needs_rows(sim_check_t *self, sim_state_t *state, const sim_call_t *call,
           const cadre_push_message_t *push)
{
    bool found = false;
    for (size_t i = 0; i < push->partitions.count; i += 3) {
        const uint64_t *part = push->partitions.items + i;
        const sim_value_t *value = sim_check_value(self, state, part[0], part[1]);
        found = found || (value->rows &&
                          sim_rows_refuse(sim_value_rows(value), sim_check_variable(self, part[0]),
                                          sim_check_pushed_keys(self, call, push->update, part)));
    }
    return found;
}

/* What comes from below an open cut is in its image too; compensated for what the image is beside
 * what was pulled of the part itself, be that late there or not. */
static void
apply_to_image(sim_check_t *self, sim_state_t *state, const sim_call_t *call,
               const cadre_push_message_t *push)
{
    sim_state_t *image = state->image;
    image->applied++;
    sim_state_apply(image, call->index, (uint32_t)(push->update - call->id), *self->events);
    for (size_t i = 0; i < push->partitions.count; i += 3) {
        const uint64_t *part = push->partitions.items + i;
        const sim_value_t *value = sim_check_value(self, state, part[0], part[1]);
        const sim_number_t *pulled = sim_value_kept(value, part[2]);
        self->in_images += pulled != NULL;
        sim_value_push(
            sim_check_value(self, image, part[0], part[1]), sim_check_variable(self, part[0]),
            &(sim_update_t){call->strength, sim_check_pushed_keys(self, call, push->update, part),
                            pulled});
    }
}

/* The call that an update belongs to, and its step. */
static sim_call_t *
call_of_update(sim_check_t *self, const cadre_message_t *question, uint64_t *step)
{
    sim_call_t *call = sim_check_call_of(self, question->epoch, question->push.update);
    *step = call ? question->push.update - call->id : SIM_STEPS_MAX;
    if (!call || *step >= call->steps) {
        sim_check_fail(self, "update id %" PRIu64 " belongs to no step", question->push.update);
    }
    return call;
}

void
sim_check_push(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
               const cadre_message_t *answer)
{
    const cadre_push_message_t *push = &question->push;
    const cadre_applied_message_t *applied = &answer->applied;
    uint64_t step = 0;
    if (sim_check_is_fenced(self, state, question, push->generation, applied->status)) {
        if (state) {
            state->refused++;
        }
        return;
    }
    sim_call_t *call = call_of_update(self, question, &step);
    bool seen = sim_state_stamp(state, call->index, (uint32_t)step) > 0 ||
                sim_state_held(state, push->update);
    if (push->parts <= 1 &&
        push->partitions.count != 3 * expected_parts(self, call->pushes[step], state->shard)) {
        sim_check_fail(self, "shard %u: update %" PRIu64 " names %zu parts", state->shard,
                       push->update, push->partitions.count / 3);
    }
    if (applied->status == (uint64_t)-CADRE_EDUPLICATE) {
        state->duplicate++;
        if (!seen && push->update >= state->cut) {
            sim_check_fail(self, "I7: shard %u: update %" PRIu64 " is a duplicate of nothing",
                           state->shard, push->update);
        }
        return;
    }
    /* What is dropped is not there, and room is asked for that the shard can no longer need. */
    bool is_refused =
        applied->status == (uint64_t)-CADRE_ENOTFOUND || applied->status == (uint64_t)-CADRE_ESHAPE;
    if (is_refused && call->ended && names_dropped(self, call->pushes[step], state->shard)) {
        state->refused++;
        return;
    }
    bool is_late =
        applied->status == (uint64_t)-CADRE_ESTATE && push->step > 0 && push->step <= state->step;
    if (is_late && call->ended) {
        state->refused++;
        return;
    }
    const bool is_full = applied->status == (uint64_t)-CADRE_EFULL;
    if (applied->status != 0 && !is_full) {
        sim_check_fail(self, "I7: shard %u refused update %" PRIu64 ": %s", state->shard,
                       push->update, applied->text);
    }
    if (is_full != needs_rows(self, state, call, push)) {
        sim_check_fail(self, "I7: shard %u %s update %" PRIu64 ", for whose rows there is %sroom",
                       state->shard, is_full ? "refused" : "took", push->update,
                       is_full ? "" : "no ");
    }
    if (is_full) {
        state->refused++;
        self->full_tables++;
        return;
    }
    if (seen || push->update < state->cut) {
        sim_check_fail(self, "I1: shard %u applied update %" PRIu64 " %s", state->shard,
                       push->update, seen ? "twice" : "after its cut");
    }
    sim_check_open_cut(self, state, push->checkpoint, push->cut);
    if (push->step > 0) {
        sim_check_hold(self, state, call, question, answer);
        return;
    }
    if (state->image && push->update < state->image->cut) {
        apply_to_image(self, state, call, push);
    }
    if (self->in_series) {
        sim_check_series(self, state, call, push);
    }
    state->applied++;
    self->replayed += call->ended && call->status == 0;
    sim_state_apply(state, call->index, (uint32_t)step, *self->events);
    apply(self, state, question, answer, call);
}

/* --- rows --- */

/* Whether the chunks hold these rows of a part, one after the other, which is that number; none
 * here is larger than a chunk. */
static bool
rows_hold(const sim_variable_t *variable, const cadre_part_rows_t *rows,
          cadre_chunk_t *const *chunks, const sim_number_t *number)
{
    const cadre_dtype_t dtype = variable->definition.dtype;
    const int64_t row_elements = (int64_t)(variable->row_size_bytes / cadre_dtype_size(dtype));
    size_t at = 0;
    for (size_t k = 0; k < rows->count; k++) {
        if (at == cadre_chunk_size_bytes(*chunks)) {
            chunks++;
            at = 0;
        }
        const char *bytes = (const char *)cadre_chunk_data(*chunks) + at;
        const int64_t first = (int64_t)cadre_part_rows_at(rows, k) * row_elements;
        if (sim_differs(dtype, bytes, first, row_elements, number) >= 0) {
            return false;
        }
        at += variable->row_size_bytes;
    }
    return at == cadre_chunk_size_bytes(*chunks);
}

/* --- assignments --- */

/* The keys of one part that an assignment names, in its order, at most SIM_KEYS; their number. */
static size_t
assigned_keys(const cadre_message_t *question, uint32_t part, uint64_t keys[SIM_KEYS])
{
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    size_t count = 0;
    cadre_assert(cadre_row_list_init(&list, &question->assign.rows, question) == 0);
    while (cadre_row_list_next(&list, &rows)) {
        for (size_t i = 0; rows.partition == part && i < rows.count && count < SIM_KEYS; i++) {
            keys[count++] = cadre_part_rows_at(&rows, i);
        }
    }
    return count;
}

static void
take(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
     const sim_taken_t *taken)
{
    int64_t k = taken->assignment;
    const cadre_assign_message_t *assign = &question->assign;
    const cadre_assign_mode_t mode = (cadre_assign_mode_t)assign->mode;
    const sim_variable_t *variable = sim_check_variable(self, assign->variable);
    sim_state_take(state, taken);
    sim_value_t *value = sim_check_value(self, state, assign->variable, taken->part);
    if (variable->dim > 0) {
        sim_rows_t rows = *sim_value_rows(value);
        uint64_t keys[SIM_KEYS];
        sim_rows_assign(&rows, variable, keys, assigned_keys(question, taken->part, keys), mode, k);
        sim_value_change_rows(value, &rows);
        return;
    }
    sim_number_t now = value->now;
    sim_number_assign(&now, mode, k);
    sim_value_change(value, &now);
    value->kept_count = 0; /* what an assignment changes is no delay */
}

/* Whether any of the records lists its rows in the payload. */
static bool
has_ids(const cadre_u64s_t *rows)
{
    bool found = false;
    for (size_t i = 2; i < rows->count; i += 4) {
        found = found || rows->items[i] == CADRE_ROWS_LISTED;
    }
    return found;
}

/* True for an assignment of an infinite number, which must have been refused, however late. */
static bool
check_refused(const sim_check_t *self, const sim_state_t *state, const sim_variable_t *variable,
              const cadre_message_t *question, const cadre_message_t *answer)
{
    const cadre_dtype_t dtype = variable->definition.dtype;
    bool good = true;
    /* Of rows the first chunk may be ids. */
    for (size_t i = 0; i < question->chunk_count; i++) {
        const cadre_chunk_t *chunk = question->chunks[i];
        const size_t count = cadre_chunk_size_bytes(chunk) / cadre_dtype_size(dtype);
        const bool is_ids = i == 0 && has_ids(&question->assign.rows);
        good = good && (is_ids || cadre_dtype_is_finite(dtype, cadre_chunk_data(chunk), count));
    }
    if (!good && answer->reply.status != (uint64_t)-CADRE_ENOTFINITE) {
        sim_check_fail(self, "I7: shard %u answers %s to an assignment of infinity", state->shard,
                       cadre_status_name(-(int)answer->reply.status));
    }
    return !good;
}

/* A shard does not have the variable, which was dropped: it says so, or answers an assignment that
 * is behind others as it did the first time. */
static void
check_dropped(const sim_check_t *self, const sim_state_t *state, const cadre_message_t *question,
              const cadre_message_t *answer)
{
    bool is_again = question->assign.sequence <= state->sequence;
    if (answer->reply.status != (is_again ? 0 : (uint64_t)-CADRE_ENOTFOUND)) {
        sim_check_fail(self, "I7: shard %u answers %s to an assignment of what was dropped",
                       state->shard, cadre_status_name(-(int)answer->reply.status));
    }
}

/* A shard has taken assignment `k` for a part, for the first time or again. */
static void
take_part(sim_check_t *self, sim_state_t *state, const cadre_message_t *question, uint32_t part,
          int64_t k)
{
    const cadre_assign_message_t *assign = &question->assign;
    const sim_variable_t *variable = sim_check_variable(self, assign->variable);
    sim_taken_t taken = {.assignment = (uint32_t)k,
                         .variable = variable->id - 1,
                         .part = part,
                         .stamp = *self->events};
    if (k < 0 || k >= self->assignment_count || self->assignments[k].variable != variable->id - 1 ||
        self->assignments[k].mode != (cadre_assign_mode_t)assign->mode) {
        sim_check_fail(self, "shard %u: n = %" PRId64 " of %s is no assignment of ours",
                       state->shard, k, variable->name);
    }
    bool seen = sim_state_taken(state, &taken) > 0;
    if (assign->sequence <= state->sequence) {
        if (!seen) {
            sim_check_fail(self, "I7: shard %u drops assignment %" PRId64 ", which it lacks",
                           state->shard, k);
        }
        return;
    }
    if (seen) {
        sim_check_fail(self, "I1: shard %u takes assignment %" PRId64 " twice", state->shard, k);
    }
    sim_check_open_cut(self, state, assign->checkpoint, assign->cut);
    const sim_cut_of_t *made =
        state->image ? sim_check_find_cut(self, state->epoch, state->image->checkpoint) : NULL;
    /* One that was asked for since the checkpoint was given up comes as a straggler to a shard that
     * does not know: then this image may not be committed. */
    if (made && (k < made->assignments || assign->checkpoint < state->image->checkpoint)) {
        take(self, state->image, question, &taken);
    }
    take(self, state, question, &taken);
}

/* A shard has taken rows of a table: those of the assignment that they are of. */
static void
take_keys(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
          const sim_variable_t *variable)
{
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    cadre_assert(cadre_row_list_init(&list, &question->assign.rows, question) == 0);
    cadre_chunk_t *const *chunks = question->chunks + list.id_chunks;
    while (cadre_row_list_next(&list, &rows)) {
        const uint32_t part = (uint32_t)rows.partition;
        const int64_t first = sim_table_find(variable, cadre_part_rows_at(&rows, 0));
        const int64_t k =
            sim_guess(CADRE_F32, cadre_chunk_data(*chunks), first * (int64_t)variable->dim);
        sim_rows_t given = sim_rows_first(variable);
        const uint64_t named = sim_table_named(variable, part, SIM_KEYS_ASSIGNED, (uint32_t)k, 0);
        uint64_t keys[SIM_KEYS];
        uint64_t found = 0;
        for (size_t i = 0; i < rows.count && i < SIM_KEYS; i++) {
            keys[i] = cadre_part_rows_at(&rows, i);
            found |= 1ULL << sim_table_find(variable, keys[i]) % SIM_KEYS;
        }
        const bool is_named = found == named && rows.count == (size_t)__builtin_popcountll(named);
        if (is_named) {
            sim_rows_assign(&given, variable, keys, rows.count, CADRE_ASSIGN_SET, k);
        }
        if (!is_named || !sim_table_are(variable, &given, keys, rows.count, CADRE_F32,
                                        cadre_chunk_data(*chunks))) {
            sim_check_fail(self, "shard %u: rows of part %u of %s are no assignment of ours",
                           state->shard, part, variable->name);
        }
        take_part(self, state, question, part, k);
        chunks++;
    }
}

/* A shard has taken rows. The program assigns all rows of a variable or none, in any order: what a
 * part is made of stays one number. */
static void
take_rows(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
          const sim_variable_t *variable)
{
    const cadre_dtype_t dtype = variable->definition.dtype;
    const int64_t row_elements = (int64_t)(variable->row_size_bytes / cadre_dtype_size(dtype));
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    cadre_assert(cadre_row_list_init(&list, &question->assign.rows, question) == 0);
    cadre_chunk_t *const *chunks = question->chunks + list.id_chunks;
    while (cadre_row_list_next(&list, &rows)) {
        const uint32_t part = (uint32_t)rows.partition;
        const int64_t first = (int64_t)cadre_part_rows_at(&rows, 0) * row_elements;
        const int64_t k = sim_guess(dtype, cadre_chunk_data(*chunks), first);
        const sim_number_t given = sim_number(k);
        if (!rows_hold(variable, &rows, chunks, &given) ||
            (int64_t)rows.count * row_elements != variable->parts[part].count) {
            sim_check_fail(self, "shard %u: rows of part %u of %s are no assignment of ours",
                           state->shard, part, variable->name);
        }
        take_part(self, state, question, part, k);
        cadre_chunk_layout_t layout;
        cadre_assert(cadre_chunk_layout_init(&layout, rows.count, variable->row_size_bytes) == 0);
        chunks += layout.count;
    }
}

void
sim_check_assign(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                 const cadre_message_t *answer, bool is_gone)
{
    const cadre_assign_message_t *assign = &question->assign;
    if (sim_check_is_fenced(self, state, question, assign->generation, answer->reply.status)) {
        return;
    }
    if (is_gone) {
        check_dropped(self, state, question, answer);
        return;
    }
    const sim_variable_t *variable = sim_check_variable(self, assign->variable);
    if (check_refused(self, state, variable, question, answer)) {
        return;
    }
    if (answer->reply.status != 0) {
        sim_check_fail(self, "I7: shard %u refused an assignment: %s", state->shard,
                       answer->reply.text);
    }
    if (variable->dim > 0) {
        take_keys(self, state, question, variable);
    } else if (assign->rows.count > 0) {
        take_rows(self, state, question, variable);
    } else {
        const uint32_t part = (uint32_t)assign->partition;
        int64_t k = sim_check_chunks(self, variable, part, question->chunks, question->chunk_count);
        take_part(self, state, question, part, k);
    }
    state->sequence = assign->sequence > state->sequence ? assign->sequence : state->sequence;
}

/* --- values --- */

/* What the user's read is told: what the part is, of a table its rows. */
static void
note_told(sim_check_t *self, const sim_state_t *state, const cadre_message_t *question,
          const uint64_t asked[2], const sim_value_t *value)
{
    sim_read_t *read = &self->read;
    bool ours = read->variable != SIM_NEVER && question->request > read->request &&
                asked[0] == read->variable + 1 && state->epoch == sim_check_life(self)->epoch;
    if (!ours) {
        return;
    }
    if (!read->is_beside) {
        sim_check_complete(self, state, read->begun_event);
    }
    read->parts = cadre_realloc(read->parts, read->count + 1, sizeof(*read->parts));
    read->told = cadre_realloc(read->told, read->count + 1, sizeof(*read->told));
    read->rows = cadre_realloc(read->rows, read->count + 1, sizeof(*read->rows));
    read->parts[read->count] = (uint32_t)asked[1];
    read->rows[read->count] = value->rows ? *sim_value_rows(value) : (sim_rows_t){.rows = 0};
    read->told[read->count++] = value->now;
}

/* The rows of a table that VALUES brings. */
typedef struct {
    const cadre_u64s_t *unchanged; /* bits of rows that do not follow, */
    size_t first;                  /* and the one of the first row */
    cadre_chunk_t *const *chunks;
    size_t chunk_count;
} sent_rows_t;

/* Whether the rows of a table that follow are as they are now. Whether a worker has the others as
 * they are, sim_check_pulled finds out. */
static bool
keys_hold(const sim_variable_t *variable, const cadre_part_rows_t *rows, const sim_value_t *value,
          cadre_dtype_t dtype, const sent_rows_t *sent)
{
    uint64_t keys[SIM_KEYS + 1];
    size_t count = 0;
    for (size_t i = 0; i < rows->count && count < SIM_KEYS; i++) {
        const size_t bit = sent->first + i;
        const bool follows =
            sent->unchanged->count == 0 || !(sent->unchanged->items[bit / 64] >> bit % 64 & 1);
        keys[count] = cadre_part_rows_at(rows, i);
        count += follows;
    }
    if (rows->count > SIM_KEYS || sent->chunk_count != (count > 0)) {
        return false;
    }
    return count == 0 || (cadre_chunk_size_bytes(sent->chunks[0]) ==
                              count * variable->dim * cadre_dtype_size(dtype) &&
                          sim_table_are(variable, sim_value_rows(value), keys, count, dtype,
                                        cadre_chunk_data(sent->chunks[0])));
}

/* Checks an answer with rows: each is of the version that is told, and that is the shard's. */
static void
check_rows_sent(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                const cadre_message_t *answer, bool to_coordinator)
{
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    size_t chunk = 0;
    size_t listed = 0;
    cadre_assert(cadre_row_list_init(&list, &question->pull.rows, question) == 0);
    for (size_t i = 0; cadre_row_list_next(&list, &rows); i++) {
        const uint64_t asked[] = {rows.variable, rows.partition};
        const uint64_t *got = answer->values.partitions.items + 2 * i;
        const sim_value_t *value = sim_check_value(self, state, asked[0], asked[1]);
        const sim_variable_t *variable = sim_check_variable(self, asked[0]);
        const cadre_dtype_t dtype = to_coordinator ? CADRE_F32 : variable->wire;
        const sent_rows_t sent = {.unchanged = &answer->values.unchanged,
                                  .first = listed,
                                  .chunks = answer->chunks + chunk,
                                  .chunk_count = got[1]};
        const bool right = variable->dim > 0
                               ? keys_hold(variable, &rows, value, dtype, &sent)
                               : rows_hold(variable, &rows, answer->chunks + chunk, &value->now);
        if (got[0] != value->version || !right) {
            sim_check_fail(self,
                           "I4: shard %u sends other rows of part %" PRIu64 " of %s than those of "
                           "version %" PRIu64,
                           state->shard, asked[1], variable->name, value->version);
        }
        if (to_coordinator) {
            note_told(self, state, question, asked, value);
        }
        chunk += got[1];
        listed += rows.ids ? rows.count : 0;
    }
}

void
sim_check_values_sent(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                      const cadre_message_t *answer, bool to_coordinator)
{
    const cadre_values_message_t *values = &answer->values;
    const cadre_u64s_t *rows = &question->pull.rows;
    size_t count = rows->count > 0 ? rows->count / 4 : question->pull.partitions.count / 3;
    if (sim_check_is_fenced(self, state, question, question->pull.generation, values->status)) {
        return;
    }
    if (values->status == (uint64_t)-CADRE_ENOTFOUND &&
        (sim_check_names_dropped(self, &question->pull.partitions, 3) ||
         sim_check_names_dropped(self, rows, 4))) {
        return;
    }
    if (values->status != 0 || values->partitions.count != 2 * count) {
        sim_check_fail(self, "I7: shard %u refused a pull: %s", state->shard, values->text);
    }
    if (rows->count > 0) {
        check_rows_sent(self, state, question, answer, to_coordinator);
        return;
    }
    size_t chunk = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *asked = question->pull.partitions.items + 3 * i;
        const uint64_t *got = values->partitions.items + 2 * i;
        const sim_variable_t *variable = sim_check_variable(self, asked[0]);
        sim_value_t *value = sim_check_value(self, state, asked[0], asked[1]);
        if (got[0] != value->version || (got[1] == 0 && asked[2] != value->version + 1)) {
            sim_check_fail(self, "I4: shard %u answers version %" PRIu64 " for %" PRIu64,
                           state->shard, got[0], value->version);
        }
        const sim_pulled_t sent = {.variable = variable,
                                   .part = (uint32_t)asked[1],
                                   .chunks = answer->chunks + chunk,
                                   .chunk_count = got[1]};
        const cadre_dtype_t dtype = to_coordinator ? variable->definition.dtype : variable->wire;
        if (got[1] > 0 && !sim_chunks_are(&sent, dtype, &value->now)) {
            sim_check_fail(self, "I4: shard %u sends another value than version %" PRIu64,
                           state->shard, got[0]);
        }
        if (to_coordinator) {
            note_told(self, state, question, asked, value);
        } else {
            sim_value_keep(value);
        }
        chunk += got[1];
    }
}

/* Whether every number from byte `from` of the slot is what the last update left there. */
static bool
slot_holds(const cadre_partition_snapshot_t *held, const sim_part_t *part, const sim_number_t *last)
{
    int64_t element = part->first;
    for (size_t i = 0; i < held->chunk_count; i++) {
        const cadre_chunk_t *chunk = held->slots[0][i];
        int64_t count = (int64_t)(cadre_chunk_size_bytes(chunk) / sizeof(float));
        if (sim_differs(CADRE_F32, cadre_chunk_data((cadre_chunk_t *)chunk), element, count,
                        last) >= 0) {
            return false;
        }
        element += count;
    }
    return true;
}

void
sim_check_held(sim_check_t *self, sim_state_t *state, const sim_variable_t *variable, uint32_t part,
               const cadre_partition_snapshot_t *held)
{
    const sim_value_t *value = sim_state_value(state, variable, part);
    const sim_pulled_t values = {.variable = variable,
                                 .part = part,
                                 .chunks = held->values,
                                 .chunk_count = held->chunk_count};
    if (!sim_chunks_are(&values, variable->definition.dtype, &value->now) ||
        held->version != value->version) {
        const void *first = cadre_chunk_data(held->values[0]);
        sim_check_fail(self,
                       "I2: shard %u, part %u of %s, which begins with %.9g, is version %" PRIu64
                       "; its updates make n = %" PRId64 " (%.9g), %" PRIu64,
                       state->shard, part, variable->name,
                       sim_get(variable->definition.dtype, first, 0), held->version, value->now.n,
                       (double)value->now.moved[variable->parts[part].first % SIM_WEIGHTS],
                       value->version);
    }
    if (held->steps != value->updates) {
        sim_check_fail(self,
                       "I5: shard %u, part %u of %s counts %" PRIu64 " steps of its optimizer, not "
                       "%" PRIu64,
                       state->shard, part, variable->name, held->steps, value->updates);
    }
    if (variable->has_slot && !slot_holds(held, &variable->parts[part], &value->last)) {
        sim_check_fail(self,
                       "I5: shard %u, part %u of %s: the optimizer's slot is not that of update "
                       "%" PRIu64,
                       state->shard, part, variable->name, value->updates);
    }
}

void
sim_check_table(sim_check_t *self, sim_state_t *state, const sim_variable_t *variable,
                uint32_t part, const cadre_table_t *table)
{
    char text[160];
    const sim_value_t *value = sim_state_value(state, variable, part);
    const cadre_table_figures_t figures = cadre_table_figures(table);
    if (figures.version != value->version || figures.steps != value->updates) {
        sim_check_fail(self,
                       "I2: shard %u, part %u of %s is version %" PRIu64 " after %" PRIu64
                       " updates, not %" PRIu64 " after %" PRIu64,
                       state->shard, part, variable->name, figures.version, figures.steps,
                       value->version, value->updates);
    }
    if (sim_table_differs(variable, sim_value_rows(value), variable->parts[part].keys, table,
                          text)[0]) {
        sim_check_fail(self, "I2: shard %u, part %u of %s: %s", state->shard, part, variable->name,
                       text);
    }
}

/* Whether no process has been given the shard of `state` after it. */
static bool
is_newest(const sim_check_t *self, const sim_state_t *state)
{
    for (uint32_t i = 0; i < self->state_count; i++) {
        const sim_state_t *other = self->states[i];
        if (other->shard == state->shard &&
            (other->epoch > state->epoch ||
             (other->epoch == state->epoch && other->generation > state->generation))) {
            return false;
        }
    }
    return true;
}

void
sim_check_partition(sim_check_t *self, sim_state_t *state, const sim_variable_t *variable,
                    uint32_t part, const cadre_partition_t *partition)
{
    cadre_partition_snapshot_t held;
    cadre_partition_snapshot(partition, &held);
    sim_check_held(self, state, variable, part, &held);
    cadre_partition_snapshot_fini(&held);
    sim_check_rates(self, state, variable, part,
                    cadre_partition_spec(partition)->optimizer.schedule.boundary_count);
}

void
sim_check_rates(const sim_check_t *self, const sim_state_t *state, const sim_variable_t *variable,
                uint32_t part, size_t rates)
{
    /* One that was replaced may live on, and answers what was sent to it, but hears no news. */
    if (rates < variable->rates && is_newest(self, state)) {
        sim_check_fail(self,
                       "I5: shard %u, part %u of %s has %zu changes of its learning rate, not %zu",
                       state->shard, part, variable->name, rates, variable->rates);
    }
}

/* --- control --- */

void
sim_check_table_counters(sim_check_t *self, sim_state_t *state, uint64_t variable,
                         const cadre_u64s_t *counters)
{
    const sim_variable_t *table = sim_check_variable(self, variable);
    const sim_value_t *value = sim_state_value(state, table, state->shard);
    const uint64_t rows = (uint64_t)__builtin_popcountll(sim_value_rows(value)->rows);
    if (counters->count != CADRE_TABLE_COUNTER_COUNT ||
        counters->items[CADRE_TABLE_COUNTER_rows] != rows ||
        counters->items[CADRE_TABLE_COUNTER_evicted] != sim_value_rows(value)->evicted ||
        counters->items[CADRE_TABLE_COUNTER_expired] != sim_value_rows(value)->expired ||
        counters->items[CADRE_TABLE_COUNTER_steps] != value->updates) {
        sim_check_fail(self,
                       "I7: shard %u does not count %" PRIu64 " rows of %s after %" PRIu64
                       " updates, or others that have gone",
                       state->shard, rows, table->name, value->updates);
    }
}

void
sim_check_settled(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                  const cadre_message_t *answer)
{
    uint64_t base = question->settle.base;
    if (!sim_check_is_fenced(self, state, question, question->settle.generation,
                             answer->reply.status)) {
        state->cut = base > state->cut ? base : state->cut;
    }
}

void
sim_check_counters(const sim_check_t *self, const sim_state_t *state, const uint64_t *counters)
{
    if (counters[CADRE_PS_COUNTER_applied] != state->applied ||
        counters[CADRE_PS_COUNTER_duplicate] != state->duplicate ||
        counters[CADRE_PS_COUNTER_refused] != state->refused) {
        sim_check_fail(self,
                       "I7: shard %u counts %" PRIu64 " applied, %" PRIu64 " duplicate, %" PRIu64
                       " refused; it answered %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                       state->shard, counters[CADRE_PS_COUNTER_applied],
                       counters[CADRE_PS_COUNTER_duplicate], counters[CADRE_PS_COUNTER_refused],
                       state->applied, state->duplicate, state->refused);
    }
    if (counters[CADRE_PS_COUNTER_compensated] != state->compensated ||
        counters[CADRE_PS_COUNTER_uncompensated] != state->uncompensated) {
        sim_check_fail(self,
                       "I7: shard %u counts %" PRIu64 " late gradients compensated, %" PRIu64
                       " not; %" PRIu64 " were, %" PRIu64 " were not",
                       state->shard, counters[CADRE_PS_COUNTER_compensated],
                       counters[CADRE_PS_COUNTER_uncompensated], state->compensated,
                       state->uncompensated);
    }
}
