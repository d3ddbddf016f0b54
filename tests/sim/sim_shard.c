#include "tests/sim/sim_shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

void
sim_shard_start(sim_shard_t *self)
{
    cadre_ps_options_t options = {
        .session = {.task = self->task, .build = "sim", .host = "sim", .process = self->node},
        .address = "inproc://ps"};
    self->loader = (sim_loader_t){.disk = self->disk,
                                  .random = self->random,
                                  .fails = &self->plan->read_fails,
                                  .rots = &self->plan->rots};
    cadre_shard_options_t shard_options = {.incarnation = self->task.incarnation,
                                           .size_bytes_max = SIZE_MAX,
                                           .intake_bytes = self->plan->intake_bytes,
                                           .step_bytes = self->plan->step_bytes,
                                           .window_min = self->plan->window};
    self->core = cadre_ps_core_new(&options);
    self->shard = cadre_shard_new(&shard_options);
    self->tick_due_ms = UINT64_MAX;
    cadre_ps_core_connected(self->core, self->network->now_ms);
}

static void
drop_snapshot(sim_shard_t *self)
{
    cadre_shard_snapshot_destroy(&self->snapshot);
    sim_state_destroy(&self->snapshot_state);
}

/* Nobody will answer these any more. */
static void
forget_asked(sim_shard_t *self)
{
    for (size_t i = 0; i < self->asked_count; i++) {
        cadre_message_fini(&self->asked[i]);
    }
    cadre_free(&self->asked);
    self->asked_count = 0;
}

void
sim_shard_stop(sim_shard_t *self)
{
    drop_snapshot(self);
    forget_asked(self);
    for (size_t i = 0; i < self->load_count; i++) {
        cadre_checkpoint_load_destroy(&self->loads[i].load);
    }
    cadre_free(&self->loads);
    self->load_count = 0;
    for (size_t i = 0; i < self->held_count; i++) {
        cadre_message_fini(&self->held[i].message);
        cadre_message_fini(&self->held[i].event.message);
    }
    cadre_free(&self->held);
    self->held_count = 0;
    cadre_outbox_fini(&self->answers);
    cadre_shard_effects_fini(&self->effects);
    sim_parts_fini(&self->parts);
    cadre_ps_core_destroy(&self->core);
    cadre_shard_destroy(&self->shard);
}

/* --- what the shard answers --- */

/* Whether the shard has a part, of a dense variable or of a table. */
static bool
has_part(const sim_shard_t *self, uint64_t variable, uint64_t part)
{
    return cadre_shard_partition(self->shard, variable, part) ||
           cadre_shard_table(self->shard, variable, part);
}

static void
check_part(sim_shard_t *self, uint64_t id, uint64_t part)
{
    const sim_variable_t *variable = sim_check_variable(self->check, id);
    const cadre_partition_t *partition = cadre_shard_partition(self->shard, id, part);
    const cadre_table_t *table = cadre_shard_table(self->shard, id, part);
    if ((!partition && !table) || !self->state) {
        sim_check_fail(self->check, "shard %u has no part %" PRIu64 " of %s", self->index, part,
                       variable->name);
    }
    if (table) {
        sim_check_table(self->check, self->state, variable, (uint32_t)part, table);
        sim_check_rates(self->check, self->state, variable, (uint32_t)part,
                        cadre_table_get_spec(table)->optimizer.schedule.boundary_count);
        return;
    }
    sim_check_partition(self->check, self->state, variable, (uint32_t)part, partition);
}

/* An update whose room was asked for is refused, or need not come. */
static void
check_reserve(sim_shard_t *self, const cadre_message_t *question, const cadre_message_t *answer)
{
    cadre_message_t push = *question;
    push.type = CADRE_MESSAGE_PUSH;
    push.push = (cadre_push_message_t){
        .update = question->reserve.update, .generation = question->reserve.generation, .parts = 2};
    if (answer->applied.status == 0) {
        sim_check_fail(self->check, "I1: shard %u applied update %" PRIu64 " that has not come",
                       self->index, push.push.update);
    }
    sim_check_push(self->check, self->state, &push, answer);
}

static void
check_assign(sim_shard_t *self, const cadre_message_t *question, const cadre_message_t *answer)
{
    const cadre_assign_message_t *assign = &question->assign;
    uint64_t status = answer->reply.status;
    bool is_gone = sim_check_variable(self->check, assign->variable)->was_dropped &&
                   !has_part(self, assign->variable, assign->partition);
    sim_check_assign(self->check, self->state, question, answer, is_gone);
    if ((status == 0 || status == (uint64_t)-CADRE_ENOTFINITE) && !is_gone) {
        check_part(self, assign->variable, assign->partition);
        for (size_t i = 4; i < assign->rows.count; i += 4) {
            check_part(self, assign->rows.items[i], assign->rows.items[i + 1]);
        }
    }
}

/* An update as if all of it were whole: what does not come of what comes by rows is zero. Parts of
 * rows stand behind the others. The list is the caller's to free. */
static uint64_t *
make_whole(cadre_message_t *push)
{
    const cadre_u64s_t whole = push->push.partitions;
    const cadre_u64s_t rows = push->push.rows;
    uint64_t *triples = cadre_calloc(whole.count + rows.count + 1, sizeof(*triples));
    size_t count = 0;
    for (size_t i = 0; i < whole.count; i++) {
        triples[count++] = whole.items[i];
    }
    for (size_t i = 0; i < rows.count; i++) {
        if (i % 4 < 3) {
            triples[count++] = rows.items[i];
        }
    }
    push->push.partitions = (cadre_u64s_t){triples, count};
    return triples;
}

/* The bytes of the gradients of an update, with the numbers of rows. */
static uint64_t
size_of_update(const sim_shard_t *self, const cadre_push_message_t *push)
{
    const cadre_u64s_t *parts = &push->partitions;
    uint64_t size_bytes = 0;
    for (size_t i = 3; i < push->rows.count; i += 4) {
        const sim_variable_t *variable = sim_check_variable(self->check, push->rows.items[i - 3]);
        const size_t numbers = variable->dim > 0 ? variable->dim
                                                 : variable->row_size_bytes /
                                                       cadre_dtype_size(variable->definition.dtype);
        size_bytes +=
            push->rows.items[i] * (sizeof(uint64_t) + numbers * cadre_dtype_size(variable->wire));
    }
    const size_t whole = parts->count - push->rows.count / 4 * 3;
    for (size_t i = 0; i + 2 < whole; i += 3) {
        const cadre_partition_t *partition =
            cadre_shard_partition(self->shard, parts->items[i], parts->items[i + 1]);
        size_bytes += partition ? cadre_partition_wire_layout(partition)->size_bytes : 0;
    }
    return size_bytes;
}

/* An update of a synchronous step is refused for want of room if and only if what the step holds
 * already leaves none; true when it was. */
static bool
check_room(const sim_shard_t *self, const cadre_message_t *push, uint64_t size_bytes,
           const cadre_applied_message_t *applied)
{
    const uint64_t status = applied->status;
    const uint64_t limit = self->plan->step_bytes;
    uint64_t held_bytes = 0;
    for (size_t i = 0; self->state && i < self->state->held_count; i++) {
        const sim_pushed_t *held = &self->state->held[i];
        held_bytes += held->is_over ? 0 : held->size_bytes;
    }
    const bool is_full = limit > 0 && held_bytes > 0 && held_bytes + size_bytes > limit;
    const bool is_refused = status == (uint64_t)-CADRE_EFULL;
    const bool is_of_rows =
        is_refused && strstr(applied->text, "rows_max"); /* which others look at */
    if ((status == 0 && is_full) || (is_refused && !is_full && !is_of_rows)) {
        sim_check_fail(self->check,
                       "I7: shard %u %s update %" PRIu64 " of %" PRIu64 " bytes: it holds %" PRIu64
                       " of at most %" PRIu64,
                       self->index, is_refused ? "refused" : "holds", push->push.update, size_bytes,
                       held_bytes, limit);
    }
    return is_refused && !is_of_rows;
}

static void
check_data(sim_shard_t *self, const cadre_message_t *question, const cadre_message_t *answer,
           bool from_coordinator)
{
    sim_state_t *state = self->state;
    if (question->type == CADRE_MESSAGE_PULL && answer->type == CADRE_MESSAGE_VALUES) {
        sim_check_values_sent(self->check, state, question, answer, from_coordinator);
    } else if (question->type == CADRE_MESSAGE_ASSIGN && answer->type == CADRE_MESSAGE_REPLY) {
        check_assign(self, question, answer);
    } else if (question->type == CADRE_MESSAGE_RESERVE && answer->type == CADRE_MESSAGE_APPLIED) {
        check_reserve(self, question, answer);
    } else if (question->type == CADRE_MESSAGE_PUSH && answer->type == CADRE_MESSAGE_APPLIED) {
        const cadre_message_t *whole = question;
        const uint64_t status = answer->applied.status;
        if (question->push.parts > 1 && (status == 0 || status == (uint64_t)-CADRE_EFULL)) {
            whole = sim_parts_whole(&self->parts, question);
            if (!whole) {
                sim_check_fail(self->check,
                               "I1: shard %u applied update %" PRIu64 " without all its parts",
                               self->index, question->push.update);
            }
        }
        cadre_message_t update = *whole;
        cadre_auto(cadre_free) uint64_t *triples = make_whole(&update);
        const uint64_t size_bytes = size_of_update(self, &update.push);
        whole = &update;
        if (whole->push.step > 0 && check_room(self, whole, size_bytes, &answer->applied)) {
            state->refused++;
            self->check->full_steps++;
            return;
        }
        sim_check_push(self->check, state, whole, answer);
        if (whole->push.step > 0 && status == 0) {
            sim_state_held(state, whole->push.update)->size_bytes = size_bytes;
        }
        const cadre_u64s_t *parts = &whole->push.partitions;
        for (size_t i = 0; answer->applied.status == 0 && i < parts->count; i += 3) {
            check_part(self, parts->items[i], parts->items[i + 1]);
        }
    }
}

/* After a RESTORE: whether the shard begins anew, and with what. */
static void
on_restored(sim_shard_t *self, const cadre_message_t *question)
{
    const cadre_restore_message_t *restore = &question->restore;
    uint64_t generation = cadre_shard_generation(self->shard);
    if (generation == 0 || (self->state && self->state->generation == generation)) {
        self->state = generation ? self->state : NULL;
        return;
    }
    const sim_checkpoint_t *checkpoint =
        restore->path[0] ? sim_disk_find(self->disk, restore->path) : NULL;
    uint64_t cut = checkpoint ? checkpoint->manifest->cut : 1;
    if (restore->cut < cut) {
        sim_check_fail(self->check, "I1: RESTORE of \"%s\" says %" PRIu64 ", its cut is %" PRIu64,
                       restore->path, restore->cut, cut);
    }
    /* What it was asked before is asked again, and what it has answered. */
    sim_network_disturb(self->network, self->node, self->network->now_ms);
    sim_state_t begin = {.shard = self->index,
                         .epoch = question->epoch,
                         .generation = generation,
                         .cut = restore->cut,
                         .checkpoint = restore->ended};
    self->state = sim_check_restored(self->check, &begin,
                                     checkpoint ? checkpoint->files[self->index].state : NULL);
    for (uint32_t i = 0; i < self->check->known_count; i++) {
        const sim_variable_t *variable = &self->check->variables[i];
        if (checkpoint && !(checkpoint->holds >> (variable->id - 1) & 1)) {
            sim_state_forget(self->state, i);
        }
    }
}

/* The counters of a table, of a shard that has it. */
static void
check_table_count(sim_shard_t *self, const cadre_message_t *question, const cadre_message_t *answer)
{
    const uint64_t variable = question->count.variable;
    if (self->state && answer->reply.status == 0) {
        sim_check_table_counters(self->check, self->state, variable, &answer->reply.counters);
    }
}

static void
check_control(sim_shard_t *self, const cadre_message_t *question, const cadre_message_t *answer)
{
    if (question->type == CADRE_MESSAGE_RESTORE) {
        on_restored(self, question);
    } else if (question->type == CADRE_MESSAGE_CREATE && answer->reply.status == 0) {
        check_part(self, question->create.variable, question->create.partition);
    } else if (question->type == CADRE_MESSAGE_SETTLE) {
        sim_check_settled(self->check, self->state, question, answer);
    } else if (question->type == CADRE_MESSAGE_END_STEP) {
        sim_check_end_step(self->check, self->state, question, answer);
    } else if (question->type == CADRE_MESSAGE_SNAPSHOT && answer->snapshot_taken.status == 0) {
        const cadre_snapshot_message_t *snapshot = &question->snapshot;
        sim_check_open_cut(self->check, self->state, snapshot->checkpoint, snapshot->cut);
    } else if (question->type == CADRE_MESSAGE_CLOSE_CUT && answer->reply.status == 0) {
        uint64_t cut = question->close_cut.cut;
        self->state->cut = cut > self->state->cut ? cut : self->state->cut;
    } else if (question->type == CADRE_MESSAGE_COUNT && question->count.variable > 0) {
        check_table_count(self, question, answer);
    } else if (question->type == CADRE_MESSAGE_COUNT && self->state) {
        sim_check_counters(self->check, self->state, answer->reply.counters.items);
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

/* A copy of `message`. */
static void
copy_message(const sim_shard_t *self, const cadre_message_t *message, cadre_message_t *out)
{
    cadre_chunk_t **chunks = cadre_calloc(message->chunk_count, sizeof(*chunks));
    cadre_outbox_entry_t entry = {.type = message->type,
                                  .header = cadre_message_encode(message),
                                  .chunks = chunks,
                                  .chunk_count = message->chunk_count};
    for (size_t i = 0; i < message->chunk_count; i++) {
        chunks[i] = cadre_chunk_ref(message->chunks[i]);
    }
    decode_entry(self, &entry, out);
    cadre_outbox_entry_fini(&entry);
}

/* --- loads --- */

/* Keeps a question that will be answered later; takes it. */
static void
note_asked(sim_shard_t *self, cadre_message_t *question)
{
    for (size_t i = 0; i < self->asked_count; i++) {
        if (self->asked[i].request == question->request) {
            cadre_message_fini(question); /* said again */
            return;
        }
    }
    self->asked = cadre_realloc(self->asked, self->asked_count + 1, sizeof(*self->asked));
    self->asked[self->asked_count++] = *question;
    *question = (cadre_message_t){0};
}

/* Takes the question that `request` was, if it was kept. */
static bool
take_asked(sim_shard_t *self, uint64_t request, cadre_message_t *out)
{
    for (size_t i = 0; i < self->asked_count; i++) {
        if (self->asked[i].request == request) {
            *out = self->asked[i];
            self->asked[i] = self->asked[--self->asked_count];
            return true;
        }
    }
    return false;
}

/* What the shard wants of checkpoints now. One thread reads them, one after the other. */
static void
order_loads(sim_shard_t *self)
{
    cadre_checkpoint_load_t *load = NULL;
    if (self->loads_from != self->effects.loads_from) {
        self->loads_from = self->effects.loads_from;
        forget_asked(self);
    }
    if (cadre_shard_generation(self->shard) == 0) {
        self->state = NULL;
    }
    while ((load = cadre_shard_effects_take_load(&self->effects))) {
        uint64_t from_ms = self->network->now_ms;
        if (self->load_count > 0 && self->loads[self->load_count - 1].due_ms > from_ms) {
            from_ms = self->loads[self->load_count - 1].due_ms;
        }
        uint32_t most_ms = load->path ? self->plan->load_ms_max : self->plan->load_ms_max / 20;
        uint64_t due_ms = from_ms + sim_between(self->random, 0, most_ms);
        self->loads = cadre_realloc(self->loads, self->load_count + 1, sizeof(*self->loads));
        self->loads[self->load_count++] = (sim_load_t){.due_ms = due_ms, .load = load};
        sim_network_at(self->network, due_ms - self->network->now_ms, SIM_TICK, self->node, 0);
    }
}

/* --- questions and answers --- */

/* Sends a refusal in the place of the answer to END_STEP, as of a shard that disagrees with its
 * coordinator about what it holds. */
static void
refuse_end(sim_shard_t *self, const cadre_outbox_entry_t *entry, const cadre_message_t *answer)
{
    cadre_message_t refusal = *answer;
    refusal.reply.status = (uint64_t)-CADRE_EINVALID;
    refusal.reply.text = SIM_REFUSED_STEP;
    self->check->refused_steps++;
    cadre_outbox_send(&self->answers, &entry->destination, &refusal);
}

/* Checks what the shard answers, to `question` (NULL for none) or to one of before; true when
 * `question` is answered. */
static bool
take_answers(sim_shard_t *self, cadre_plane_t plane, const cadre_message_t *question,
             bool from_coordinator)
{
    cadre_outbox_entry_t entry;
    bool is_answered = false;
    while (cadre_outbox_pop(&self->effects.outbox, &entry)) {
        cadre_message_t answer = {0};
        cadre_message_t before = {0};
        decode_entry(self, &entry, &answer);
        bool is_now = question && answer.request == question->request;
        if (plane == CADRE_PLANE_DATA) {
            check_data(self, question, &answer, from_coordinator);
        } else if (is_now) {
            check_control(self, question, &answer);
        } else if (take_asked(self, answer.request, &before)) {
            check_control(self, &before, &answer);
        } else {
            sim_check_fail(self->check, "shard %u answers what nobody asked", self->index);
        }
        is_answered = is_answered || is_now;
        cadre_message_fini(&before);
        if (is_now && self->plan->refuses_steps && question->type == CADRE_MESSAGE_END_STEP &&
            answer.reply.status == 0) {
            refuse_end(self, &entry, &answer);
        } else {
            cadre_outbox_repeat(&self->answers, &entry);
        }
        cadre_message_fini(&answer);
        cadre_outbox_entry_fini(&entry);
    }
    return is_answered;
}

/* Gives `message` to the shard and checks what it answers. */
static void
give(sim_shard_t *self, cadre_plane_t plane, const cadre_task_t *from, cadre_message_t *message)
{
    bool from_coordinator = from->role == CADRE_ROLE_COORDINATOR;
    cadre_message_t again = {0};
    copy_message(self, message, &again);
    if (again.type == CADRE_MESSAGE_PUSH && again.push.parts > 1) {
        sim_parts_add(&self->parts, &again);
    }
    cadre_shard_tick(self->shard, self->network->now_ms, &self->answers);
    cadre_shard_receive(self->shard, plane, from, message, &self->effects);
    order_loads(self);
    bool is_answered = take_answers(self, plane, &again, from_coordinator);
    cadre_message_t ended = {0};
    if (is_answered && plane == CADRE_PLANE_CONTROL) {
        take_asked(self, again.request, &ended);
    } else if (plane == CADRE_PLANE_CONTROL && again.request > 0) {
        note_asked(self, &again);
    }
    cadre_message_fini(&ended);
    cadre_message_fini(&again);
}

static void
check_window(const sim_shard_t *self)
{
    uint64_t base = cadre_shard_window_base(self->shard);
    if (self->state && base != self->state->cut) {
        sim_check_fail(self->check,
                       "I1: the window of shard %u begins at %" PRIu64 ", not at %" PRIu64,
                       self->index, base, self->state->cut);
    }
}

/* Carries out what is due. */
static void
run_loads(sim_shard_t *self)
{
    static const cadre_lanes_t none = {NULL, NULL};
    cadre_loader_t loader = sim_disk_loader(&self->loader);
    while (self->load_count > 0 && self->loads[0].due_ms <= self->network->now_ms) {
        cadre_checkpoint_load_t *load = self->loads[0].load;
        self->load_count--;
        memmove(self->loads, self->loads + 1, self->load_count * sizeof(*self->loads));
        if (load->number >= self->effects.loads_from) {
            cadre_checkpoint_load_run(load, &loader, &none, NULL);
        }
        cadre_shard_loaded(self->shard, &load, &self->effects.outbox);
        order_loads(self);
        take_answers(self, CADRE_PLANE_CONTROL, NULL, true);
        check_window(self);
    }
}

/* --- snapshots --- */

/* What a snapshot holds is the model's image of the cut; nobody may change it any more. */
static void
check_snapshot(sim_shard_t *self)
{
    for (size_t i = 0; i < self->snapshot->part_count; i++) {
        const cadre_shard_snapshot_part_t *part = &self->snapshot->parts[i];
        const sim_variable_t *variable = sim_check_variable(self->check, part->spec.variable);
        if (variable->dim == 0) { /* of a table its file is looked at (sim_disk.c) */
            sim_check_held(self->check, self->snapshot_state, variable,
                           (uint32_t)part->spec.partition, &part->references);
        }
    }
}

static void
look_for_snapshot(sim_shard_t *self)
{
    cadre_shard_snapshot_t *snapshot = cadre_shard_effects_take_snapshot(&self->effects);
    if (!snapshot) {
        return;
    }
    drop_snapshot(self);
    self->snapshot = snapshot;
    if (!self->state || !self->state->image) {
        sim_check_fail(self->check, "I5: shard %u closes a cut that is not open", self->index);
    }
    sim_check_snapshot(self->check, self->state->image, snapshot->checkpoint,
                       snapshot->state.window_base);
    self->snapshot_state = self->state->image;
    self->state->image = NULL;
    check_snapshot(self);
    sim_network_at(self->network, sim_between(self->random, 1, self->plan->write_ms_max),
                   SIM_STORED, self->node, snapshot->checkpoint);
}

static void
on_stored(sim_shard_t *self, uint64_t checkpoint)
{
    if (!self->snapshot || self->snapshot->checkpoint != checkpoint) {
        return; /* abandoned */
    }
    check_snapshot(self);
    cadre_ps_written_t written = {
        .checkpoint = checkpoint, .size_bytes = 1, .step = self->snapshot->step};
    snprintf(written.file, sizeof(written.file), "shard-%u.mdb", self->index);
    memcpy(written.counters, self->snapshot->counters, sizeof(written.counters));
    if (sim_chance(self->random, self->plan->write_fails)) {
        written.status = cadre_fail(CADRE_EIO, "the disk of the simulation is full");
    } else {
        written.status =
            sim_disk_write(self->disk, &self->snapshot, &self->snapshot_state, &written.hash);
    }
    if (written.status < 0) {
        snprintf(written.text, sizeof(written.text), "%.200s", cadre_error_text());
    }
    drop_snapshot(self);
    cadre_ps_core_written(self->core, &written, self->network->now_ms);
}

/* --- events --- */

static void
on_message(sim_shard_t *self, const cadre_task_t *coordinator, cadre_message_t *message)
{
    uint64_t ended =
        message->type == CADRE_MESSAGE_CHECKPOINT_END ? message->checkpoint_end.checkpoint : 0;
    give(self, CADRE_PLANE_CONTROL, coordinator, message);
    look_for_snapshot(self);
    if (ended > 0 && self->state) {
        sim_check_end_cut(self->state, ended);
    }
    check_window(self);
}

/* Its session is over: was there a reason? */
static void
on_left(sim_shard_t *self, const char *text)
{
    bool was_stuck = self->stuck_ms > 0 && strstr(text, "no progress");
    if (!self->stopping && !was_stuck) {
        sim_check_fail(self->check, "ps %u leaves: %s", self->index, text);
    }
    self->left = true;
}

static bool
is_stuck(const sim_shard_t *self)
{
    return self->stuck_ms > self->network->now_ms;
}

/* Keeps what the shard is given for when it moves again; takes it. */
static void
hold(sim_shard_t *self, const sim_held_t *held)
{
    self->held = cadre_realloc(self->held, self->held_count + 1, sizeof(*self->held));
    self->held[self->held_count++] = *held;
}

/* What a core has for its shard, in the session of this coordinator. */
static void
give_event(sim_shard_t *self, const cadre_task_t *coordinator, cadre_ps_event_t *event)
{
    if (event->kind == CADRE_PS_SESSION) {
        self->index = event->index;
        self->state = NULL;
        self->counted_ms = 0;
        cadre_shard_set_size_max(self->shard, sim_check_memory(self->check, event->index));
        cadre_shard_begin_session(self->shard, event->index, event->epoch, coordinator->incarnation,
                                  &self->effects);
        order_loads(self);
    } else if (event->kind == CADRE_PS_MESSAGE) {
        on_message(self, coordinator, &event->message);
    } else {
        cadre_shard_malformed(self->shard);
    }
}

static void
on_event(sim_shard_t *self, cadre_ps_event_t *event)
{
    cadre_task_t coordinator = cadre_ps_core_coordinator(self->core);
    switch (event->kind) {
    case CADRE_PS_SESSION:
    case CADRE_PS_MESSAGE:
    case CADRE_PS_MALFORMED:
        if (is_stuck(self)) {
            hold(self,
                 &(sim_held_t){.plane = CADRE_PLANE_CONTROL, .from = coordinator, .event = *event});
        } else {
            give_event(self, &coordinator, event);
        }
        break;
    case CADRE_PS_PROBE:
        break; /* answered in `count`, by a shard that moves */
    case CADRE_PS_ABANDON:
        if (self->snapshot && self->snapshot->checkpoint == event->checkpoint) {
            drop_snapshot(self);
        }
        break;
    case CADRE_PS_REDIAL:
        cadre_ps_core_connected(self->core, self->network->now_ms);
        break;
    case CADRE_PS_REFUSED:
        self->left = true;
        break;
    case CADRE_PS_LEFT:
        on_left(self, event->text);
        break;
    }
}

/* The core learns what the shard counts, as it was a while ago. */
static void
count(sim_shard_t *self)
{
    uint64_t now_ms = self->network->now_ms;
    if (is_stuck(self)) {
        return;
    }
    if (self->counted_ms == 0) {
        memcpy(self->counters, cadre_shard_counters(self->shard), sizeof(self->counters));
        self->generation = cadre_shard_generation(self->shard);
        self->counted_ms = now_ms + self->plan->count_ms;
    }
    if (now_ms >= self->counted_ms || self->generation != cadre_shard_generation(self->shard)) {
        self->generation = cadre_shard_generation(self->shard);
        cadre_ps_core_counted(self->core, self->counters, self->generation, true);
        self->counted_ms = 0;
    }
}

/* What it was given while it was stuck. */
static void
catch_up(sim_shard_t *self)
{
    for (size_t i = 0; i < self->held_count; i++) {
        sim_held_t *held = &self->held[i];
        if (held->plane == CADRE_PLANE_CONTROL) {
            give_event(self, &held->from, &held->event);
        } else {
            give(self, held->plane, &held->from, &held->message);
        }
    }
    cadre_free(&self->held);
    self->held_count = 0;
}

void
sim_shard_stick(sim_shard_t *self, uint64_t ms)
{
    self->stuck_ms = ms == SIM_FOR_EVER ? SIM_FOR_EVER : self->network->now_ms + ms;
    if (ms != SIM_FOR_EVER) {
        sim_network_at(self->network, ms, SIM_TICK, self->node, 0);
    }
}

void
sim_shard_turn(sim_shard_t *self)
{
    cadre_ps_event_t event;
    if (!is_stuck(self)) {
        catch_up(self);
        run_loads(self);
    }
    count(self);
    uint64_t due_ms = cadre_ps_core_tick(self->core, self->network->now_ms);
    if (!is_stuck(self)) {
        cadre_shard_tick(self->shard, self->network->now_ms, &self->answers);
    }
    if (cadre_shard_is_receiving(self->shard) &&
        self->network->now_ms + CADRE_SHARD_TICK_MS < due_ms) {
        due_ms = self->network->now_ms + CADRE_SHARD_TICK_MS;
    }
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
    } else if (is_stuck(self)) {
        hold(self, &(sim_held_t){.plane = plane, .from = *from, .message = *message});
        *message = (cadre_message_t){0};
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
sim_shard_check_left(const sim_shard_t *self, uint32_t gone)
{
    for (uint32_t i = 0; i < self->check->variable_count; i++) {
        const sim_variable_t *variable = &self->check->variables[i];
        bool is_gone = variable->given_up || gone >> i & 1;
        for (uint32_t k = 0; k < variable->part_count && is_gone; k++) {
            if (has_part(self, variable->id, k)) {
                sim_check_fail(self->check, "shard %u keeps part %u of variable %u (%s), which %s",
                               self->index, k, i + 1, variable->name,
                               variable->given_up ? "could not be created" : "was dropped");
            }
        }
    }
}

void
sim_shard_check_all(sim_shard_t *self)
{
    for (uint32_t i = 0; i < self->check->variable_count; i++) {
        const sim_variable_t *variable = &self->check->variables[i];
        for (uint32_t k = 0; k < variable->part_count && !variable->given_up && !variable->dropped;
             k++) {
            if (variable->parts[k].shard == self->index) {
                check_part(self, variable->id, k);
            }
        }
    }
}
