#include "tests/sim/sim_shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/codec.h"
#include "common/memory.h"
#include "common/status.h"

enum { WRITE_MS_MAX = 400 };

/* --- a loader without checkpoints: nothing is restored here --- */

static int
open_nothing(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    (void)context, (void)index, (void)state;
    return cadre_fail(CADRE_ENOTFOUND, "there is no checkpoint %s", path);
}

static int
find_nothing(void *context, const char *variable, cadre_stored_variable_t *out)
{
    (void)context, (void)variable, (void)out;
    return CADRE_ENOTFOUND;
}

static int
read_nothing(void *context, const cadre_checkpoint_range_t *range, void *out, uint64_t *version)
{
    (void)context, (void)range, (void)out, (void)version;
    return CADRE_ENOTFOUND;
}

static void
close_nothing(void *context)
{
    (void)context;
}

void
sim_shard_start(sim_shard_t *self)
{
    cadre_ps_options_t options = {.task = self->task,
                                  .build = "sim",
                                  .host = "sim",
                                  .address = "inproc://ps",
                                  .process = self->node};
    cadre_shard_options_t shard_options = {
        .incarnation = self->task.incarnation,
        .size_bytes_max = SIZE_MAX,
        .loader = {NULL, open_nothing, find_nothing, read_nothing, close_nothing}};
    self->core = cadre_ps_core_new(&options);
    self->shard = cadre_shard_new(&shard_options);
    self->tick_due_ms = UINT64_MAX;
    cadre_ps_core_connected(self->core, self->network->now_ms);
}

void
sim_shard_stop(sim_shard_t *self)
{
    cadre_shard_snapshot_destroy(&self->snapshot);
    cadre_outbox_fini(&self->answers);
    cadre_ps_core_destroy(&self->core);
    cadre_shard_destroy(&self->shard);
}

/* --- what the shard answers --- */

static void
check_part(const sim_shard_t *self, uint64_t id, uint64_t part)
{
    const sim_variable_t *variable = sim_check_variable(self->check, id);
    const cadre_partition_t *partition = cadre_shard_partition(self->shard, id, part);
    if (!partition) {
        sim_check_fail(self->check, "shard %u has no part %" PRIu64 " of %s", self->index, part,
                       variable->variable->name);
    }
    sim_check_partition(self->check, variable, (uint32_t)part, partition);
}

/* Compares question and answer with the model, and then the parts with it. */
static void
check_answer(sim_shard_t *self, const cadre_message_t *question, const cadre_message_t *answer)
{
    if (question->type == CADRE_MESSAGE_PULL && answer->type == CADRE_MESSAGE_VALUES) {
        sim_check_values_sent(self->check, self->index, question, answer);
    } else if (question->type == CADRE_MESSAGE_ASSIGN && answer->type == CADRE_MESSAGE_REPLY) {
        sim_check_assign(self->check, self->index, question, answer);
        check_part(self, question->assign.variable, question->assign.partition);
    } else if (question->type == CADRE_MESSAGE_PUSH && answer->type == CADRE_MESSAGE_APPLIED) {
        sim_check_push(self->check, self->index, question, answer);
        const cadre_u64s_t *parts = &question->push.partitions;
        for (size_t i = 0; i < parts->count; i += 3) {
            check_part(self, parts->items[i], parts->items[i + 1]);
        }
    }
}

/* The same message again, from its bytes: the shard takes the first one. */
static void
decode_entry(const sim_shard_t *self, const cadre_outbox_entry_t *entry, cadre_message_t *out)
{
    cadre_chunk_t **chunks = cadre_calloc(entry->chunk_count, sizeof(*chunks));
    for (size_t i = 0; i < entry->chunk_count; i++) {
        chunks[i] = cadre_chunk_ref(entry->chunks[i]);
    }
    if (cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             chunks, entry->chunk_count, out) < 0) {
        sim_check_fail(self->check, "shard %u sends %s that cannot be decoded: %s", self->index,
                       cadre_message_type_text(entry->type), cadre_error_text());
    }
    free(chunks);
}

/* Gives `message` to the shard and checks what it answers to a question that touches values. */
static void
give(sim_shard_t *self, cadre_plane_t plane, const cadre_task_t *from, cadre_message_t *message)
{
    bool is_checked = message->type == CADRE_MESSAGE_PULL || message->type == CADRE_MESSAGE_PUSH ||
                      message->type == CADRE_MESSAGE_ASSIGN;
    cadre_message_t again = {0};
    if (is_checked) {
        cadre_chunk_t **chunks = cadre_calloc(message->chunk_count, sizeof(*chunks));
        cadre_outbox_entry_t entry = {.type = message->type,
                                      .header = cadre_message_encode(message),
                                      .chunks = chunks,
                                      .chunk_count = message->chunk_count};
        for (size_t i = 0; i < message->chunk_count; i++) {
            chunks[i] = cadre_chunk_ref(message->chunks[i]);
        }
        decode_entry(self, &entry, &again);
        cadre_outbox_entry_fini(&entry);
    }
    cadre_outbox_t answers = {0};
    cadre_shard_receive(self->shard, plane, from, message, &answers);
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(&answers, &entry)) {
        if (is_checked) {
            cadre_message_t answer = {0};
            decode_entry(self, &entry, &answer);
            check_answer(self, &again, &answer);
            cadre_message_fini(&answer);
        }
        cadre_outbox_repeat(&self->answers, &entry);
        cadre_outbox_entry_fini(&entry);
    }
    cadre_outbox_fini(&answers);
    cadre_message_fini(&again);
}

/* --- snapshots --- */

/* What a snapshot holds is what the model is now; nobody may change it any more. */
static void
check_snapshot(sim_shard_t *self, bool taken)
{
    for (size_t i = 0; i < self->snapshot->part_count; i++) {
        const cadre_shard_snapshot_part_t *part = &self->snapshot->parts[i];
        const sim_variable_t *variable = sim_check_variable(self->check, part->spec.variable);
        const sim_part_t *model = &variable->parts[part->spec.partition];
        int64_t n = sim_check_chunks(self->check, variable, (uint32_t)part->spec.partition,
                                     part->references.values, part->references.chunk_count);
        if (n != model->history[part->references.version] ||
            (taken && part->references.version != model->version)) {
            sim_check_fail(self->check, "I5: a snapshot of shard %u holds n = %" PRId64 " of %s",
                           self->index, n, part->name);
        }
    }
}

static void
look_for_snapshot(sim_shard_t *self)
{
    cadre_shard_snapshot_t *snapshot = cadre_shard_take_snapshot(self->shard);
    if (!snapshot) {
        return;
    }
    cadre_shard_snapshot_destroy(&self->snapshot);
    self->snapshot = snapshot;
    if (snapshot->part_count != cadre_shard_partition_count(self->shard)) {
        sim_check_fail(self->check, "I5: a snapshot has %zu parts", snapshot->part_count);
    }
    sim_check_snapshot(self->check, self->index, snapshot->checkpoint, snapshot->state.window_base);
    check_snapshot(self, true);
    sim_network_at(self->network, sim_between(self->random, 1, WRITE_MS_MAX), SIM_STORED,
                   self->node, snapshot->checkpoint);
}

static void
on_stored(sim_shard_t *self, uint64_t checkpoint)
{
    if (!self->snapshot || self->snapshot->checkpoint != checkpoint) {
        return; /* abandoned */
    }
    check_snapshot(self, false);
    cadre_ps_written_t written = {.checkpoint = checkpoint, .size_bytes = 1, .hash = self->node};
    snprintf(written.file, sizeof(written.file), "shard-%u.mdb", self->index);
    for (int i = 0; i < CADRE_PS_COUNTER_COUNT; i++) {
        written.counters[i] = self->snapshot->counters[i];
    }
    if (sim_chance(self->random, self->store_fails)) {
        written.status = CADRE_EIO;
        snprintf(written.text, sizeof(written.text), "the disk of the simulation is bad");
    }
    self->written++;
    cadre_shard_snapshot_destroy(&self->snapshot);
    cadre_ps_core_written(self->core, &written, self->network->now_ms);
}

/* --- events --- */

static void
on_event(sim_shard_t *self, cadre_ps_event_t *event)
{
    cadre_task_t coordinator = cadre_ps_core_coordinator(self->core);
    switch (event->kind) {
    case CADRE_PS_SESSION:
        cadre_shard_begin_session(self->shard, event->index, event->epoch);
        break;
    case CADRE_PS_MESSAGE:
        give(self, CADRE_PLANE_CONTROL, &coordinator, &event->message);
        look_for_snapshot(self);
        break;
    case CADRE_PS_MALFORMED:
        cadre_shard_malformed(self->shard);
        break;
    case CADRE_PS_ABANDON:
        if (self->snapshot && self->snapshot->checkpoint == event->checkpoint) {
            cadre_shard_snapshot_destroy(&self->snapshot);
        }
        break;
    case CADRE_PS_MUTE:
        cadre_ps_core_connected(self->core, self->network->now_ms);
        break;
    case CADRE_PS_LEFT:
        if (!self->stopping) {
            sim_check_fail(self->check, "ps %u leaves: %s", self->index, event->text);
        }
        self->left = true;
        break;
    }
}

void
sim_shard_turn(sim_shard_t *self)
{
    cadre_ps_event_t event;
    cadre_ps_core_counted(self->core, cadre_shard_counters(self->shard),
                          cadre_shard_generation(self->shard));
    uint64_t due_ms = cadre_ps_core_tick(self->core, self->network->now_ms);
    while (cadre_ps_core_event(self->core, &event)) {
        on_event(self, &event);
    }
    uint64_t now_ms = self->network->now_ms;
    if (due_ms < self->tick_due_ms || self->tick_due_ms <= now_ms) {
        self->tick_due_ms = due_ms;
        if (due_ms != UINT64_MAX) {
            sim_network_at(self->network, due_ms > now_ms ? due_ms - now_ms : 1, SIM_TICK,
                           self->node, 0);
        }
    }
}

void
sim_shard_receive(sim_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                  cadre_message_t *message)
{
    if (plane == CADRE_PLANE_CONTROL) {
        cadre_ps_core_receive(self->core, message, self->network->now_ms);
    } else {
        give(self, plane, from, message);
    }
}

void
sim_shard_event(sim_shard_t *self, const sim_event_t *event)
{
    if (event->kind == SIM_STORED) {
        on_stored(self, event->value);
    } else if (event->kind == SIM_CONNECTED) {
        cadre_ps_core_connected(self->core, self->network->now_ms);
    }
}

void
sim_shard_check_all(const sim_shard_t *self)
{
    for (uint32_t i = 0; i < self->check->variable_count; i++) {
        const sim_variable_t *variable = &self->check->variables[i];
        for (uint32_t k = 0; k < variable->part_count; k++) {
            if (variable->parts[k].shard == self->index) {
                check_part(self, i + 1, k);
            }
        }
    }
}
