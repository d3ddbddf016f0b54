#include "ps/core/intake.h"
#include "ps/core/row_gradient.h"
#include "tests/ps/shard_fixture.h"

#include <math.h>

TestSuite(shard_push, .timeout = 240);

Test(shard_push, applies_an_update_to_all_its_partitions)
{
    fixture_t self = open_filled_shard();
    cr_assert(values_are(&self, 1, 1));
    cr_assert_eq(push_both(&self, 10, 0, 0.25f), 0);
    cr_assert(values_are(&self, 1, 0.75f));
    cr_assert(values_are(&self, 2, 0.75f));
    cr_assert_eq(cadre_partition_version(cadre_shard_partition(self.shard, 1, 0)), 1);
    cr_assert_eq(cadre_partition_steps(cadre_shard_partition(self.shard, 2, 0)), 1);
    cr_assert_eq(COUNTER(&self, applied), 1);
    cr_assert_eq(COUNTER(&self, push_bytes), 4 * (ROWS * COLUMNS + 4));
    close_shard(&self);
}

Test(shard_push, drops_a_push_it_has_seen)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 10, 0, 0.25f), 0);
    cr_assert_eq(push_both(&self, 10, 0, 0.25f), CADRE_EDUPLICATE);
    cr_assert_eq(push_both(&self, 10, 1, 0.5f), CADRE_EDUPLICATE, "by its id, not its contents");
    cr_assert(values_are(&self, 1, 0.75f));
    cr_assert_eq(COUNTER(&self, applied), 1);
    cr_assert_eq(COUNTER(&self, duplicate), 2);
    cr_assert_eq(COUNTER(&self, refused), 0);
    close_shard(&self);
}

/* What the shard says of a request with this update id, or sequence. */
static cadre_probed_t
state_of(fixture_t *self, const cadre_task_t *from, uint64_t update, uint64_t sequence)
{
    uint64_t triples[] = {7, update, sequence};
    cadre_message_t message = question(CADRE_MESSAGE_PROBE, from);
    cadre_message_t answer;
    message.probe = (cadre_probe_message_t){.generation = GENERATION, .requests = {triples, 3}};
    ask(self, from, &message, &answer);
    cr_assert_eq(answer.type, CADRE_MESSAGE_PROBED);
    cr_assert_eq(answer.probed.states.count, 2);
    cr_expect_eq(answer.probed.states.items[0], 7);
    cadre_probed_t state = (cadre_probed_t)answer.probed.states.items[1];
    cadre_message_fini(&answer);
    return state;
}

Test(shard_push, tells_an_applied_update_from_one_that_never_came)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 10, 0, 0.25f), 0);
    cr_expect_eq(state_of(&self, &THE_WORKER, 10, 0), CADRE_PROBED_APPLIED);
    cr_expect_eq(state_of(&self, &THE_WORKER, 11, 0), CADRE_PROBED_UNKNOWN);
    cr_expect_eq(state_of(&self, &THE_WORKER, 0, 0), CADRE_PROBED_UNKNOWN, "a PULL");
    cr_expect_eq(state_of(&self, &THE_COORDINATOR, 0, 1), CADRE_PROBED_UNKNOWN);
    cr_assert_eq(restore(&self, "", 5, GENERATION + 1), 0);
    cr_expect_eq(state_of(&self, &THE_WORKER, 10, 0), CADRE_PROBED_UNKNOWN, "another generation");
    cr_expect_eq(state_of(&self, &THE_WORKER, 3, 0), CADRE_PROBED_UNKNOWN, "whose base is 5");
    cr_expect_eq(COUNTER(&self, malformed), 0);
    close_shard(&self);
}

Test(shard_push, answers_a_push_that_is_settled_as_a_duplicate)
{
    fixture_t self = open_filled_shard();
    cadre_message_t settle = question(CADRE_MESSAGE_SETTLE, &THE_COORDINATOR);
    settle.settle = (cadre_settle_message_t){.base = 20, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &settle), 0);
    cr_assert_eq(push_both(&self, 19, 0, 0.25f), CADRE_EDUPLICATE);
    cr_assert_eq(push_both(&self, 20, 0, 0.25f), 0);
    cr_assert_eq(push_both(&self, 0, 0, 0.25f), CADRE_EDUPLICATE);
    close_shard(&self);
}

Test(shard_push, answers_versions_and_the_largest_staleness)
{
    fixture_t self = open_filled_shard();
    for (uint64_t update = 1; update <= 3; update++) {
        cr_assert_eq(push_both(&self, update, update - 1, 0), 0);
    }
    uint64_t triples[6];
    cadre_message_t message = push_message(4, 3, 0, triples);
    triples[5] = 1; /* variable 2 was pulled two updates ago */
    cadre_message_t answer;
    ask(&self, &THE_WORKER, &message, &answer);
    cr_assert_eq(answer.applied.staleness, 2);
    cr_assert_eq(answer.applied.generation, GENERATION);
    cr_assert_eq(answer.applied.versions.count, 2);
    cr_assert_eq(answer.applied.versions.items[0], 4);
    cr_assert_eq(answer.applied.versions.items[1], 4);
    cadre_message_fini(&answer);
    cr_assert_eq(push_both(&self, 5, 3, 0), 0);
    cr_assert_eq(COUNTER(&self, staleness_sum), 3);
    cr_assert_eq(COUNTER(&self, staleness_max), 2);
    close_shard(&self);
}

/* --- refusals: each with its own status, counted, and nothing changes --- */

typedef void (*spoil_t)(cadre_message_t *message);

static void
expect_refusal(spoil_t spoil, int status)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 10, 0, 0.25f), 0);
    uint64_t triples[6];
    cadre_message_t message = push_message(11, 1, 0.5f, triples);
    spoil(&message);
    cr_assert_eq(push(&self, &message), status, "%s", cadre_error_text());
    cr_assert(values_are(&self, 1, 0.75f));
    cr_assert(values_are(&self, 2, 0.75f));
    cr_assert_eq(cadre_partition_version(cadre_shard_partition(self.shard, 1, 0)), 1);
    cr_assert_eq(COUNTER(&self, refused), 1);
    cr_assert_eq(COUNTER(&self, applied), 1);
    cr_assert_eq(COUNTER(&self, duplicate), 0);
    cr_assert_eq(push_both(&self, 11, 1, 0.5f), 0, "the id is not used up");
    cr_assert(values_are(&self, 2, 0.25f));
    close_shard(&self);
}

static uint64_t *
triples_of(cadre_message_t *message)
{
    return (uint64_t *)message->push.partitions.items; /* of push_message's caller */
}

static void
other_generation(cadre_message_t *message)
{
    message->push.generation--;
}

static void
other_epoch(cadre_message_t *message)
{
    message->epoch++;
}

static void
beyond_the_window(cadre_message_t *message)
{
    message->push.update = 1 + (uint64_t)CADRE_APPLIED_WINDOW_MAX;
}

static void
unknown_variable(cadre_message_t *message)
{
    triples_of(message)[3] = 3;
}

static void
unknown_partition(cadre_message_t *message)
{
    triples_of(message)[4] = 1;
}

/* Two numbers that would hit another partition's key if they were not checked. */
static void
colliding_partition(cadre_message_t *message)
{
    triples_of(message)[3] = 1;
    triples_of(message)[4] = 1 << 16;
}

static void
enormous_variable(cadre_message_t *message)
{
    triples_of(message)[3] = (UINT64_C(1) << 48) + 2;
}

static void
named_twice(cadre_message_t *message)
{
    triples_of(message)[0] = 2;
    cadre_chunk_unref(&message->chunks[0]);
    message->chunks[0] = new_floats(4, 0.5f);
    cadre_chunk_unref(&message->chunks[1]);
    message->chunks[1] = message->chunks[2];
    message->chunk_count = 2;
}

static void
later_version(cadre_message_t *message)
{
    triples_of(message)[5] = 2;
}

static void
no_partitions(cadre_message_t *message)
{
    message->push.partitions.count = 0;
}

static void
half_a_triple(cadre_message_t *message)
{
    message->push.partitions.count = 5;
}

static void
too_few_chunks(cadre_message_t *message)
{
    cadre_chunk_unref(&message->chunks[--message->chunk_count]);
}

static void
too_many_chunks(cadre_message_t *message)
{
    cadre_message_add_chunk(message, new_floats(4, 1));
}

static void
short_last_chunk(cadre_message_t *message)
{
    cadre_chunk_unref(&message->chunks[2]);
    message->chunks[2] = new_floats(3, 1);
}

static void
long_last_chunk(cadre_message_t *message)
{
    cadre_chunk_unref(&message->chunks[2]);
    message->chunks[2] = new_floats(5, 1);
}

static void
nan_in_the_last_chunk(cadre_message_t *message)
{
    ((float *)cadre_chunk_data(message->chunks[2]))[3] = NAN;
}

static void
infinity_in_the_first_chunk(cadre_message_t *message)
{
    ((float *)cadre_chunk_data(message->chunks[0]))[0] = -INFINITY;
}

#define REFUSES(what, status)                                                                      \
    Test(shard_push, refuses_##what)                                                               \
    {                                                                                              \
        expect_refusal(what, status);                                                              \
    }

REFUSES(other_generation, CADRE_EFENCED)
REFUSES(other_epoch, CADRE_EFENCED)
REFUSES(beyond_the_window, CADRE_EFULL)
REFUSES(unknown_variable, CADRE_ENOTFOUND)
REFUSES(unknown_partition, CADRE_ENOTFOUND)
REFUSES(colliding_partition, CADRE_ENOTFOUND)
REFUSES(enormous_variable, CADRE_ENOTFOUND)
REFUSES(named_twice, CADRE_EINVALID)
REFUSES(later_version, CADRE_EINVALID)
REFUSES(no_partitions, CADRE_EMALFORMED)
REFUSES(half_a_triple, CADRE_EMALFORMED)
REFUSES(too_few_chunks, CADRE_ESHAPE)
REFUSES(too_many_chunks, CADRE_ESHAPE)
REFUSES(short_last_chunk, CADRE_ESHAPE)
REFUSES(long_last_chunk, CADRE_ESHAPE)
REFUSES(nan_in_the_last_chunk, CADRE_ENOTFINITE)
REFUSES(infinity_in_the_first_chunk, CADRE_ENOTFINITE)

Test(shard_push, takes_the_last_id_of_the_window)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, (uint64_t)CADRE_APPLIED_WINDOW_MAX, 0, 0.25f), 0);
    close_shard(&self);
}

Test(shard_push, names_what_it_refuses)
{
    fixture_t self = open_filled_shard();
    uint64_t triples[6];
    cadre_message_t message = push_message(11, 0, 0.5f, triples);
    long_last_chunk(&message);
    cadre_message_t answer;
    ask(&self, &THE_WORKER, &message, &answer);
    cr_assert_not_null(strstr(answer.applied.text, "other, partition 0"), "%s",
                       answer.applied.text);
    cadre_message_fini(&answer);
    close_shard(&self);
}

Test(shard_push, is_refused_before_the_shard_was_told_where_to_begin)
{
    fixture_t self = open_shard(NULL);
    cr_assert_eq(push_both(&self, 10, 0, 0.25f), CADRE_EFENCED);
    cadre_message_t answer;
    pull(&self, 1, 0, &answer);
    cr_assert_eq(-(int)answer.values.status, CADRE_EFENCED);
    cadre_message_fini(&answer);
    close_shard(&self);
}

/* --- assignments --- */

static int
assign(fixture_t *self, uint64_t sequence, cadre_assign_mode_t mode, float value)
{
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = sequence, .generation = GENERATION, .mode = mode, .variable = 1};
    add_big_gradient(&message, value);
    return reply_to(self, &THE_COORDINATOR, &message);
}

Test(shard_push, takes_an_assignment_once)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_SET, 4), 0);
    cr_assert_eq(assign(&self, 2, CADRE_ASSIGN_ADD, 2), 0);
    cr_assert_eq(assign(&self, 2, CADRE_ASSIGN_ADD, 2), 0);
    cr_assert(values_are(&self, 1, 6));
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_SET, 4), 0);
    cr_assert_eq(assign(&self, 3, CADRE_ASSIGN_SUB, 1), 0);
    cr_assert(values_are(&self, 1, 5));
    cr_assert_eq(COUNTER(&self, assigned), 3);
    cr_assert_eq(cadre_partition_version(cadre_shard_partition(self.shard, 1, 0)), 3);
    cr_assert_eq(cadre_partition_steps(cadre_shard_partition(self.shard, 1, 0)), 0);
    close_shard(&self);
}

Test(shard_push, refuses_a_bad_assignment_whole_and_takes_the_next)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_SET, NAN), CADRE_ENOTFINITE);
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_DIV, -0.0f), CADRE_EINVALID);
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = 2, .generation = GENERATION - 1, .mode = CADRE_ASSIGN_SET, .variable = 1};
    add_big_gradient(&message, 9);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_EFENCED);
    message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign =
        (cadre_assign_message_t){.sequence = 2, .generation = GENERATION, .variable = 1};
    cadre_message_add_chunk(&message, new_floats(4, 9));
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_ESHAPE);
    cr_assert(values_are(&self, 1, 1));
    cr_assert_eq(COUNTER(&self, assigned), 0);
    cr_assert_eq(assign(&self, 2, CADRE_ASSIGN_SET, 2), 0);
    cr_assert(values_are(&self, 1, 2));
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_SET, NAN), CADRE_ENOTFINITE, "late, too");
    cr_expect_eq(state_of(&self, &THE_COORDINATOR, 0, 1), CADRE_PROBED_UNKNOWN, "and not applied");
    cr_assert_eq(assign(&self, 3, CADRE_ASSIGN_SET, 3), 0);
    cr_expect_eq(state_of(&self, &THE_COORDINATOR, 0, 3), CADRE_PROBED_APPLIED);
    close_shard(&self);
}

/* --- rights --- */

static void
expect_no_answer(fixture_t *self, cadre_plane_t plane, const cadre_task_t *from,
                 cadre_message_t *message)
{
    uint64_t malformed = COUNTER(self, malformed);
    message->request = ++self->request;
    cadre_shard_receive(self->shard, plane, from, message, &self->effects);
    cr_assert_eq(cadre_outbox_count(&self->effects.outbox), 0);
    cr_assert_eq(COUNTER(self, malformed), malformed + 1);
}

Test(shard_push, drops_and_counts_what_is_for_another_shard)
{
    fixture_t self = open_filled_shard();
    cadre_message_t message = question(CADRE_MESSAGE_RESTORE, &THE_COORDINATOR);
    message.restore =
        (cadre_restore_message_t){.path = "", .generation = GENERATION + 1, .shard = 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    message = question(CADRE_MESSAGE_SETTLE, &THE_COORDINATOR);
    message.settle = (cadre_settle_message_t){.base = 9, .generation = GENERATION, .shard = 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    message = question(CADRE_MESSAGE_SNAPSHOT, &THE_COORDINATOR);
    message.snapshot = (cadre_snapshot_message_t){.generation = GENERATION, .shard = 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    uint64_t shape[2];
    message = question(CADRE_MESSAGE_CREATE, &THE_COORDINATOR);
    message.create = create_message(7, 2, 2, shape);
    message.create.shard = 1;
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    message = question(CADRE_MESSAGE_DROP, &THE_COORDINATOR);
    message.drop = (cadre_drop_message_t){.variable = 1, .generation = GENERATION, .shard = 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    message = question(CADRE_MESSAGE_RETIRE, &THE_COORDINATOR);
    message.retire = (cadre_retire_message_t){.variable = 1, .generation = GENERATION, .shard = 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    message = question(CADRE_MESSAGE_CLOSE_CUT, &THE_COORDINATOR);
    message.close_cut = (cadre_close_cut_message_t){
        .checkpoint = 1, .cut = 1, .directory = "", .generation = GENERATION, .shard = 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    cr_assert_eq(cadre_shard_generation(self.shard), GENERATION);
    cr_assert_null(cadre_shard_partition(self.shard, 7, 0));
    cr_assert(values_are(&self, 1, 1));
    close_shard(&self);
}

Test(shard_push, drops_and_counts_what_a_sender_may_not_send)
{
    fixture_t self = open_filled_shard();
    uint64_t triples[6];
    cadre_message_t message = push_message(10, 0, 1, triples);
    message.incarnation = COORDINATOR;
    expect_no_answer(&self, CADRE_PLANE_DATA, &THE_COORDINATOR, &message);
    message = push_message(10, 0, 1, triples);
    message.incarnation++;
    expect_no_answer(&self, CADRE_PLANE_DATA, &THE_WORKER, &message);
    message = push_message(10, 0, 1, triples);
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_WORKER, &message);
    message = question(CADRE_MESSAGE_RESTORE, &THE_WORKER);
    message.restore = (cadre_restore_message_t){.path = "", .generation = GENERATION + 1};
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_WORKER, &message);
    message = question(CADRE_MESSAGE_STOP, &THE_COORDINATOR);
    expect_no_answer(&self, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message);
    static const cadre_task_t stranger = {CADRE_ROLE_COORDINATOR, 777, COORDINATOR + 1};
    message = question(CADRE_MESSAGE_PULL, &stranger); /* it knows the epoch, as workers do */
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .partitions = {triples, 3}};
    expect_no_answer(&self, CADRE_PLANE_DATA, &stranger, &message);
    message = question(CADRE_MESSAGE_ASSIGN, &stranger);
    message.assign = (cadre_assign_message_t){.sequence = 1, .generation = GENERATION};
    expect_no_answer(&self, CADRE_PLANE_DATA, &stranger, &message);
    cr_assert(values_are(&self, 1, 1));
    close_shard(&self);
}

/* Part `part` of three of the push of both variables: two chunks of the first one, and the other.
 */
static cadre_message_t
part_of_push(uint64_t update, uint64_t part, float value, uint64_t triples[6])
{
    cadre_message_t message = push_message(update, 0, value, triples);
    cadre_chunk_t *chunk = cadre_chunk_ref(message.chunks[part]);
    for (size_t i = 0; i < message.chunk_count; i++) {
        cadre_chunk_unref(&message.chunks[i]);
    }
    message.chunk_count = 1;
    message.chunks[0] = chunk;
    message.request = 7;
    message.push.part = part;
    message.push.parts = 3;
    message.push.partitions.items = triples + (part == 2 ? 3 : 0);
    message.push.partitions.count = part == 1 ? 0 : 3;
    return message;
}

static cadre_message_t
reserve_message(uint64_t update, uint64_t size_bytes)
{
    cadre_message_t message = question(CADRE_MESSAGE_RESERVE, &THE_WORKER);
    message.request = 7;
    message.reserve = (cadre_reserve_message_t){
        .update = update, .generation = GENERATION, .size_bytes = size_bytes};
    return message;
}

/* Gives the shard a message; how many answers there are, and the first one's type. */
static size_t
answers_to(fixture_t *self, cadre_message_t *message, cadre_message_type_t *type)
{
    cadre_outbox_t *outbox = &self->effects.outbox;
    cadre_outbox_entry_t entry;
    cadre_shard_receive(self->shard, CADRE_PLANE_DATA, &THE_WORKER, message, &self->effects);
    size_t count = cadre_outbox_count(outbox);
    if (cadre_outbox_pop(outbox, &entry)) {
        *type = entry.type;
        cadre_outbox_entry_fini(&entry);
    }
    cadre_outbox_fini(outbox);
    return count;
}

Test(shard_push, applies_an_update_that_came_in_parts_in_one_turn)
{
    enum { BYTES = 4 * (ROWS * COLUMNS + 4) };
    fixture_t self = open_filled_shard();
    uint64_t triples[6];
    cadre_message_type_t type = CADRE_MESSAGE_HELLO;
    cadre_message_t message = reserve_message(10, BYTES);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_GRANT);
    for (uint64_t part = 0; part < 3; part++) {
        cr_expect(values_are(&self, 1, 1), "nothing is applied yet");
        message = part_of_push(10, part, 0.25f, triples);
        cr_expect_eq(answers_to(&self, &message, &type), part == 2);
    }
    cr_expect_eq(type, CADRE_MESSAGE_APPLIED);
    cr_expect(values_are(&self, 1, 0.75f));
    cr_expect(values_are(&self, 2, 0.75f));
    cr_expect_eq(COUNTER(&self, applied), 1);
    cr_expect_not(cadre_shard_is_receiving(self.shard));
    message = reserve_message(10, BYTES); /* said again: it need not come */
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_APPLIED);
    message = part_of_push(10, 0, 0.25f, triples);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    message = part_of_push(10, 1, 0.25f, triples);
    cr_expect_eq(answers_to(&self, &message, &type), 0, "it was said at the first part");
    cr_expect_eq(COUNTER(&self, duplicate), 2);
    cr_expect_eq(COUNTER(&self, applied), 1);
    close_shard(&self);
}

/* A worker whose window is full asks for a small update too, which needs no parts. */
Test(shard_push, keeps_no_room_for_an_update_that_came_whole)
{
    fixture_t self = open_filled_shard();
    uint64_t triples[6];
    cadre_message_type_t type = CADRE_MESSAGE_HELLO;
    cadre_message_t message = reserve_message(10, 100);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_GRANT);
    cr_expect(cadre_shard_is_receiving(self.shard));
    message = push_message(10, 0, 0.25f, triples);
    message.request = 7;
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_APPLIED);
    cr_expect_not(cadre_shard_is_receiving(self.shard));
    close_shard(&self);
}

/* Rows with their numbers are more than the rows alone. */
Test(shard_push, refuses_room_for_more_than_it_can_be_pushed)
{
    enum { MOST = CADRE_ROW_GRADIENT_FACTOR * 4 * (ROWS * COLUMNS + 4) };
    fixture_t self = open_filled_shard();
    cadre_message_type_t type = CADRE_MESSAGE_HELLO;
    cadre_message_t message = reserve_message(10, MOST + CADRE_ROW_GRADIENT_FACTOR);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_APPLIED);
    cr_expect_eq(COUNTER(&self, refused), 1);
    message = reserve_message(10, MOST);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_GRANT);
    close_shard(&self);
}

Test(shard_push, forgets_what_was_reserved_with_its_state)
{
    fixture_t self = open_filled_shard();
    cadre_message_type_t type = CADRE_MESSAGE_HELLO;
    cadre_message_t message = reserve_message(10, (uint64_t)1 << 40);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_APPLIED);
    cr_expect_eq(COUNTER(&self, refused), 1);
    message = reserve_message(10, 100);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_expect_eq(type, CADRE_MESSAGE_GRANT);
    cr_expect(cadre_shard_is_receiving(self.shard));
    cr_assert_eq(restore(&self, "", 5, GENERATION + 1), 0);
    cr_expect_not(cadre_shard_is_receiving(self.shard));
    message = reserve_message(10, 100);
    cr_assert_eq(answers_to(&self, &message, &type), 1, "of another generation");
    cr_expect_eq(type, CADRE_MESSAGE_APPLIED);
    close_shard(&self);
}

/* What they said meanwhile lies in the sockets, which are read after the tick. */
Test(shard_push, counts_its_own_stall_against_no_peer_that_has_reserved_room)
{
    enum { LATE_MS = 10 * CADRE_GRANT_MS_MAX, BEGIN_MS = 1000 };
    const cadre_shard_options_t options = {
        .incarnation = PS, .size_bytes_max = 64 << 20, .intake_bytes = 1000};
    fixture_t self = {.shard = cadre_shard_new(&options), .request = 100};
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    fill_shard(&self);
    cadre_shard_tick(self.shard, BEGIN_MS, &self.effects.outbox);
    cadre_message_type_t type = CADRE_MESSAGE_HELLO;
    cadre_message_t message = reserve_message(10, 1000);
    cr_assert_eq(answers_to(&self, &message, &type), 1);
    cr_assert_eq(type, CADRE_MESSAGE_GRANT);
    message = reserve_message(11, 1000);
    message.request = 8;
    cr_assert_eq(answers_to(&self, &message, &type), 0, "it waits");

    uint64_t now_ms = BEGIN_MS + LATE_MS;
    cadre_shard_tick(self.shard, now_ms, &self.effects.outbox);
    cadre_outbox_fini(&self.effects.outbox); /* maybe the GRANT was lost */
    cr_assert(cadre_shard_is_receiving(self.shard));
    for (uint64_t ms = 0; ms < CADRE_GRANT_MS_MAX; ms += CADRE_SHARD_TICK_MS) {
        cr_assert(cadre_shard_is_receiving(self.shard), "%zu ms after it", (size_t)ms);
        cadre_shard_tick(self.shard, now_ms + ms, &self.effects.outbox);
    }
    cadre_shard_tick(self.shard, now_ms + CADRE_GRANT_MS_MAX, &self.effects.outbox);
    cr_expect_not(cadre_shard_is_receiving(self.shard), "it was silent itself");
    cadre_outbox_fini(&self.effects.outbox);
    close_shard(&self);
}
