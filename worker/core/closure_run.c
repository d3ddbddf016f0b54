#include "worker/core/closure_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
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

/* Frees the parts (partitions with their chunks) of a pull or push that has ended. */
void
cadre_run_end_parts(cadre_run_t *self)
{
    for (size_t i = 0; i < self->part_count; i++) {
        for (size_t k = 0; k < self->parts[i].chunk_count; k++) {
            cadre_chunk_unref(&self->parts[i].chunks[k]);
        }
        free(self->parts[i].chunks);
    }
    free(self->parts);
    self->parts = NULL;
    self->part_count = 0;
    self->pending = 0;
}

/* Gives the run a part for every partition of the variables: variable, partition and shard, no
 * chunks yet. The parts of a variable lie side by side, in the order of its partitions. */
static void
begin_parts(cadre_run_t *self, const cadre_variable_entry_t *const *variables, size_t count)
{
    cadre_assert(!self->parts);
    size_t parts = 0;
    for (size_t i = 0; i < count; i++) {
        parts += variables[i]->partitions;
    }
    self->parts = cadre_calloc(parts, sizeof(*self->parts));
    self->status = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < variables[i]->partitions; k++) {
            self->parts[self->part_count++] = (cadre_run_part_t){
                .variable = variables[i], .partition = k, .shard = variables[i]->shards[k]};
        }
    }
}

void
cadre_run_begin_pull(cadre_run_t *self, const cadre_variable_entry_t *const *variables,
                     size_t count)
{
    begin_parts(self, variables, count);
}

/* Drops the reference that a view of a gradient has to the chunk of the whole gradient. */
static void
release_parent(void *owner)
{
    cadre_chunk_t *parent = owner;
    cadre_chunk_unref(&parent);
}

/* Gives a part (one partition) its chunks of the gradient of the whole variable: views, each with a
 * reference to `gradient`; nothing is copied. */
static void
cut(cadre_run_part_t *part, cadre_chunk_t *gradient)
{
    const cadre_variable_entry_t *variable = part->variable;
    int64_t first = cadre_split_first(variable->rows, variable->partitions, part->partition);
    const cadre_chunk_layout_t layout = cadre_variable_entry_layout(variable, part->partition);
    char *bytes =
        (char *)cadre_chunk_data(gradient) + (size_t)first * variable->wire_row_size_bytes;
    part->chunks = cadre_calloc(layout.count, sizeof(cadre_chunk_t *));
    part->chunk_count = layout.count;
    for (size_t k = 0; k < layout.count; k++) {
        part->chunks[k] = cadre_chunk_new_foreign(bytes + cadre_chunk_layout_offset(&layout, k),
                                                  cadre_chunk_layout_size(&layout, k),
                                                  release_parent, cadre_chunk_ref(gradient));
    }
}

/* Makes the parts of a push (one for each partition) and cuts the gradients into their chunks.
 * Before it makes any, it refuses a gradient of another size than its variable, and two of one
 * variable. */
int
cadre_run_begin_push(cadre_run_t *self, const cadre_gradient_t *gradients, size_t count)
{
    const cadre_variable_entry_t **variables = cadre_calloc(count, sizeof(*variables));
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        variables[i] = gradients[i].variable;
        size_t expected = variables[i]->wire_row_size_bytes * (size_t)variables[i]->rows;
        size_t given = cadre_chunk_size_bytes(gradients[i].gradient);
        if (given != expected) {
            status = cadre_fail(CADRE_ESHAPE, "the gradient of %s has %zu bytes, not %zu",
                                variables[i]->name, given, expected);
        }
        for (size_t k = 0; k < i && status == 0; k++) {
            if (variables[k] == variables[i]) {
                status = cadre_fail(CADRE_EEXISTS, "two gradients of %s in one update",
                                    variables[i]->name);
            }
        }
    }
    if (status == 0) {
        begin_parts(self, variables, count);
    }
    free(variables);
    if (status < 0) {
        cadre_run_end_parts(self);
        return status;
    }
    /* Each part (one partition) tells the version that its gradient was computed from, by which
     * the shard counts the staleness. */
    size_t part = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < gradients[i].variable->partitions; k++, part++) {
            self->parts[part].version =
                cadre_run_pulled_version(self, gradients[i].variable->id, k);
            cut(&self->parts[part], gradients[i].gradient);
        }
    }
    return 0;
}

/* Joins the parts of a finished pull into one value for each variable, in the order asked, and ends
 * the parts. Remembers the versions of the partitions: a later push tells them to the shards. The
 * chunks move from the parts to the values. */
cadre_value_t *
cadre_run_end_pull(cadre_run_t *self, size_t *count)
{
    cadre_value_t *values = cadre_calloc(self->part_count, sizeof(*values));
    *count = 0;
    /* The parts of a variable lie side by side, in the order of its partitions. */
    for (size_t first = 0; first < self->part_count;) {
        const cadre_variable_entry_t *variable = self->parts[first].variable;
        cadre_value_t *value = &values[(*count)++];
        uint64_t *versions = cadre_calloc(variable->partitions, sizeof(*versions));
        *value = (cadre_value_t){.variable = variable};
        for (uint32_t k = 0; k < variable->partitions; k++) {
            value->chunk_count += self->parts[first + k].chunk_count;
        }
        value->chunks = cadre_calloc(value->chunk_count, sizeof(cadre_chunk_t *));
        size_t at = 0;
        for (uint32_t k = 0; k < variable->partitions; k++) {
            cadre_run_part_t *part = &self->parts[first + k];
            versions[k] = part->version;
            for (size_t i = 0; i < part->chunk_count; i++) {
                value->size_bytes += cadre_chunk_size_bytes(part->chunks[i]);
                value->chunks[at++] = part->chunks[i];
                part->chunks[i] = NULL;
            }
        }
        free(cadre_u64_map_put(&self->pulled, variable->id, versions));
        first += variable->partitions;
    }
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
    self->version = version;
    self->generation = generation;
    self->chunks = cadre_calloc(count, sizeof(cadre_chunk_t *));
    self->chunk_count = count;
    for (size_t i = 0; i < count; i++) {
        self->chunks[i] = cadre_chunk_ref(chunks[i]);
    }
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
