/*
 * Rows of tables that the asker of a PULL holds: what has not changed is left out.
 */
#include "ps/core/shard_rows.h"

#include "tests/ps/table_fixture.h"

TestSuite(shard_held, .timeout = 240);

enum { PULLED = 4 };

static const uint64_t PULLED_KEYS[PULLED] = {3, 4, 5, 9};

/* A PULL of the keys by one who holds rows of these ages below `newest`; `record` lives as long. */
static cadre_message_t
pull_held(uint64_t *newest, const uint16_t ages[PULLED], uint64_t *record)
{
    const uint64_t numbers[] = {TABLE, 0, CADRE_ROWS_LISTED, PULLED};
    memcpy(record, numbers, sizeof(numbers));
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull =
        (cadre_pull_message_t){.generation = GENERATION, .rows = {record, 4}, .held = {newest, 1}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(PULLED_KEYS, sizeof(PULLED_KEYS)));
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(ages, PULLED * sizeof(*ages)));
    return message;
}

/* Expects the answer to leave out the rows of these bits, and to have the others, which begin with
 * `numbers`. */
static void
expect_left_out(fixture_t *self, uint64_t newest, const uint16_t ages[PULLED], uint64_t bits,
                const float *numbers)
{
    uint64_t record[4];
    cadre_message_t answer;
    cadre_message_t message = pull_held(&newest, ages, record);
    const size_t count = PULLED - (size_t)__builtin_popcountll(bits);
    const uint64_t pulled = COUNTER(self, rows_pulled);
    const uint64_t unchanged = COUNTER(self, rows_unchanged);
    ask(self, &THE_WORKER, &message, &answer);
    cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
    cr_assert_eq(answer.values.unchanged.count, bits ? 1 : 0);
    cr_assert(bits == 0 || answer.values.unchanged.items[0] == bits);
    cr_assert_eq(answer.chunk_count, count > 0 ? 1 : 0);
    cr_expect_eq(answer.values.partitions.items[1], answer.chunk_count);
    for (size_t i = 0; i < count; i++) {
        const float *row = (const float *)cadre_chunk_data(answer.chunks[0]) + i * DIM;
        cr_expect_eq(row[0], numbers[i], "row %zu begins with %g", i, (double)row[0]);
    }
    cr_expect_eq(COUNTER(self, rows_pulled), pulled + count);
    cr_expect_eq(COUNTER(self, rows_unchanged), unchanged + PULLED - count);
    cadre_message_fini(&answer);
}

Test(shard_held, leaves_out_what_has_not_changed)
{
    fixture_t self = open_table();
    cr_assert_eq(push_keys(&self, 1, 2, (uint64_t[]){3, 5}, 1), 0);
    cr_assert_eq(push_keys(&self, 2, 1, (uint64_t[]){5}, 1), 0);
    const uint16_t all[] = {1, 1, 1, 1};
    expect_left_out(&self, 2, all, 0xf, NULL);
    expect_left_out(&self, 1, all, 0xb, (float[]){-1});
    expect_left_out(&self, 0, all, 0xa, (float[]){0, -1});
    const uint16_t some[] = {2, 0, 1, 3}; /* versions 1, none, 2, 0 */
    expect_left_out(&self, 2, some, 0xd, (float[]){1});
    const uint16_t older[] = {4, 2, UINT16_MAX,
                              1}; /* the first and the third: before there were any */
    expect_left_out(&self, 2, older, 0xa, (float[]){0, -1});
    close_shard(&self);
}

/* Expects a PULL to be refused as malformed. */
static void
expect_malformed(fixture_t *self, cadre_message_t *message, const char *what)
{
    cadre_message_t answer;
    ask(self, &THE_WORKER, message, &answer);
    cr_expect_eq(answer.values.status, (uint64_t)-CADRE_EMALFORMED, "%s", what);
    cr_expect_eq(answer.chunk_count, 0, "%s", what);
    cadre_message_fini(&answer);
}

Test(shard_held, refuses_what_does_not_fit_the_rows)
{
    fixture_t self = open_table();
    uint64_t newest[] = {0, 0};
    uint64_t record[4];
    const uint16_t ages[PULLED] = {0};
    cadre_message_t message = pull_held(newest, ages, record);
    message.pull.held.count = 2;
    expect_malformed(&self, &message, "two versions for one record");
    message = pull_held(newest, ages, record);
    cadre_chunk_unref(&message.chunks[--message.chunk_count]);
    expect_malformed(&self, &message, "no ages");
    message = pull_held(newest, ages, record);
    cadre_chunk_unref(&message.chunks[--message.chunk_count]);
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(ages, 2 * PULLED - 1));
    expect_malformed(&self, &message, "an age is cut off");
    close_shard(&self);
}

Test(shard_held, says_which_rows_there_are_when_asked)
{
    fixture_t self = open_table();
    cr_assert_eq(push_keys(&self, 1, 2, (uint64_t[]){3, 5}, 1), 0);
    for (uint64_t asked = 0; asked < 2; asked++) {
        const uint64_t record[] = {TABLE, 0, CADRE_ROWS_LISTED, PULLED};
        cadre_message_t answer;
        cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
        message.pull =
            (cadre_pull_message_t){.generation = GENERATION, .rows = {record, 4}, .absence = asked};
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(PULLED_KEYS, sizeof(PULLED_KEYS)));
        ask(&self, &THE_WORKER, &message, &answer);
        cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
        cr_assert_eq(answer.values.absent.count, asked);
        cr_expect(asked == 0 || answer.values.absent.items[0] == 0xa, "4 and 9 have none");
        cr_expect_eq(cadre_chunk_size_bytes(answer.chunks[0]), PULLED * DIM * sizeof(float));
        cadre_message_fini(&answer);
    }
    close_shard(&self);
}

/* Asks of so many keys whether they have rows; returns the status of the answer. */
static int
ask_absence(fixture_t *self, size_t count)
{
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    const uint64_t record[] = {TABLE, 0, CADRE_ROWS_LISTED, count};
    cadre_message_t answer;
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull =
        (cadre_pull_message_t){.generation = GENERATION, .rows = {record, 4}, .absence = 1};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(keys, count * sizeof(*keys)));
    ask(self, &THE_WORKER, &message, &answer);
    const int status = -(int)answer.values.status;
    cadre_message_fini(&answer);
    return status;
}

Test(shard_held, says_it_of_so_many_rows_and_no_more)
{
    fixture_t self = open_table();
    cr_expect_eq(ask_absence(&self, CADRE_CLIENT_ROWS_MAX), 0);
    cr_expect_eq(ask_absence(&self, CADRE_CLIENT_ROWS_MAX + 1), CADRE_ETOOLARGE);
    close_shard(&self);
}
