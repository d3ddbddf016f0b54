/* What shards answer, against the model. */
#include <inttypes.h>

#include "common/status.h"
#include "tests/sim/sim_check.h"

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
        sim_part_t *part = sim_check_part(self, items[0], items[1]);
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
    sim_part_t *part = sim_check_part(self, assign->variable, assign->partition);
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
        const sim_part_t *part = sim_check_part(self, asked[0], asked[1]);
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
sim_check_snapshot(sim_check_t *self, uint32_t shard, uint64_t checkpoint, uint64_t cut)
{
    sim_shard_record_t *record = &self->shards[shard];
    record->cut = cut > record->cut ? cut : record->cut;
    record->snapshot = checkpoint;
    record->snapshot_applied = record->applied;
    record->beyond = 0;
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        for (uint32_t step = 0; step < call->steps; step++) {
            if (call->applied[step] >> shard & 1 && call->id + step >= cut) {
                record->beyond = call->id + step;
            }
        }
        if (call->id && call->id < cut && !call->ended) {
            sim_check_fail(self, "I5: closure %" PRIu64 " has not ended at cut %" PRIu64, call->id,
                           cut);
        }
    }
}

void
sim_check_commit(const sim_check_t *self, uint32_t shard, uint64_t checkpoint,
                 const cadre_shard_state_t *state)
{
    const sim_shard_record_t *record = &self->shards[shard];
    if (record->snapshot != checkpoint || state->window_base != record->cut ||
        state->applied != record->snapshot_applied) {
        sim_check_fail(self,
                       "I5: checkpoint %" PRIu64 " says shard %u has %" PRIu64
                       " updates below %" PRIu64 ", its snapshot of %" PRIu64 " has %" PRIu64
                       " below %" PRIu64,
                       checkpoint, shard, state->applied, state->window_base, record->snapshot,
                       record->snapshot_applied, record->cut);
    }
    if (record->beyond) {
        sim_check_fail(self, "I5: update %" PRIu64 " is in the checkpoint at cut %" PRIu64,
                       record->beyond, record->cut);
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
