/*
 * What a shard makes of messages around a RESTORE: those of before it that arrive after it, the
 * RESTORE itself said again, and one that failed.
 */
#include "tests/ps/shard_fixture.h"

TestSuite(shard_recovery, .timeout = 240);

enum { NEXT = GENERATION + 1, CUT = 50, UPDATE = 60 };

static int
settle(fixture_t *self, uint64_t base, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_SETTLE, &THE_COORDINATOR);
    message.settle = (cadre_settle_message_t){.base = base, .generation = generation};
    return reply_to(self, &THE_COORDINATOR, &message);
}

static int
create_of(fixture_t *self, uint64_t variable, uint64_t generation)
{
    uint64_t shape[2];
    cadre_create_message_t message = variable == 1 ? create_message(1, ROWS, COLUMNS, shape)
                                                   : create_message(variable, 2, 2, shape);
    message.generation = generation;
    return create(self, &message);
}

static int
assign(fixture_t *self, uint64_t sequence, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = sequence, .generation = generation, .mode = CADRE_ASSIGN_SET, .variable = 2};
    cadre_message_add_chunk(&message, new_floats(4, 9));
    return reply_to(self, &THE_COORDINATOR, &message);
}

static int
snapshot(fixture_t *self, uint64_t checkpoint, uint64_t generation)
{
    int status = open_cut(self, checkpoint, 1000, generation);
    return status == 0 ? close_cut(self, checkpoint, 1000, "/draft", generation) : status;
}

static int
push_at(fixture_t *self, uint64_t update, uint64_t generation)
{
    uint64_t triples[6];
    cadre_message_t message = push_message(update, 0, 0.5f, triples);
    message.push.generation = generation;
    return push(self, &message);
}

static float
first_of(const fixture_t *self, uint64_t variable)
{
    cadre_partition_snapshot_t taken;
    cadre_partition_snapshot(cadre_shard_partition(self->shard, variable, 0), &taken);
    float value = *(const float *)cadre_chunk_data(taken.values[0]);
    cadre_partition_snapshot_fini(&taken);
    return value;
}

/* A shard with a past: updates, an assignment, a settled window, a snapshot; then restored. */
static fixture_t
restored_shard(void)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_at(&self, UPDATE, GENERATION), 0);
    cr_assert_eq(assign(&self, 1, GENERATION), 0);
    cr_assert_eq(snapshot(&self, 1, GENERATION), 0);
    cr_assert_eq(restore(&self, "", CUT, NEXT), 0);
    return self;
}

Test(shard_recovery, messages_of_before_a_restore_change_nothing_after_it)
{
    fixture_t self = restored_shard();
    cr_assert_null(cadre_shard_effects_take_snapshot(&self.effects),
                   "nor is a snapshot of before written");
    cr_assert_eq(create_of(&self, 1, GENERATION), CADRE_EFENCED);
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(create_of(&self, 1, NEXT), 0);
    cr_assert_eq(create_of(&self, 2, NEXT), 0);
    cr_assert_eq(settle(&self, 1000, GENERATION), CADRE_EFENCED);
    cr_assert_eq(assign(&self, 2, GENERATION), CADRE_EFENCED);
    cr_assert_eq(snapshot(&self, 2, GENERATION), CADRE_EFENCED);
    cr_assert_null(cadre_shard_effects_take_snapshot(&self.effects));
    cr_assert_eq(push_at(&self, UPDATE, GENERATION), CADRE_EFENCED);
    cr_assert_eq(restore(&self, "", 7, GENERATION), CADRE_EFENCED);
    cr_assert_eq(first_of(&self, 1), 1);
    cr_assert_eq(first_of(&self, 2), 1);
    cr_assert_eq(push_at(&self, CUT - 1, NEXT), CADRE_EDUPLICATE, "the restore's cut stands");
    cr_assert_eq(push_at(&self, UPDATE, NEXT), 0, "its update of before went with its values");
    cr_assert_eq(assign(&self, 1, NEXT), 0, "assignments are counted anew");
    close_shard(&self);
}

Test(shard_recovery, a_shard_without_a_generation_settles_nothing)
{
    fixture_t self = open_shard(NULL);
    cr_assert_eq(settle(&self, 1000, 0), CADRE_EFENCED);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(settle(&self, 1000, 0), CADRE_EFENCED);
    cr_assert_eq(settle(&self, 1000, NEXT), CADRE_EFENCED);
    cr_assert_eq(create_of(&self, 1, GENERATION), 0);
    cr_assert_eq(create_of(&self, 2, GENERATION), 0);
    cr_assert_eq(push_at(&self, 999, GENERATION), 0);
    cr_assert_eq(settle(&self, 1000, GENERATION), 0);
    cr_assert_eq(push_at(&self, 998, GENERATION), CADRE_EDUPLICATE);
    close_shard(&self);
}

Test(shard_recovery, a_restore_said_again_after_updates_changes_nothing)
{
    fixture_t self = restored_shard();
    cr_assert_eq(create_of(&self, 1, NEXT), 0);
    cr_assert_eq(create_of(&self, 2, NEXT), 0);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), 0);
    cr_assert_eq(assign(&self, 1, NEXT), 0);
    cr_assert_eq(snapshot(&self, 3, NEXT), 0);
    cr_assert_eq(restore(&self, "", CUT, NEXT), 0);
    cr_assert_eq(restore(&self, "", CUT - 20, NEXT), 0);
    cr_assert_eq(restore(&self, "/nowhere", CUT, NEXT), 0, "its generation says what it is");
    cr_assert_eq(cadre_shard_partition_count(self.shard), 2);
    cr_assert_eq(first_of(&self, 1), 0.5f);
    cr_assert_eq(first_of(&self, 2), 9);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), CADRE_EDUPLICATE);
    cr_assert_eq(COUNTER(&self, applied), 1);
    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self.effects);
    cr_assert_not_null(taken);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

/* --- a restore that fails --- */

static int
fail_to_open(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    (void)context, (void)index, (void)state;
    return cadre_fail(CADRE_ECORRUPT, "%s is damaged", path);
}

static void
close_nothing(void *context)
{
    (void)context;
}

Test(shard_recovery, a_failed_restore_serves_nobody_and_a_later_one_does)
{
    cadre_loader_t loader = {.open = fail_to_open, .close = close_nothing};
    uint64_t shape[2];
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t weights = create_message(1, ROWS, COLUMNS, shape);
    cr_assert_eq(create(&self, &weights), 0);
    cr_assert_eq(create_of(&self, 2, GENERATION), 0);
    cr_assert_eq(restore(&self, "/damaged", CUT, NEXT), CADRE_ECORRUPT);
    for (uint64_t generation = GENERATION; generation <= NEXT; generation++) {
        cr_assert_eq(create_of(&self, 1, generation), CADRE_EFENCED);
        cr_assert_eq(settle(&self, 1000, generation), CADRE_EFENCED);
        cr_assert_eq(assign(&self, 1, generation), CADRE_EFENCED);
        cr_assert_eq(snapshot(&self, 1, generation), CADRE_EFENCED);
        cr_assert_eq(push_at(&self, UPDATE, generation), CADRE_EFENCED);
    }
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(cadre_shard_generation(self.shard), 0);
    cr_assert_eq(restore(&self, "", CUT, GENERATION), CADRE_EFENCED,
                 "one of before it, that comes only now");
    cr_assert_eq(restore(&self, "/damaged", CUT, NEXT), CADRE_ECORRUPT);
    cr_assert_eq(restore(&self, "", CUT, NEXT + 1), 0);
    cr_assert_eq(create_of(&self, 1, NEXT + 1), 0);
    cr_assert_eq(create_of(&self, 2, NEXT + 1), 0);
    cr_assert_eq(push_at(&self, UPDATE, NEXT + 1), 0);
    close_shard(&self);
}

Test(shard_recovery, another_session_counts_generations_anew)
{
    fixture_t self = restored_shard();
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create_of(&self, 1, 1), 0);
    close_shard(&self);
}

/* --- while a checkpoint is read --- */

/* A checkpoint that holds variables 1 and 2, all elements 3. */
static int
open_sound(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    (void)context, (void)path, (void)index;
    *state = (cadre_shard_state_t){.applied = 11};
    return 0;
}

static int
find_both(void *context, const char *variable, cadre_stored_variable_t *out)
{
    (void)context;
    bool is_big = strcmp(variable, "weights") == 0;
    *out = (cadre_stored_variable_t){
        .dtype = CADRE_F32, .rank = 2, .shape = {is_big ? ROWS : 2, is_big ? COLUMNS : 2}};
    return 0;
}

static int
prepare_nothing(void *context, const cadre_checkpoint_range_t *range,
                const cadre_give_up_t *give_up)
{
    (void)context, (void)range, (void)give_up;
    return 0;
}

static int
read_threes(void *context, const cadre_checkpoint_range_t *range, void *out,
            cadre_change_counts_t *counts)
{
    const bool *is_damaged = context;
    for (int64_t i = 0; i < range->count; i++) {
        ((float *)out)[i] = 3;
    }
    *counts = (cadre_change_counts_t){.version = 4, .steps = 4};
    return *is_damaged ? cadre_fail(CADRE_ECORRUPT, "damaged") : 0;
}

/* A shard whose loads are carried out when the test says so; `damaged`: none succeeds. */
static fixture_t
late_shard(bool *damaged)
{
    cadre_loader_t loader = {.context = damaged,
                             .open = open_sound,
                             .find = find_both,
                             .prepare = prepare_nothing,
                             .read = read_threes,
                             .close = close_nothing};
    fixture_t self = open_shard(&loader);
    self.late = true;
    return self;
}

/* Asks, as from the wire, without awaiting an answer; the request's number. */
static uint64_t
say(fixture_t *self, cadre_message_t *message)
{
    cadre_message_t received;
    message->request = ++self->request;
    cadre_chunk_t *header = cadre_message_encode(message);
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      NULL, 0, &received),
                 0, "%s", cadre_error_text());
    cadre_chunk_unref(&header);
    cadre_shard_receive(self->shard, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &received,
                        &self->effects);
    return self->request;
}

static uint64_t
say_restore(fixture_t *self, const char *path, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_RESTORE, &THE_COORDINATOR);
    message.restore = (cadre_restore_message_t){.path = path, .cut = CUT, .generation = generation};
    return say(self, &message);
}

static uint64_t
say_create(fixture_t *self, uint64_t variable, uint64_t generation)
{
    uint64_t shape[2];
    cadre_message_t message = question(CADRE_MESSAGE_CREATE, &THE_COORDINATOR);
    message.create = variable == 1 ? create_message(1, ROWS, COLUMNS, shape)
                                   : create_message(variable, 2, 2, shape);
    message.create.generation = generation;
    return say(self, &message);
}

/* Takes the next answer, a REPLY to this request; its status. */
static int
answered(fixture_t *self, uint64_t request)
{
    cadre_outbox_entry_t entry;
    cadre_message_t answer;
    cr_assert(cadre_outbox_pop(&self->effects.outbox, &entry), "it is answered");
    cr_assert_eq(entry.plane, CADRE_PLANE_CONTROL);
    cr_assert(cadre_task_equal(&entry.destination, &THE_COORDINATOR));
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), NULL, 0, &answer),
                 0);
    cr_assert_eq(answer.type, CADRE_MESSAGE_REPLY);
    cr_assert_eq(answer.request, request);
    cadre_outbox_entry_fini(&entry);
    int status = -(int)answer.reply.status;
    cadre_message_fini(&answer);
    return status;
}

static bool
is_silent(const fixture_t *self)
{
    return cadre_outbox_count(&self->effects.outbox) == 0;
}

/* Carries the next load out; how many answers that makes. */
static size_t
carry_out_one(fixture_t *self)
{
    static const cadre_lanes_t none = {NULL, NULL};
    cadre_checkpoint_load_t *load = cadre_shard_effects_take_load(&self->effects);
    cr_assert_not_null(load);
    cadre_checkpoint_load_run(load, &self->loader, &none, NULL);
    cadre_shard_loaded(self->shard, &load, &self->effects.outbox);
    cr_assert_null(load);
    return cadre_outbox_count(&self->effects.outbox);
}

static int
count(fixture_t *self)
{
    cadre_message_t message = question(CADRE_MESSAGE_COUNT, &THE_COORDINATOR);
    return reply_to(self, &THE_COORDINATOR, &message);
}

/* What PROBED says of one request. */
static uint64_t
probed(fixture_t *self, uint64_t request)
{
    uint64_t triple[] = {request, 0, 0};
    cadre_outbox_entry_t entry;
    cadre_message_t answer;
    cadre_message_t message = question(CADRE_MESSAGE_PROBE, &THE_COORDINATOR);
    message.probe = (cadre_probe_message_t){.generation = NEXT, .requests = {triple, 3}};
    say(self, &message);
    cr_assert(cadre_outbox_pop(&self->effects.outbox, &entry));
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), NULL, 0, &answer),
                 0);
    cr_assert_eq(answer.type, CADRE_MESSAGE_PROBED);
    cr_assert_eq(answer.probed.states.items[0], request);
    uint64_t state = answer.probed.states.items[1];
    cadre_outbox_entry_fini(&entry);
    cadre_message_fini(&answer);
    return state;
}

Test(shard_recovery, what_waits_for_a_load_is_known)
{
    bool damaged = false;
    fixture_t self = late_shard(&damaged);
    uint64_t restored = say_restore(&self, "/ckpt", NEXT);
    cr_assert_eq(probed(&self, restored), CADRE_PROBED_QUEUED);
    cr_assert_eq(probed(&self, restored + 1000), CADRE_PROBED_UNKNOWN);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, restored), 0);
    cr_assert_eq(probed(&self, restored), CADRE_PROBED_UNKNOWN);
    uint64_t created = say_create(&self, 1, NEXT);
    cr_assert_eq(probed(&self, created), CADRE_PROBED_QUEUED);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, created), 0);
    cr_assert_eq(probed(&self, created), CADRE_PROBED_UNKNOWN);
    close_shard(&self);
}

Test(shard_recovery, answers_everything_else_while_a_checkpoint_is_read)
{
    bool damaged = false;
    fixture_t self = late_shard(&damaged);
    uint64_t restored = say_restore(&self, "/ckpt", NEXT);
    cr_assert(is_silent(&self));
    cr_assert_eq(cadre_shard_generation(self.shard), 0);
    cr_assert_eq(create_of(&self, 1, NEXT), CADRE_EFENCED, "nobody asks for it yet");
    cr_assert_eq(count(&self), 0);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), CADRE_EFENCED);
    restored = say_restore(&self, "/ckpt", NEXT);
    cr_assert(is_silent(&self), "said again");
    cr_assert_eq(carry_out_one(&self), 1);
    cr_assert_eq(answered(&self, restored), 0);
    cr_assert_eq(COUNTER(&self, applied), 11);
    cr_assert_eq(cadre_shard_generation(self.shard), NEXT);
    uint64_t created = say_create(&self, 1, NEXT);
    cr_assert(is_silent(&self), "it is being loaded");
    created = say_create(&self, 1, NEXT);
    cr_assert(is_silent(&self), "said again");
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(count(&self), 0);
    cr_assert_eq(carry_out_one(&self), 1);
    cr_assert_eq(answered(&self, created), 0);
    cr_assert_eq(first_of(&self, 1), 3);
    cr_assert_eq(cadre_partition_version(cadre_shard_partition(self.shard, 1, 0)), 4);
    cr_assert_null(cadre_shard_effects_take_load(&self.effects), "once");
    close_shard(&self);
}

static void
count_step(void *context)
{
    ++*(size_t *)context;
}

Test(shard_recovery, gives_a_sign_after_each_chunk_that_it_draws)
{
    enum { ROW_COUNT = 1 << 20 }; /* of 16 bytes: 16 chunks */
    size_t steps = 0;
    uint64_t shape[2];
    cadre_shard_options_t options = {.incarnation = PS,
                                     .size_bytes_max = 64 << 20,
                                     .on_step = count_step,
                                     .step_context = &steps};
    fixture_t self = {.shard = cadre_shard_new(&options)};
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, ROW_COUNT, 4, shape);
    cr_assert_eq(create(&self, &message), 0);
    cr_assert_eq(steps, 16);
    close_shard(&self);
}

Test(shard_recovery, what_is_there_is_served_while_the_rest_is_loaded)
{
    bool damaged = false;
    fixture_t self = late_shard(&damaged);
    say_restore(&self, "/ckpt", NEXT);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, self.request), 0);
    say_create(&self, 2, NEXT);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, self.request), 0);
    uint64_t created = say_create(&self, 1, NEXT);
    cr_assert_eq(assign(&self, 1, NEXT), 0);
    cr_assert_eq(first_of(&self, 2), 9);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), CADRE_ENOTFOUND, "variable 1 is not there yet");
    cr_assert_eq(carry_out_one(&self), 1);
    cr_assert_eq(answered(&self, created), 0);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), 0);
    close_shard(&self);
}

Test(shard_recovery, a_later_restore_gives_up_what_is_being_loaded)
{
    bool damaged = false;
    for (int opened = 0; opened < 2; opened++) {
        fixture_t self = late_shard(&damaged);
        say_restore(&self, "/ckpt", NEXT);
        if (opened) {
            carry_out_one(&self);
            cr_assert_eq(answered(&self, self.request), 0);
        }
        if (opened) {
            say_create(&self, 1, NEXT);
        }
        cadre_checkpoint_load_t *load = cadre_shard_effects_take_load(&self.effects);
        cr_assert_not_null(load);
        cr_assert_eq(self.effects.loads_from <= load->number, true);
        cr_assert_eq(restore(&self, "", CUT, NEXT + 1), 0);
        cr_assert_gt(self.effects.loads_from, load->number);
        load->status = 0;
        cadre_shard_loaded(self.shard, &load, &self.effects.outbox);
        cr_assert(is_silent(&self), "whoever asked for it does not any more");
        cr_assert_eq(cadre_shard_generation(self.shard), NEXT + 1);
        cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
        cr_assert_eq(create_of(&self, 1, NEXT + 1), 0);
        cr_assert_eq(first_of(&self, 1), 1, "its initial value");
        close_shard(&self);
    }
}

Test(shard_recovery, a_session_that_ends_gives_up_what_is_being_loaded)
{
    bool damaged = false;
    fixture_t self = late_shard(&damaged);
    say_restore(&self, "/ckpt", NEXT);
    cadre_checkpoint_load_t *load = cadre_shard_effects_take_load(&self.effects);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_gt(self.effects.loads_from, load->number);
    cadre_shard_loaded(self.shard, &load, &self.effects.outbox);
    cr_assert(is_silent(&self));
    cr_assert_eq(cadre_shard_generation(self.shard), 0);
    close_shard(&self);
}

Test(shard_recovery, a_drop_gives_up_what_is_being_loaded)
{
    bool damaged = false;
    fixture_t self = late_shard(&damaged);
    say_restore(&self, "/ckpt", NEXT);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, self.request), 0);
    uint64_t created = say_create(&self, 1, NEXT);
    cadre_message_t message = question(CADRE_MESSAGE_DROP, &THE_COORDINATOR);
    message.drop = (cadre_drop_message_t){.variable = 1, .generation = NEXT};
    uint64_t dropped = say(&self, &message);
    cr_assert_eq(answered(&self, created), CADRE_EFENCED);
    cr_assert_eq(answered(&self, dropped), 0);
    cr_assert_eq(carry_out_one(&self), 0, "nobody asks for it");
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    close_shard(&self);
}

Test(shard_recovery, a_load_that_fails_gives_its_memory_back)
{
    bool damaged = true;
    fixture_t self = late_shard(&damaged);
    say_restore(&self, "/ckpt", NEXT);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, self.request), 0);
    for (int i = 0; i < 100; i++) { /* of 1.2 MB each, in a shard of 64 MB */
        damaged = i < 99;
        say_create(&self, 1, NEXT);
        cr_assert_eq(carry_out_one(&self), 1);
        cr_assert_eq(answered(&self, self.request), damaged ? CADRE_ECORRUPT : 0);
    }
    close_shard(&self);
}

Test(shard_recovery, a_create_of_another_one_is_refused_while_the_first_is_loaded)
{
    bool damaged = false;
    uint64_t shape[2];
    fixture_t self = late_shard(&damaged);
    say_restore(&self, "/ckpt", NEXT);
    carry_out_one(&self);
    cr_assert_eq(answered(&self, self.request), 0);
    uint64_t created = say_create(&self, 2, NEXT);
    cadre_message_t message = question(CADRE_MESSAGE_CREATE, &THE_COORDINATOR);
    message.create = create_message(2, 3, 3, shape);
    message.create.generation = NEXT;
    uint64_t other = say(&self, &message);
    cr_assert_eq(answered(&self, other), CADRE_EEXISTS);
    cr_assert_eq(carry_out_one(&self), 1);
    cr_assert_eq(answered(&self, created), 0);
    close_shard(&self);
}
