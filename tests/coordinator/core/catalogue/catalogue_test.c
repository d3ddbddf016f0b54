#include "coordinator/core/catalogue/catalogue.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

TestSuite(catalogue, .timeout = 240);

static const cadre_variable_options_t defaults = {.size = sizeof(cadre_variable_options_t)};

static int
add(cadre_catalogue_t *self, const char *name, const cadre_variable_options_t *options,
    cadre_variable_t **variable)
{
    cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 2, .shape = {13, 4}};
    return cadre_catalogue_add_variable(self, name, &like, options, variable);
}

Test(catalogue, gives_variables_ids_in_order_and_finds_them_by_name)
{
    cadre_catalogue_t self;
    cadre_variable_t *first = NULL;
    cadre_variable_t *second = NULL;
    cadre_catalogue_init(&self, 2, false, 1);
    cr_assert_eq(add(&self, "w", &defaults, &first), 0);
    cr_assert_eq(add(&self, "b", &defaults, &second), 0);
    cr_assert_eq(first->id, 1);
    cr_assert_eq(second->id, 2);
    cr_assert_eq(cadre_catalogue_variable(&self, "w"), first);
    cr_assert_eq(cadre_catalogue_variable(&self, "b"), second);
    cr_assert_null(cadre_catalogue_variable(&self, "c"));
    cr_assert_eq(first->row_size_bytes, 16);
    cr_assert_eq(first->rows, 13);
    cr_assert_not(first->created);
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_dropped_variable_leaves_its_name_and_its_room_but_not_its_id)
{
    cadre_catalogue_t self;
    cadre_variable_t *variables[4] = {NULL};
    cadre_catalogue_init(&self, 2, false, 1);
    cr_assert_eq(add(&self, "w", &defaults, &variables[0]), 0);
    cr_assert_eq(add(&self, "b", &defaults, &variables[1]), 0);
    uint16_t shard = variables[1]->shards[0];
    uint64_t load_bytes = self.placement.load_bytes[shard];
    cr_assert_gt(load_bytes, 0);
    cadre_catalogue_drop_variable(&self, variables[1]);
    cr_expect_null(cadre_catalogue_variable(&self, "b"));
    cr_expect_null(cadre_catalogue_variable(&self, ""));
    cr_expect_lt(self.placement.load_bytes[shard], load_bytes);
    cr_expect(cadre_catalogue_is_vacant(&self, 2));
    cr_expect_not(cadre_catalogue_is_vacant(&self, 1));
    cr_assert_eq(add(&self, "b", &defaults, &variables[2]), 0);
    cr_expect_eq(variables[2]->id, 3, "the id is not used again");
    cr_expect_eq(self.placement.load_bytes[shard], load_bytes);
    cr_expect_not(self.variables[1]->created);
    cadre_catalogue_fini(&self);
}

Test(catalogue, refuses_a_name_that_is_in_use)
{
    cadre_catalogue_t self;
    cadre_variable_t *variable = NULL;
    cadre_dataset_t *dataset = NULL;
    cadre_catalogue_init(&self, 2, false, 1);
    cr_assert_eq(add(&self, "w", &defaults, &variable), 0);
    cr_assert_eq(add(&self, "w", &defaults, &variable), CADRE_EEXISTS);
    cr_assert(strstr(cadre_error_text(), "w"));
    cr_assert_eq(self.variable_count, 1);
    cr_assert_eq(cadre_catalogue_add_dataset(&self, "train", "{}", &dataset), 0);
    cr_assert_eq(cadre_catalogue_add_dataset(&self, "train", "{}", &dataset), CADRE_EEXISTS);
    cr_assert_eq(self.dataset_count, 1);
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_variable_has_a_type_on_the_wire)
{
    cadre_catalogue_t self;
    cadre_variable_t *own = NULL;
    cadre_variable_t *named = NULL;
    cadre_variable_t *in_bf16 = NULL;
    cadre_create_lists_t lists;
    cadre_catalogue_init(&self, 2, false, 1);
    cadre_variable_options_t options = defaults;
    cr_assert_eq(add(&self, "own", &options, &own), 0);
    options.wire = CADRE_F32;
    cr_assert_eq(add(&self, "named", &options, &named), 0);
    options.wire = CADRE_BF16;
    cr_assert_eq(add(&self, "in_bf16", &options, &in_bf16), 0);
    cr_assert(own->wire == CADRE_F32 && named->wire == CADRE_F32 && in_bf16->wire == CADRE_BF16);
    cr_assert_eq(cadre_catalogue_create_message(own, 0, &lists).create.wire, 0);
    cr_assert_eq(cadre_catalogue_create_message(named, 0, &lists).create.wire, 0);
    cr_assert_eq(cadre_catalogue_create_message(in_bf16, 0, &lists).create.wire, CADRE_BF16);
    cr_assert_eq(in_bf16->row_size_bytes, 16, "placed and saved by what it is");
    options.wire = CADRE_F64;
    cr_assert_eq(add(&self, "bad", &options, &in_bf16), CADRE_EDTYPE);
    cr_assert(strstr(cadre_error_text(), "variable bad"), "%s", cadre_error_text());
    cadre_tensor_t whole = {.dtype = CADRE_I64, .rank = 1, .shape = {3}};
    options.wire = CADRE_BF16;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    cr_assert_eq(cadre_catalogue_add_variable(&self, "whole", &whole, &options, &in_bf16),
                 CADRE_EDTYPE);
    options.wire = CADRE_I64;
    cr_assert_eq(cadre_catalogue_add_variable(&self, "whole", &whole, &options, &in_bf16), 0);
    cadre_catalogue_fini(&self);
}

Test(catalogue, names_are_short_and_plain)
{
    char longest[CADRE_NAME_SIZE_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[CADRE_NAME_SIZE_MAX + 1] = '\0';
    cr_assert_eq(cadre_name_check("variable", longest), CADRE_EINVALID);
    longest[CADRE_NAME_SIZE_MAX] = '\0';
    cr_assert_eq(cadre_name_check("variable", longest), 0);
    longest[CADRE_NAME_SIZE_MAX - 1] = '\0';
    cr_assert_eq(cadre_name_check("variable", longest), 0);
    static const char *const good[] = {"w", "W9", "0", "layer1.weight", "a_b-c"};
    static const char *const bad[] = {NULL,  "",    ".w",  "_w",   "-w",
                                      "a b", "a/b", "a\n", "\xe4", "w\xc3\xa4"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(cadre_name_check("variable", good[i]), 0, "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(cadre_name_check("variable", bad[i]), CADRE_EINVALID, "number %zu", i);
    }
}

Test(catalogue, refuses_shapes_without_elements_and_bad_types)
{
    cadre_catalogue_t self;
    cadre_variable_t *variable = NULL;
    cadre_catalogue_init(&self, 2, false, 1);
    cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 2, .shape = {0, 4}};
    cr_assert_lt(cadre_catalogue_add_variable(&self, "w", &like, &defaults, &variable), 0);
    like = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 2, .shape = {3, -4}};
    cr_assert_lt(cadre_catalogue_add_variable(&self, "w", &like, &defaults, &variable), 0);
    like = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 2, .shape = {INT64_MAX, INT64_MAX}};
    cr_assert_lt(cadre_catalogue_add_variable(&self, "w", &like, &defaults, &variable), 0);
    like = (cadre_tensor_t){.dtype = (cadre_dtype_t)99, .rank = 1, .shape = {3}};
    cr_assert_lt(cadre_catalogue_add_variable(&self, "w", &like, &defaults, &variable), 0);
    like = (cadre_tensor_t){.dtype = CADRE_I64, .rank = 1, .shape = {3}};
    cr_assert_eq(cadre_catalogue_add_variable(&self, "w", &like, &defaults, &variable),
                 CADRE_EDTYPE, "sgd is for f32");
    cadre_variable_options_t adding = defaults;
    adding.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    cr_assert_eq(cadre_catalogue_add_variable(&self, "w", &like, &adding, &variable), 0, "%s",
                 cadre_error_text());
    like = (cadre_tensor_t){.dtype = CADRE_F32};
    cr_assert_eq(cadre_catalogue_add_variable(&self, "scalar", &like, &defaults, &variable), 0);
    cr_assert_eq(variable->rows, 1);
    cr_assert_eq(variable->row_size_bytes, 4);
    cadre_catalogue_fini(&self);
}

Test(catalogue, refuses_initializers_and_optimizers_that_it_does_not_know)
{
    cadre_catalogue_t self;
    cadre_variable_t *variable = NULL;
    cadre_catalogue_init(&self, 2, false, 1);
    cadre_variable_options_t options = defaults;
    options.initializer = cadre_initializer((cadre_initializer_kind_t)77);
    cr_assert_eq(add(&self, "w", &options, &variable), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "variable w"), "%s", cadre_error_text());
    options.initializer = (cadre_initializer_t){.stddev = 1};
    cr_assert_eq(add(&self, "w", &options, &variable), CADRE_EINVALID, "a number without a kind");
    options = defaults;
    options.optimizer = cadre_optimizer((cadre_optimizer_kind_t)77);
    cr_assert_eq(add(&self, "w", &options, &variable), CADRE_EINVALID);
    options.optimizer = (cadre_optimizer_t){.learning_rate = 1};
    cr_assert_eq(add(&self, "w", &options, &variable), CADRE_EINVALID, "a number without a kind");
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.optimizer.learning_rate = -1;
    cr_assert_eq(add(&self, "w", &options, &variable), CADRE_EINVALID);
    cr_assert_eq(self.variable_count, 0);
    cr_assert_eq(self.placement.load_bytes[0], 0, "nothing was placed");
    options.optimizer.learning_rate = 0.25;
    cr_assert_eq(add(&self, "w", &options, &variable), 0, "%s", cadre_error_text());
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_seed_follows_from_the_job_and_the_name_unless_it_is_given)
{
    cadre_catalogue_t self;
    cadre_catalogue_t same;
    cadre_catalogue_t other;
    cadre_variable_t *variables[6];
    cadre_variable_options_t options = defaults;
    cadre_catalogue_init(&self, 2, false, 1);
    cadre_catalogue_init(&same, 4, true, 1);
    cadre_catalogue_init(&other, 2, false, 2);
    cr_assert_eq(add(&self, "w", &defaults, &variables[0]), 0);
    cr_assert_eq(add(&self, "b", &defaults, &variables[1]), 0);
    cr_assert_eq(add(&same, "b", &defaults, &variables[2]), 0);
    cr_assert_eq(add(&other, "w", &defaults, &variables[3]), 0);
    options.seed = 5;
    cr_assert_eq(add(&other, "c", &options, &variables[4]), 0);
    cr_assert_neq(variables[0]->initializer.seed, variables[1]->initializer.seed);
    cr_assert_eq(variables[1]->initializer.seed, variables[2]->initializer.seed,
                 "not from the order of creation, nor the number of shards");
    cr_assert_neq(variables[0]->initializer.seed, variables[3]->initializer.seed);
    cr_assert_eq(variables[4]->initializer.seed, 5);
    cadre_catalogue_fini(&self);
    cadre_catalogue_fini(&same);
    cadre_catalogue_fini(&other);
}

Test(catalogue, P9_a_colocated_variable_sits_whole_where_its_target_begins)
{
    cadre_catalogue_t self;
    cadre_variable_t *variables[3];
    cadre_variable_options_t options = defaults;
    cadre_catalogue_init(&self, 3, false, 1);
    cr_assert_eq(add(&self, "first", &defaults, &variables[0]), 0);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    cr_assert_eq(add(&self, "target", &options, &variables[1]), 0);
    cr_assert_eq(variables[1]->partitions, 2);
    cr_assert_eq(variables[1]->shards[0], 1);
    options = defaults;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 13;
    options.colocate_with = variables[1];
    cr_assert_eq(add(&self, "slot", &options, &variables[2]), 0);
    cr_assert_eq(variables[2]->partitions, 1);
    cr_assert_eq(variables[2]->shards[0], 1);
    cr_assert_eq(self.placement.load_bytes[1], 7 * 16 + 13 * 16, "and counts there");
    cadre_catalogue_fini(&self);
}

Test(catalogue, P13_a_pinned_variable_sits_whole_on_its_shard)
{
    cadre_catalogue_t self;
    cadre_variable_t *variables[2];
    cadre_variable_options_t options = defaults;
    cadre_catalogue_init(&self, 3, false, 1);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 3;
    options.is_pinned = true;
    for (int shard = 2; shard >= 0; shard--) {
        char name[8] = {'v', (char)('0' + shard)};
        options.shard = shard;
        cr_assert_eq(add(&self, name, &options, &variables[0]), 0);
        cr_assert_eq(variables[0]->partitions, 1);
        cr_assert_eq(variables[0]->shards[0], shard);
    }
    cr_assert_eq(self.placement.load_bytes[2], 13 * 16, "and counts there");
    options.shard = 3;
    cr_assert_eq(add(&self, "beyond", &options, &variables[1]), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "shard 3 is not in 0..2"), "%s", cadre_error_text());
    options.shard = -1;
    cr_assert_eq(add(&self, "below", &options, &variables[1]), CADRE_EINVALID);
    options.shard = 0;
    options.colocate_with = variables[0];
    cr_assert_eq(add(&self, "both", &options, &variables[1]), CADRE_EINVALID);
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_function_of_the_same_content_is_found_again)
{
    cadre_catalogue_t self;
    cadre_function_t *functions[5];
    bool is_new = false;
    cadre_chunk_t *program = cadre_chunk_new_copy("abc", 3);
    cadre_function_t like = {.kind = CADRE_FUNCTION_PROGRAM,
                             .name = (char *)(uintptr_t) "step",
                             .hash = 7,
                             .program = program};
    cadre_catalogue_init(&self, 1, false, 1);
    cr_assert_eq(cadre_catalogue_add_function(&self, &like, &functions[0], &is_new), 0);
    cr_assert(is_new);
    cr_assert_eq(functions[0]->id, 1);
    cr_assert_eq(cadre_catalogue_add_function(&self, &like, &functions[1], &is_new), 0);
    cr_assert_not(is_new);
    cr_assert_eq(functions[1], functions[0]);
    like.hash = 8;
    cr_assert_eq(cadre_catalogue_add_function(&self, &like, &functions[2], &is_new), 0);
    cr_assert(is_new, "other content");
    like.name = (char *)(uintptr_t) "evaluate";
    cr_assert_eq(cadre_catalogue_add_function(&self, &like, &functions[3], &is_new), 0);
    cr_assert(is_new, "another name");
    like = (cadre_function_t){.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "step"};
    cr_assert_eq(cadre_catalogue_add_function(&self, &like, &functions[4], &is_new), 0);
    cr_assert(is_new, "another kind");
    like.name = (char *)(uintptr_t) "a step";
    cr_assert_eq(cadre_catalogue_add_function(&self, &like, &functions[4], &is_new),
                 CADRE_EINVALID);
    cr_assert_eq(self.function_count, 4);
    cadre_chunk_unref(&program);
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_dataset_needs_a_description_of_a_bounded_size)
{
    cadre_catalogue_t self;
    cadre_dataset_t *dataset = NULL;
    char *text = cadre_calloc(1, CADRE_CHUNK_SIZE_MAX + 2);
    memset(text, ' ', CADRE_CHUNK_SIZE_MAX + 1);
    cadre_catalogue_init(&self, 1, false, 1);
    cr_assert_eq(cadre_catalogue_add_dataset(&self, "a", NULL, &dataset), CADRE_EINVALID);
    cr_assert_eq(cadre_catalogue_add_dataset(&self, "a", text, &dataset), CADRE_EINVALID);
    text[CADRE_CHUNK_SIZE_MAX] = '\0';
    cr_assert_eq(cadre_catalogue_add_dataset(&self, "a", text, &dataset), 0);
    text[CADRE_CHUNK_SIZE_MAX - 1] = '\0';
    cr_assert_eq(cadre_catalogue_add_dataset(&self, "b", text, &dataset), 0);
    cr_assert_eq(dataset->id, 2);
    free(text);
    cadre_catalogue_fini(&self);
}

Test(catalogue, the_create_messages_of_a_variable_cover_its_rows)
{
    cadre_catalogue_t self;
    cadre_variable_t *variable = NULL;
    cadre_variable_options_t options = defaults;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 5;
    options.initializer = cadre_initializer(CADRE_INITIALIZER_UNIFORM);
    options.initializer.min = -2;
    options.initializer.max = 3;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_MOMENTUM);
    options.optimizer.learning_rate = 0.5;
    options.optimizer.momentum = 0.75;
    cadre_catalogue_init(&self, 2, false, 1);
    cr_assert_eq(add(&self, "w", &options, &variable), 0, "%s", cadre_error_text());
    uint64_t next = 0;
    static const uint64_t rows[] = {3, 3, 3, 2, 2};
    for (uint32_t i = 0; i < 5; i++) {
        cadre_create_lists_t lists;
        cadre_message_t message = cadre_catalogue_create_message(variable, i, &lists);
        const cadre_create_message_t *create = &message.create;
        cr_assert_eq(message.type, CADRE_MESSAGE_CREATE);
        cr_assert_eq(create->variable, 1);
        cr_assert_str_eq(create->name, "w");
        cr_assert_eq(create->partition, i);
        cr_assert_eq(create->partitions, 5);
        cr_assert_eq(create->dtype, CADRE_F32);
        cr_assert_eq(create->shape.count, 2);
        cr_assert_eq(create->shape.items[0], 13, "of the whole variable");
        cr_assert_eq(create->shape.items[1], 4);
        cr_assert_eq(create->first_row, next);
        cr_assert_eq(create->rows, rows[i]);
        cr_assert_eq(create->initializer_parameters.count, 2);
        cr_assert_eq(create->initializer_parameters.items[0], -2);
        cr_assert_eq(create->initializer_parameters.items[1], 3);
        cr_assert_eq(create->optimizer, CADRE_OPTIMIZER_MOMENTUM);
        cr_assert_eq(create->optimizer_parameters.items[0], 0.5);
        cr_assert_eq(create->seed, variable->initializer.seed, "the same for all: P10");
        cadre_chunk_t *header = cadre_message_encode(&message);
        cadre_chunk_unref(&header);
        next += create->rows;
    }
    cr_assert_eq(next, 13);
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_table_has_a_part_on_every_shard_and_none_of_their_bytes)
{
    cadre_catalogue_t self;
    cadre_variable_t *table = NULL;
    cadre_catalogue_init(&self, 3, false, 1);
    cadre_table_spec_t spec = cadre_table_spec(16);
    spec.initializer.kind = CADRE_INITIALIZER_NORMAL;
    spec.initializer.parameters[CADRE_NORMAL_STDDEV] = 0.5;
    cr_assert_eq(cadre_catalogue_add_table(&self, "users", &spec, 0, &table), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(table->partitions, 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(table->shards[i], i);
        cr_assert_eq(self.placement.load_bytes[i], 0);
    }
    cr_assert_eq(table->row_size_bytes, 64);
    cr_assert_eq(table->rows, 0);
    cr_assert_neq(table->initializer.seed, 0, "made of the job's seed and the name");
    cr_assert_eq(cadre_variable_check_dense(table), CADRE_EINVALID);
    cr_assert_eq(cadre_catalogue_add_table(&self, "users", &spec, 0, &table), CADRE_EEXISTS);
    spec.dim = 0;
    cr_assert_eq(cadre_catalogue_add_table(&self, "words", &spec, 0, &table), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "table words: dim is 0"), "%s", cadre_error_text());
    spec.dim = 1;
    cr_assert_eq(cadre_catalogue_add_table(&self, "words", &spec, CADRE_I32, &table), CADRE_EDTYPE);
    cr_assert_eq(self.variable_count, 1);
    cadre_catalogue_drop_variable(&self, self.variables[0]);
    cr_assert(cadre_catalogue_is_vacant(&self, 1));
    cadre_catalogue_fini(&self);
}

Test(catalogue, a_create_says_how_a_table_keeps_its_rows)
{
    cadre_catalogue_t self;
    cadre_variable_t *table = NULL;
    cadre_variable_t *dense = NULL;
    cadre_create_lists_t lists;
    cadre_catalogue_init(&self, 2, false, 1);
    cadre_table_spec_t spec = cadre_table_spec(8);
    spec.storage = CADRE_BF16;
    spec.optimizer.kind = CADRE_OPTIMIZER_ADAGRAD;
    spec.optimizer.parameters[CADRE_ADAGRAD_INITIAL_ACCUMULATOR] = 0.1;
    spec.optimizer.parameters[CADRE_ADAGRAD_EPSILON] = 1e-7;
    spec.row_wise = true;
    spec.admit_after = 3;
    spec.rows_max = 1000;
    spec.when_full = CADRE_TABLE_EVICT_LFU;
    spec.age_max = 77;
    spec.group_lasso = 0.25;
    spec.norm_min = 0.125;
    cr_assert_eq(cadre_catalogue_add_table(&self, "users", &spec, CADRE_BF16, &table), 0, "%s",
                 cadre_error_text());
    cadre_message_t message = cadre_catalogue_create_message(table, 1, &lists);
    const cadre_create_message_t *create = &message.create;
    const uint64_t numbers[] = {CADRE_BF16, 1, 3, 1000, CADRE_TABLE_EVICT_LFU, 77};
    cr_assert_eq(create->table.count, 6);
    cr_assert_arr_eq(create->table.items, numbers, sizeof(numbers));
    cr_assert_eq(create->table_numbers.count, 2);
    cr_assert_eq(create->table_numbers.items[0], 0.25);
    cr_assert_eq(create->table_numbers.items[1], 0.125);
    cr_assert_eq(create->shape.count, 1);
    cr_assert_eq(create->shape.items[0], 8);
    cr_assert_eq(create->partition, 1);
    cr_assert_eq(create->partitions, 2);
    cr_assert_eq(create->shard, 1);
    cr_assert_eq(create->first_row, 0);
    cr_assert_eq(create->rows, 0);
    cr_assert_eq(create->dtype, CADRE_F32);
    cr_assert_eq(create->wire, CADRE_BF16);
    cr_assert_eq(create->seed, table->initializer.seed);

    cr_assert_eq(add(&self, "w", &defaults, &dense), 0);
    message = cadre_catalogue_create_message(dense, 0, &lists);
    cr_assert_eq(message.create.table.count, 0);
    cadre_catalogue_fini(&self);
}
