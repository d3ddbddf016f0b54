/*
 * table_fixture - a table on a shard with somebody to talk to (shard_fixture.h): rows of DIM
 * numbers by key, beginning at 1, under sgd with learning rate 1, or otherwise.
 */
#ifndef CADRE_TESTS_PS_TABLE_FIXTURE_H
#define CADRE_TESTS_PS_TABLE_FIXTURE_H

#include "common/wire/row_list.h"
#include "tests/ps/shard_fixture.h"

enum { TABLE = 3, DIM = 4, KEYS_MAX = 512 };

/* What a CREATE points to. */
typedef struct {
    uint64_t shape[1];
    uint64_t table[6];
    double numbers[2];
    cadre_create_message_t message;
} table_create_t;

/* CREATE of part `part` of `parts` of the table, without limits. */
static inline table_create_t *
table_create(table_create_t *self, uint64_t part, uint64_t parts)
{
    static const double one[] = {1};
    *self = (table_create_t){.shape = {DIM}, .table = {CADRE_F32, 0, 0, 0, CADRE_TABLE_REFUSE, 0}};
    self->message = (cadre_create_message_t){.variable = TABLE,
                                             .name = "table",
                                             .partition = part,
                                             .partitions = parts,
                                             .dtype = CADRE_F32,
                                             .shape = {self->shape, 1},
                                             .initializer = CADRE_INITIALIZER_CONSTANT,
                                             .initializer_parameters = {one, 1},
                                             .optimizer = CADRE_OPTIMIZER_SGD,
                                             .optimizer_parameters = {one, 1},
                                             .generation = GENERATION,
                                             .shard = part,
                                             .table = {self->table, 6},
                                             .table_numbers = {self->numbers, 2}};
    return self;
}

/* A restored shard with the table alone, all of it. */
static inline fixture_t
open_table(void)
{
    fixture_t self = open_shard(NULL);
    table_create_t table;
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create(&self, &table_create(&table, 0, 1)->message), 0, "%s", cadre_error_text());
    return self;
}

/* A PUSH of gradients by key, [count, DIM]; `record` has room for 4 and lives as long. */
static inline cadre_message_t
push_keys_message(uint64_t update, uint64_t part, size_t count, const uint64_t *keys,
                  const float *gradient, uint64_t *record)
{
    const uint64_t numbers[] = {TABLE, part, 0, count};
    memcpy(record, numbers, sizeof(numbers));
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push = (cadre_push_message_t){
        .update = update, .attempt = 1, .generation = GENERATION, .rows = {record, 4}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(keys, count * sizeof(*keys)));
    cadre_message_add_chunk(&message,
                            cadre_chunk_new_copy(gradient, count * DIM * sizeof(*gradient)));
    return message;
}

/* Pushes `value` to all numbers of some keys; its status. */
static inline int
push_keys(fixture_t *self, uint64_t update, size_t count, const uint64_t *keys, float value)
{
    float gradient[KEYS_MAX * DIM];
    uint64_t record[4];
    for (size_t i = 0; i < count * DIM; i++) {
        gradient[i] = value;
    }
    cadre_message_t message = push_keys_message(update, 0, count, keys, gradient, record);
    return push(self, &message);
}

/* Pulls the values of keys from a part into `values`, [count, DIM]; its status. */
static inline int
pull_keys(fixture_t *self, uint64_t part, size_t count, const uint64_t *keys, float *values)
{
    const uint64_t record[] = {TABLE, part, CADRE_ROWS_LISTED, count};
    cadre_message_t answer;
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .rows = {record, 4}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(keys, count * sizeof(*keys)));
    ask(self, &THE_WORKER, &message, &answer);
    const int status = -(int)answer.values.status;
    if (status == 0) {
        cr_assert_eq(answer.chunk_count, 1);
        cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[0]), count * DIM * sizeof(float));
        memcpy(values, cadre_chunk_data(answer.chunks[0]), count * DIM * sizeof(float));
    }
    cadre_message_fini(&answer);
    return status;
}

/* Whether all numbers of a key are `value`. */
static inline bool
key_is(fixture_t *self, uint64_t key, float value)
{
    float values[DIM];
    cr_assert_eq(pull_keys(self, 0, 1, &key, values), 0);
    for (size_t i = 0; i < DIM; i++) {
        if (values[i] != value) {
            return false;
        }
    }
    return true;
}

/* Rows of part `part` by key: [count], [count, DIM]. */
typedef struct {
    uint64_t part;
    size_t count;
    const uint64_t *keys;
    const float *values;
} keyed_rows_t;

/* An ASSIGN by key; `record` has room for 4 and lives as long. */
static inline cadre_message_t
assign_keys_message(uint64_t sequence, cadre_assign_mode_t mode, const keyed_rows_t *rows,
                    uint64_t *record)
{
    const size_t count = rows->count;
    const uint64_t numbers[] = {TABLE, rows->part, CADRE_ROWS_LISTED, count};
    memcpy(record, numbers, sizeof(numbers));
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){.sequence = sequence,
                                              .generation = GENERATION,
                                              .mode = (uint64_t)mode,
                                              .variable = TABLE,
                                              .partition = rows->part,
                                              .rows = {record, 4}};
    const size_t size_bytes = count * DIM * sizeof(*rows->values);
    cadre_message_add_chunk(&message,
                            cadre_chunk_new_copy(rows->keys, count * sizeof(*rows->keys)));
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(rows->values, size_bytes));
    return message;
}

static inline cadre_table_figures_t
table_figures(const fixture_t *self)
{
    return cadre_table_figures(cadre_shard_table(self->shard, TABLE, 0));
}

#endif
