#include "worker/core/closure_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/table_spec.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/split.h"
#include "common/wire/record_list.h"
#include "common/wire/tensor_list.h"

/* Returns a WAITING run of the CLOSURE `message`, which it takes. */
cadre_run_t *
cadre_run_new(cadre_message_t *message, uint64_t now_ms)
{
    cadre_run_t *self = cadre_calloc(1, sizeof(*self));
    cadre_closure_call_init(&self->call, message);
    self->attempt = self->call.message.closure.attempt;
    self->totals.arrived_ms = now_ms;
    return self;
}

/* Frees the run with its message, report, kept later attempt, and what its last pull has left. */
void
cadre_run_destroy(cadre_run_t **self_p)
{
    cadre_run_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_run_end_parts(self);
    uint64_t *versions = NULL;
    for (size_t cursor = 0; (versions = cadre_u64_map_next(&self->pulled, &cursor));) {
        free(versions);
    }
    cadre_u64_map_fini(&self->pulled);
    cadre_outbox_entry_fini(&self->report);
    cadre_message_fini(&self->newer);
    cadre_closure_call_fini(&self->call);
    free(self);
}

uint64_t
cadre_run_id(const cadre_run_t *self)
{
    return cadre_closure_call_id(&self->call);
}

/* Keeps the CLOSURE of a later attempt until this one has ended, in place of one that was kept
 * before. `restores`: how many restores of shards this worker knew of when the CLOSURE came. */
void
cadre_run_keep_newer(cadre_run_t *self, cadre_message_t *message, uint64_t restores)
{
    cadre_run_drop_newer(self);
    self->newer_restores = restores;
    self->newer = *message;
    *message = (cadre_message_t){0};
}

/* Drops the later attempt that is kept, if there is one. */
void
cadre_run_drop_newer(cadre_run_t *self)
{
    cadre_message_fini(&self->newer);
    self->newer = (cadre_message_t){0};
    self->newer_cancelled = false;
}

bool
cadre_run_has_newer(const cadre_run_t *self)
{
    return self->newer.type == CADRE_MESSAGE_CLOSURE;
}

cadre_message_t
cadre_run_take_newer(cadre_run_t *self)
{
    cadre_message_t newer = self->newer;
    self->newer = (cadre_message_t){0};
    return newer;
}

void
cadre_run_set_attempt(cadre_run_t *self, uint64_t attempt, uint64_t restores)
{
    self->attempt = attempt;
    self->restores = restores;
}

void
cadre_run_set_slot(cadre_run_t *self, uint32_t slot)
{
    self->slot = slot;
}

void
cadre_run_load(cadre_run_t *self)
{
    self->loading = true;
}

void
cadre_run_cancel_all(cadre_run_t *self)
{
    cadre_closure_call_cancel(&self->call);
    self->newer_cancelled = cadre_run_has_newer(self);
}

void
cadre_run_report(cadre_run_t *self, const cadre_task_t *coordinator, cadre_message_t *report)
{
    cadre_run_set_state(self, CADRE_RUN_REPORTING);
    cadre_outbox_entry_init(&self->report, coordinator, report);
}

void
cadre_run_note_sent(cadre_run_t *self, uint64_t asked)
{
    self->report_after = asked;
}

/* Changes the state of the run. `allowed` has, for each state, a bit for every state that may
 * follow. */
void
cadre_run_set_state(cadre_run_t *self, cadre_run_state_t state)
{
    static const uint8_t allowed[] = {
        [CADRE_RUN_WAITING] = 1 << CADRE_RUN_QUEUED | 1 << CADRE_RUN_REPORTING,
        [CADRE_RUN_QUEUED] = 1 << CADRE_RUN_COMPUTING | 1 << CADRE_RUN_REPORTING,
        [CADRE_RUN_COMPUTING] =
            1 << CADRE_RUN_PULLING | 1 << CADRE_RUN_PUSHING | 1 << CADRE_RUN_REPORTING,
        [CADRE_RUN_PULLING] = 1 << CADRE_RUN_COMPUTING,
        [CADRE_RUN_PUSHING] = 1 << CADRE_RUN_COMPUTING,
        [CADRE_RUN_REPORTING] = 0,
    };
    cadre_assert(allowed[self->state] & 1 << state);
    self->state = state;
}

/* Drops the references of a part to its chunks. */
static void
drop_chunks(cadre_run_part_t *part)
{
    for (size_t k = 0; k < part->chunk_count; k++) {
        cadre_chunk_unref(&part->chunks[k]);
    }
    free(part->chunks);
    part->chunks = NULL;
    part->chunk_count = 0;
}

/* Frees the parts (partitions with their chunks) of a pull or push that has ended. */
void
cadre_run_end_parts(cadre_run_t *self)
{
    for (size_t i = 0; i < self->part_count; i++) {
        drop_chunks(&self->parts[i]);
        free(self->parts[i].ages);
    }
    free(self->parts);
    self->parts = NULL;
    self->part_count = 0;
    self->pending = 0;
}

/* Appends a part for a partition of a variable, or for some of its rows. */
static void
add_part(cadre_run_t *self, size_t item, const cadre_wanted_t *wanted, uint32_t partition,
         const cadre_rows_t *rows)
{
    /* Doubles the room when it is full, that is, when the count is a power of two, or 0. */
    if ((self->part_count & (self->part_count - 1)) == 0) {
        const size_t room = self->part_count ? 2 * self->part_count : 1;
        self->parts = cadre_realloc(self->parts, room, sizeof(*self->parts));
    }
    self->parts[self->part_count++] =
        (cadre_run_part_t){.variable = wanted->variable,
                           .item = item,
                           .partition = partition,
                           .shard = wanted->variable->shards[partition],
                           .ids = rows ? rows->ids : NULL,
                           .id_count = rows ? rows->count : 0};
}

/* Returns how many rows of a variable one part of a pull may have, so that its values fit into a
 * message; a larger row travels alone. */
static size_t
rows_of_a_part(const cadre_variable_entry_t *variable)
{
    const size_t fitting = CADRE_ROWS_SIZE_MAX / variable->wire_row_size_bytes;
    const size_t most = fitting < CADRE_ROWS_MAX ? fitting : CADRE_ROWS_MAX;
    return most > 0 ? most : 1;
}

/* Returns the end of the rows of partition `k` among those that are wanted, from number `at` on. */
static size_t
end_of_partition(const cadre_wanted_t *wanted, uint32_t k, size_t at)
{
    const cadre_variable_entry_t *variable = wanted->variable;
    const cadre_rows_t *rows = wanted->rows;
    if (variable->is_table) {
        while (at < rows->count && cadre_table_shard(rows->ids[at], variable->partitions) == k) {
            at++;
        }
        return at;
    }
    const uint64_t end =
        (uint64_t)cadre_split_first(variable->rows, variable->partitions, (int64_t)k + 1);
    while (at < rows->count && rows->ids[at] < end) {
        at++;
    }
    return at;
}

/* Appends the parts of a counted table of which an update has no key. */
static void
add_keyless(cadre_run_t *self, size_t item, const cadre_wanted_t *wanted)
{
    size_t at = 0;
    for (uint32_t k = 0; k < wanted->variable->partitions; k++) {
        const size_t end = end_of_partition(wanted, k, at);
        if (end == at) {
            add_part(self, item, wanted, k, NULL);
        }
        at = end;
    }
}

/* Appends the parts of some rows of a variable: for each partition that has any, as many as are
 * needed with `rows_max` rows each. */
static void
add_rows(cadre_run_t *self, size_t item, const cadre_wanted_t *wanted, size_t rows_max)
{
    const cadre_variable_entry_t *variable = wanted->variable;
    const uint64_t *ids = wanted->rows->ids;
    size_t at = 0;
    for (uint32_t k = 0; k < variable->partitions && at < wanted->rows->count; k++) {
        const size_t end = end_of_partition(wanted, k, at);
        while (at < end) {
            const size_t count = end - at < rows_max ? end - at : rows_max;
            const cadre_rows_t rows = {.ids = ids + at, .count = count};
            add_part(self, item, wanted, k, &rows);
            at += count;
        }
    }
    cadre_assert(at == wanted->rows->count); /* slots check ids before they pull */
}

/* Gives the run the parts of one variable, or of some of its rows, no chunks yet: side by side, in
 * the order of partitions and rows. */
static void
add_parts(cadre_run_t *self, size_t item, const cadre_wanted_t *wanted, size_t rows_max)
{
    if (wanted->rows) {
        add_rows(self, item, wanted, rows_max);
        return;
    }
    for (uint32_t k = 0; k < wanted->variable->partitions; k++) {
        add_part(self, item, wanted, k, NULL);
    }
}

void
cadre_run_begin_pull(cadre_run_t *self, const cadre_wanted_t *wanted, size_t count)
{
    cadre_assert(!self->parts);
    self->status = 0;
    for (size_t i = 0; i < count; i++) {
        add_parts(self, i, &wanted[i], rows_of_a_part(wanted[i].variable));
    }
    self->item_count = count;
}

bool
cadre_run_part_is_keyless(const cadre_run_part_t *self)
{
    return self->variable->is_table && !self->ids;
}

cadre_chunk_layout_t
cadre_run_part_layout(const cadre_run_part_t *self)
{
    if (cadre_run_part_is_keyless(self)) {
        return (cadre_chunk_layout_t){.count = 0};
    }
    return self->ids ? cadre_variable_entry_rows_layout(self->variable, self->id_count)
                     : cadre_variable_entry_layout(self->variable, self->partition);
}

/* Drops the reference that a view of a gradient has to the chunk of the whole gradient. */
static void
release_parent(void *owner)
{
    cadre_chunk_t *parent = owner;
    cadre_chunk_unref(&parent);
}

/* Gives a part chunk `at` of its own: a copy of the ids from number `first` on, as many as a chunk
 * takes. The slot uses its memory again while the message may still be sent. */
static void
copy_ids(cadre_run_part_t *part, size_t at, size_t first)
{
    const size_t most = CADRE_CHUNK_SIZE_MAX / sizeof(*part->ids);
    const size_t left = part->id_count - first;
    part->chunks[at] =
        cadre_chunk_new_copy(part->ids + first, (left < most ? left : most) * sizeof(*part->ids));
}

/* Gives a part its chunks: those of the ids, where it is some rows, and those of the gradient,
 * whose rows of this part begin at `offset`. These are views, each with a reference to `gradient`;
 * nothing is copied. */
static void
cut(cadre_run_part_t *part, cadre_chunk_t *gradient, size_t offset)
{
    const cadre_chunk_layout_t layout = cadre_run_part_layout(part);
    const size_t most = CADRE_CHUNK_SIZE_MAX / sizeof(*part->ids);
    const size_t id_chunks = (part->id_count + most - 1) / most;
    char *bytes = (char *)cadre_chunk_data(gradient) + offset;
    part->chunk_count = id_chunks + layout.count;
    part->chunks = cadre_calloc(part->chunk_count, sizeof(cadre_chunk_t *));
    for (size_t k = 0; k < id_chunks; k++) {
        copy_ids(part, k, k * most);
    }
    for (size_t k = 0; k < layout.count; k++) {
        part->chunks[id_chunks + k] = cadre_chunk_new_foreign(
            bytes + cadre_chunk_layout_offset(&layout, k), cadre_chunk_layout_size(&layout, k),
            release_parent, cadre_chunk_ref(gradient));
    }
}

/* Refuses a gradient of another size than its variable, or of fewer rows than it names, and one of
 * a variable that an earlier gradient is of. */
static int
check_gradient(const cadre_gradient_t *gradients, size_t index)
{
    const cadre_gradient_t *gradient = &gradients[index];
    const cadre_variable_entry_t *variable = gradient->variable;
    if (variable->is_table && !gradient->rows) {
        return cadre_fail(CADRE_EINVALID, "%s is a table, and is pushed by rows only",
                          variable->name);
    }
    const size_t rows = gradient->rows ? gradient->rows->count : (size_t)variable->rows;
    const size_t expected = variable->wire_row_size_bytes * rows;
    const size_t given = cadre_chunk_size_bytes(gradient->gradient);
    if (gradient->rows ? given < expected : given != expected) {
        return cadre_fail(CADRE_ESHAPE, "the gradient of %s has %zu bytes, not %zu", variable->name,
                          given, expected);
    }
    for (size_t k = 0; k < index; k++) {
        if (gradients[k].variable == variable) {
            return cadre_fail(CADRE_EEXISTS, "two gradients of %s in one update", variable->name);
        }
    }
    return 0;
}

/* Adds the parts of the gradients that come without ids, which are those of whole variables and of
 * counted tables without keys, or the parts of rows. A partition stands once in an update, so that
 * its rows are one part, however many they are. */
static void
add_gradients(cadre_run_t *self, const cadre_gradient_t *gradients, size_t count, bool of_rows)
{
    for (size_t i = 0; i < count; i++) {
        const cadre_wanted_t pushed = {gradients[i].variable, gradients[i].rows};
        if ((pushed.rows != NULL) == of_rows) {
            add_parts(self, i, &pushed, SIZE_MAX);
        } else if (pushed.rows && pushed.variable->is_counted) {
            add_keyless(self, i, &pushed);
        }
    }
}

/* Makes the parts of a push (one for each partition) and cuts the gradients into their chunks. */
int
cadre_run_begin_push(cadre_run_t *self, const cadre_gradient_t *gradients, size_t count)
{
    cadre_assert(!self->parts);
    for (size_t i = 0; i < count; i++) {
        int status = check_gradient(gradients, i);
        if (status < 0) {
            return status;
        }
    }
    add_gradients(self, gradients, count, false);
    add_gradients(self, gradients, count, true);

    /* Each part (one partition) tells the version that its gradient was computed from, by which
     * the shard counts the staleness. */
    size_t offset = 0;
    for (size_t i = 0; i < self->part_count; i++) {
        cadre_run_part_t *part = &self->parts[i];
        offset = i > 0 && self->parts[i - 1].item == part->item ? offset : 0;
        part->version = cadre_run_pulled_version(self, part->variable->id, part->partition);
        cut(part, gradients[part->item].gradient, offset);
        offset += cadre_run_part_layout(part).size_bytes;
    }
    return 0;
}

/* Moves the chunks of `count` parts, which are one variable's, into a value, and remembers the
 * version of each partition: of its rows in several parts the oldest. */
static void
join_parts(cadre_run_t *self, cadre_run_part_t *parts, size_t count, cadre_value_t *value)
{
    const cadre_variable_entry_t *variable = parts[0].variable;
    uint64_t *versions = cadre_calloc(variable->partitions, sizeof(*versions));
    *value = (cadre_value_t){.variable = variable};
    for (size_t k = 0; k < count; k++) {
        value->chunk_count += parts[k].chunk_count;
    }
    value->chunks = cadre_calloc(value->chunk_count, sizeof(cadre_chunk_t *));
    size_t at = 0;
    for (size_t k = 0; k < count; k++) {
        cadre_run_part_t *part = &parts[k];
        const bool goes_on = k > 0 && parts[k - 1].partition == part->partition;
        uint64_t *version = &versions[part->partition];
        *version = goes_on && *version < part->version ? *version : part->version;
        for (size_t i = 0; i < part->chunk_count; i++) {
            value->size_bytes += cadre_chunk_size_bytes(part->chunks[i]);
            value->chunks[at++] = part->chunks[i];
            part->chunks[i] = NULL;
        }
    }
    free(cadre_u64_map_put(&self->pulled, variable->id, versions));
}

/* Joins the parts of a finished pull into one value for each variable, in the order asked, and ends
 * the parts. A later push tells the versions of the partitions to the shards. */
cadre_value_t *
cadre_run_end_pull(cadre_run_t *self, size_t *count)
{
    cadre_value_t *values = cadre_calloc(self->item_count, sizeof(*values));
    for (size_t first = 0; first < self->part_count;) {
        const size_t item = self->parts[first].item;
        size_t parts = 1;
        while (first + parts < self->part_count && self->parts[first + parts].item == item) {
            parts++;
        }
        join_parts(self, &self->parts[first], parts, &values[item]);
        first += parts;
    }
    *count = self->item_count;
    cadre_run_end_parts(self);
    return values;
}

/* Returns the version that a partition had in this run's last pull; 0 when it was not pulled. */
uint64_t
cadre_run_pulled_version(const cadre_run_t *self, uint32_t variable, uint32_t partition)
{
    const uint64_t *versions = cadre_u64_map_get(&self->pulled, variable);
    return versions ? versions[partition] : 0;
}

/* Notes a failure of the pull or push under way; only the first one counts. `failure`: whose fault
 * it was. */
void
cadre_run_fail(cadre_run_t *self, cadre_failure_t failure, int status, const char *text)
{
    if (self->status == 0) {
        self->status = status;
        self->failure = failure;
        snprintf(self->text, sizeof(self->text), "%s", text);
    }
}

void
cadre_run_fail_at(cadre_run_t *self, uint32_t shard, cadre_failure_t failure, int status,
                  const char *text)
{
    self->failed_shard = shard;
    cadre_run_fail(self, failure, status, text);
}

/* Begins a pull or push (`state`: CADRE_RUN_PULLING or CADRE_RUN_PUSHING), without a failure so
 * far. */
void
cadre_run_begin_operation(cadre_run_t *self, cadre_run_state_t state)
{
    cadre_run_set_state(self, state);
    self->status = 0;
    if (state == CADRE_RUN_PULLING) {
        self->received_bytes = 0;
    }
}

/* Ends the pull or push under way: the slot computes again. A push that went well counts as a
 * step. */
void
cadre_run_end_operation(cadre_run_t *self)
{
    if (self->state == CADRE_RUN_PUSHING && self->status == 0) {
        self->step++;
    }
    cadre_run_end_parts(self);
    cadre_run_set_state(self, CADRE_RUN_COMPUTING);
}

/* Fails the pull or push with CADRE_ECANCELLED, and waits for no answer any more. The failure
 * counts as nobody's fault (RETURNED). */
void
cadre_run_cancel_operation(cadre_run_t *self)
{
    self->pending = 0;
    cadre_run_fail(self, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled");
}

void
cadre_run_touch(cadre_run_t *self)
{
    self->touched = true;
}

void
cadre_run_await(cadre_run_t *self)
{
    self->pending++;
}

/* Notes the answer to a request of the pull or push; returns whether no other answer is awaited. */
bool
cadre_run_answered(cadre_run_t *self)
{
    cadre_assert(self->pending > 0);
    self->pending--;
    return self->pending == 0;
}

/* Fills a part of a pull (one partition) with the values that a shard of this `generation` has
 * sent, or that the cache has; takes references of its own. */
void
cadre_run_part_fill(cadre_run_part_t *self, uint64_t version, uint64_t generation,
                    cadre_chunk_t *const *chunks, size_t count)
{
    drop_chunks(self);
    self->version = version;
    self->generation = generation;
    self->chunks = cadre_calloc(count, sizeof(cadre_chunk_t *));
    self->chunk_count = count;
    for (size_t i = 0; i < count; i++) {
        self->chunks[i] = cadre_chunk_ref(chunks[i]);
    }
}

void
cadre_run_part_hold(cadre_run_part_t *self, uint64_t generation, uint64_t newest, uint16_t **ages)
{
    const cadre_chunk_layout_t layout = cadre_run_part_layout(self);
    cadre_assert(self->ids && !self->chunks);
    self->generation = generation;
    self->newest = newest;
    self->ages = *ages;
    *ages = NULL;
    self->chunks = cadre_calloc(layout.count, sizeof(cadre_chunk_t *));
    self->chunk_count = layout.count;
    for (size_t k = 0; k < layout.count; k++) {
        self->chunks[k] = cadre_chunk_new(cadre_chunk_layout_size(&layout, k));
    }
}

void
cadre_run_part_complete(cadre_run_part_t *self, uint64_t version)
{
    self->version = version;
}

void
cadre_run_note_received(cadre_run_t *self, size_t size_bytes)
{
    self->received_bytes += size_bytes;
}

/* Counts an update that a shard has applied. Of the staleness the run keeps the largest. */
void
cadre_run_note_applied(cadre_run_t *self, uint64_t staleness)
{
    self->totals.updates++;
    self->totals.staleness =
        staleness > self->totals.staleness ? staleness : self->totals.staleness;
}

void
cadre_run_note_duplicate(cadre_run_t *self)
{
    self->totals.duplicates++;
}

/* Frees pulled values: the array, and its references to the chunks. */
void
cadre_values_fini(cadre_value_t **values_p, size_t count)
{
    cadre_value_t *values = *values_p;
    *values_p = NULL;
    for (size_t i = 0; values && i < count; i++) {
        for (size_t k = 0; k < values[i].chunk_count; k++) {
            cadre_chunk_unref(&values[i].chunks[k]);
        }
        free(values[i].chunks);
    }
    free(values);
}
