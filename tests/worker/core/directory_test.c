#include "worker/core/directory.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

TestSuite(directory, .timeout = 240);

static int
set_shard(cadre_directory_t *directory, uint64_t index, uint64_t incarnation, uint64_t generation,
          bool *changed)
{
    cadre_shard_message_t message = {.index = index,
                                     .address = incarnation ? "a" : "",
                                     .incarnation = incarnation,
                                     .generation = generation};
    return cadre_directory_set_shard(directory, &message, changed);
}

/* Partitions [first, first + count) of 4, of an f32 [rows]. */
static int
set_variable(cadre_directory_t *directory, uint64_t id, uint64_t rows, uint64_t first, size_t count)
{
    static const uint64_t shards[] = {0, 1, 0, 1, 0};
    cadre_variable_message_t message = {.id = id,
                                        .name = id == 1 ? "one" : "two",
                                        .dtype = CADRE_F32,
                                        .shape = {&rows, 1},
                                        .partitions = 4,
                                        .first = first,
                                        .shards = {shards, count}};
    return cadre_directory_set_variable(directory, &message);
}

Test(directory, tells_when_a_shard_is_served_by_somebody_else)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    bool changed = false;
    cr_expect_eq(set_shard(&directory, 1, 7, 1, &changed), 0);
    cr_expect(changed);
    cr_expect_eq(set_shard(&directory, 1, 7, 1, &changed), 0);
    cr_expect_not(changed, "the same news");
    cr_expect_eq(set_shard(&directory, 1, 8, 2, &changed), 0);
    cr_expect(changed);
    cr_expect_eq(set_shard(&directory, 1, 7, 1, &changed), 0);
    cr_expect_not(changed, "news of an earlier generation");
    cr_expect_eq(directory.shards[1].task.incarnation, 8);
    cr_expect_not(directory.shards[0].known);
    cr_expect_eq(set_shard(&directory, 2, 7, 1, &changed), CADRE_EMALFORMED);
    cadre_directory_fini(&directory);
}

Test(directory, tells_a_shard_that_is_away_from_one_that_began_anew)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 1);
    const cadre_shard_entry_t *entry = &directory.shards[0];
    static const struct {
        uint64_t incarnation; /* 0: away */
        uint64_t generation;
        bool changed;
        uint64_t restores;
    } news[] = {{0, 1, true, 0},  {0, 1, false, 0}, {7, 1, true, 0},  {0, 1, true, 0},
                {7, 1, true, 0},  {8, 2, true, 1},  {0, 1, false, 1}, {0, 2, true, 1},
                {9, 3, true, 2},  {0, 4, true, 3},  {9, 4, true, 3},  {0, 4, true, 3},
                {10, 4, true, 4}, {10, 4, false, 4}};
    for (size_t i = 0; i < sizeof(news) / sizeof(news[0]); i++) {
        bool changed = !news[i].changed;
        cr_expect_eq(set_shard(&directory, 0, news[i].incarnation, news[i].generation, &changed),
                     0);
        cr_expect_eq(changed, news[i].changed, "news %zu", i);
        cr_expect_eq(directory.restores, news[i].restores, "news %zu", i);
        cr_expect_eq(entry->restored, news[i].restores, "news %zu", i);
        cr_expect(entry->known);
        if (changed) {
            cr_expect_eq(entry->away, news[i].incarnation == 0, "news %zu", i);
        }
    }
    cadre_directory_fini(&directory);
}

Test(directory, takes_a_shard_first_told_of_in_a_later_generation_for_one_that_began_anew)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    bool changed = false;
    cr_expect_eq(set_shard(&directory, 0, 7, 1, &changed), 0);
    cr_expect_eq(directory.restores, 0);
    cr_expect_eq(set_shard(&directory, 1, 7, 2, &changed), 0);
    cr_expect_eq(directory.restores, 1);
    cadre_directory_fini(&directory);
}

Test(directory, refuses_an_address_without_a_process_and_the_other_way_round)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 1);
    bool changed = false;
    cadre_shard_message_t message = {.address = "a", .generation = 1};
    cr_expect_eq(cadre_directory_set_shard(&directory, &message, &changed), CADRE_EMALFORMED);
    message = (cadre_shard_message_t){.address = "", .incarnation = 7, .generation = 1};
    cr_expect_eq(cadre_directory_set_shard(&directory, &message, &changed), CADRE_EMALFORMED);
    cr_expect_not(directory.shards[0].known);
    cadre_directory_fini(&directory);
}

Test(directory, shows_a_variable_once_all_its_partitions_are_told)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    cr_expect_eq(set_variable(&directory, 1, 10, 0, 2), 0);
    cr_expect_null(cadre_directory_variable(&directory, 1));
    cr_expect_null(cadre_directory_variable_by_name(&directory, "one", 0, &(bool){false}));
    cr_expect_eq(set_variable(&directory, 2, 10, 0, 4), 0);
    cr_expect_eq(directory.variables_complete, 0, "1 is missing");
    cr_expect_eq(set_variable(&directory, 1, 10, 2, 2), 0);
    cr_expect_eq(directory.variables_complete, 2);
    const cadre_variable_entry_t *entry =
        cadre_directory_variable_by_name(&directory, "one", 0, &(bool){false});
    cr_assert_not_null(entry);
    cr_expect(entry->rows == 10 && entry->row_size_bytes == 4 && entry->partitions == 4);
    cr_expect_null(cadre_directory_variable_by_name(&directory, "three", 0, &(bool){false}));
    cadre_directory_fini(&directory);
}

static int
set_vacant(cadre_directory_t *directory, uint64_t first, uint64_t last)
{
    cadre_variable_message_t message = {.id = first, .name = "", .last = last};
    return cadre_directory_set_variable(directory, &message);
}

Test(directory, counts_ids_that_are_of_no_variable_as_told)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    cr_expect_eq(set_vacant(&directory, 3, 4), 0);
    cr_expect_eq(directory.variables_complete, 0, "it is asked for again");
    cr_expect_eq(set_vacant(&directory, 1, 1), 0);
    cr_expect_eq(set_variable(&directory, 2, 10, 0, 4), 0);
    cr_expect_eq(set_variable(&directory, 5, 10, 0, 4), 0);
    cr_expect_eq(directory.variables_complete, 2);
    cr_expect_eq(set_vacant(&directory, 3, 4), 0);
    cr_expect_eq(directory.variables_complete, 5);
    cr_expect_null(cadre_directory_variable(&directory, 3));
    cr_expect_null(cadre_directory_variable_by_name(&directory, "", 0, &(bool){false}));
    cr_expect_eq(set_vacant(&directory, 0, 4), CADRE_EMALFORMED);
    cr_expect_eq(set_vacant(&directory, 4, 3), CADRE_EMALFORMED);
    cr_expect_eq(set_vacant(&directory, 6, UINT32_MAX), 0);
    cr_expect_eq(directory.variables_complete, UINT32_MAX);
    cadre_directory_fini(&directory);
}

Test(directory, refuses_a_variable_that_contradicts_itself)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    cr_expect_eq(set_variable(&directory, 1, 3, 0, 4), CADRE_EMALFORMED, "4 partitions of 3 rows");
    cr_expect_eq(set_variable(&directory, 1, 4, 1, 4), CADRE_EMALFORMED, "more than there are");
    cr_expect_eq(set_variable(&directory, 1, UINT64_MAX, 0, 4), CADRE_EMALFORMED);
    cr_expect_eq(set_variable(&directory, 1, (uint64_t)1 << 62, 0, 4), CADRE_EMALFORMED);
    cadre_directory_init(&directory, 1);
    cr_expect_eq(set_variable(&directory, 1, 4, 0, 4), CADRE_EMALFORMED, "no shard 1");
    cr_expect_null(cadre_directory_variable(&directory, 1));
    cadre_directory_fini(&directory);
}

/* --- dropped variables --- */

static int
set_dropped(cadre_directory_t *directory, uint64_t id, uint64_t drop)
{
    cadre_variable_message_t message = {.id = id, .name = "", .last = id, .drop = drop};
    return cadre_directory_set_variable(directory, &message);
}

/* The id of the variable that "one" means after so many drops; 0 for none, -1 for one that was
 * dropped. */
static int64_t
meant(const cadre_directory_t *directory, uint64_t drops)
{
    bool was_dropped = false;
    const cadre_variable_entry_t *entry =
        cadre_directory_variable_by_name(directory, "one", drops, &was_dropped);
    return entry ? (int64_t)entry->id : was_dropped ? -1 : 0;
}

static void
set_one(cadre_directory_t *directory, uint64_t id)
{
    static const uint64_t shape[] = {4};
    static const uint64_t shards[] = {1};
    const cadre_variable_message_t message = {.id = id,
                                              .name = "one",
                                              .dtype = CADRE_F32,
                                              .shape = {shape, 1},
                                              .partitions = 1,
                                              .shards = {shards, 1}};
    cr_assert_eq(cadre_directory_set_variable(directory, &message), 0);
}

Test(directory, a_name_means_what_it_meant_when_the_closure_was_scheduled)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    cr_expect_eq(meant(&directory, 0), 0);
    set_one(&directory, 1);
    cr_expect_eq(set_dropped(&directory, 1, 2), 0);
    cr_expect_eq(directory.drops, 2);
    cr_expect_eq(meant(&directory, 1), 1);
    cr_expect_eq(meant(&directory, 2), -1);
    set_one(&directory, 2);
    cr_expect_eq(meant(&directory, 1), 1);
    cr_expect_eq(meant(&directory, 2), 2);
    cr_expect_eq(set_dropped(&directory, 2, 3), 0);
    set_one(&directory, 3);
    cr_expect_eq(meant(&directory, 1), 1);
    cr_expect_eq(meant(&directory, 2), 2);
    cr_expect_eq(meant(&directory, 9), 3);
    cr_expect_eq(set_vacant(&directory, 1, 1), 0);
    cr_expect_eq(directory.gone, 1);
    cr_expect(cadre_directory_variable(&directory, 1)->is_gone, "a slot may hold it");
    cr_expect_not(cadre_directory_variable(&directory, 2)->is_gone);
    cr_expect_eq(set_dropped(&directory, 2, 3), 0, "said again");
    cr_expect_eq(set_dropped(&directory, 2, 4), CADRE_EMALFORMED);
    cr_expect_eq(set_dropped(&directory, 44, 4), CADRE_EMALFORMED);
    cr_expect_eq(directory.drops, 3);
    cadre_directory_fini(&directory);
}

/* --- records of variables --- */

enum { RECORDS_MAX = 4096 };

/* A DEFINITIONS in the making. */
typedef struct {
    char bytes[RECORDS_MAX];
    size_t size_bytes;
} records_t;

static void
add_record(records_t *self, cadre_message_type_t type, uint64_t id)
{
    static const uint64_t shape[] = {4};
    static const uint64_t shards[] = {1};
    cadre_message_t message = {.type = type};
    if (type == CADRE_MESSAGE_VARIABLE) {
        message.variable = (cadre_variable_message_t){.id = id,
                                                      .name = id == 1 ? "one" : "two",
                                                      .dtype = CADRE_F32,
                                                      .shape = {shape, 1},
                                                      .partitions = 1,
                                                      .shards = {shards, 1}};
    }
    cadre_chunk_t *header = cadre_message_encode(&message);
    uint32_t length = (uint32_t)cadre_chunk_size_bytes(header);
    memcpy(self->bytes + self->size_bytes, &length, sizeof(length));
    memcpy(self->bytes + self->size_bytes + sizeof(length), cadre_chunk_data(header), length);
    self->size_bytes += sizeof(length) + length;
    cadre_chunk_unref(&header);
}

static int
take_records(cadre_directory_t *directory, const records_t *records, size_t size_bytes,
             uint64_t first, uint64_t count)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_DEFINITIONS,
                               .definitions = {.first = first, .count = count}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(records->bytes, size_bytes));
    int status = cadre_directory_take_definitions(directory, &message);
    cadre_message_fini(&message);
    return status;
}

Test(directory, takes_each_record_once_and_none_behind_a_gap)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    records_t both = {.size_bytes = 0};
    add_record(&both, CADRE_MESSAGE_VARIABLE, 1);
    size_t one = both.size_bytes;
    add_record(&both, CADRE_MESSAGE_VARIABLE, 2);
    cr_expect_eq(take_records(&directory, &both, both.size_bytes, 1, 2), 0);
    cr_expect_eq(directory.definitions, 0, "the one before them is missing");
    cr_expect_eq(directory.variables_complete, 0);
    cr_expect_eq(take_records(&directory, &both, one, 0, 1), 0);
    cr_expect_eq(directory.definitions, 1);
    cr_expect_eq(take_records(&directory, &both, both.size_bytes, 0, 2), 0);
    cr_expect_eq(directory.definitions, 2);
    cr_expect_eq(directory.variables_complete, 2);
    cr_expect_eq(take_records(&directory, &both, both.size_bytes, 0, 2), 0, "again");
    cr_expect_eq(directory.definitions, 2);
    cadre_directory_fini(&directory);
}

Test(directory, refuses_records_that_are_cut_or_no_variables)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 2);
    records_t records = {.size_bytes = 0};
    add_record(&records, CADRE_MESSAGE_VARIABLE, 1);
    for (size_t size = 1; size < records.size_bytes; size++) {
        cr_expect_eq(take_records(&directory, &records, size, 0, 1), CADRE_EMALFORMED, "%zu", size);
    }
    cr_expect_eq(directory.definitions, 0);
    cr_expect_eq(take_records(&directory, &records, records.size_bytes, 0, 2), CADRE_EMALFORMED,
                 "another number of them");
    records_t others = {.size_bytes = 0};
    add_record(&others, CADRE_MESSAGE_DRAIN, 0);
    cr_expect_eq(take_records(&directory, &others, others.size_bytes, 1, 1), CADRE_EMALFORMED);
    cadre_message_t message = {.type = CADRE_MESSAGE_DEFINITIONS};
    cr_expect_eq(cadre_directory_take_definitions(&directory, &message), CADRE_EMALFORMED);
    cadre_directory_fini(&directory);
}

/* --- functions and resources that are gone --- */

static void
add_function(cadre_directory_t *directory, uint64_t id, bool lacking)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_FUNCTION};
    message.function = (cadre_function_message_t){
        .id = id, .kind = lacking ? CADRE_FUNCTION_NATIVE : CADRE_FUNCTION_PROGRAM, .name = "f"};
    if (!lacking) {
        cadre_message_add_chunk(&message, cadre_chunk_new(8));
    }
    cr_assert_eq(cadre_directory_set_function(directory, &message, lacking), 0);
    cadre_message_fini(&message);
}

static int
set_gone(cadre_directory_t *directory, cadre_defined_t of, uint64_t id)
{
    cadre_variable_message_t message = {.id = id, .name = "", .last = id, .of = of};
    return cadre_directory_set_variable(directory, &message);
}

Test(directory, a_function_that_is_gone_is_found_no_more_and_keeps_its_entry)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 1);
    add_function(&directory, 1, false);
    add_function(&directory, 3, true);
    cr_expect_eq(directory.functions_complete, 1);
    cr_expect_eq(directory.lack_count, 1);
    const cadre_function_entry_t *first = cadre_directory_function(&directory, 1);
    cr_assert_eq(set_gone(&directory, CADRE_DEFINED_FUNCTION, 1), 0);
    cr_expect_null(cadre_directory_function(&directory, 1));
    cr_expect(first->is_gone);
    cr_expect_not_null(first->program, "a run may still use it");
    cr_expect_eq(directory.functions_leaving.count, 1);
    cadre_directory_remove_function(&directory, 1);
    cr_expect_null(first->program);
    cr_expect_eq(directory.functions_leaving.count, 0);
    cr_assert_eq(set_gone(&directory, CADRE_DEFINED_FUNCTION, 1), 0, "said again");
    cr_expect_eq(directory.functions_gone, 1);
    cr_assert_eq(set_gone(&directory, CADRE_DEFINED_FUNCTION, 2), 0, "one that it never had");
    cr_expect_eq(directory.functions_complete, 3);
    cr_expect_eq(directory.functions_leaving.count, 0, "nothing is to be freed of it");
    cr_assert_eq(set_gone(&directory, CADRE_DEFINED_FUNCTION, 3), 0);
    cr_expect_eq(directory.lack_count, 0);
    cadre_directory_fini(&directory);
}

Test(directory, refuses_a_removal_that_contradicts_itself)
{
    cadre_directory_t directory = {0};
    cadre_directory_init(&directory, 1);
    const uint64_t shards[] = {0};
    const cadre_variable_message_t bad[] = {
        {.id = 0, .last = 0, .of = CADRE_DEFINED_FUNCTION},
        {.id = 1, .last = 2, .of = CADRE_DEFINED_FUNCTION},
        {.id = 1, .last = 1, .of = CADRE_DEFINED_RESOURCE, .drop = 1},
        {.id = 1, .last = 1, .of = CADRE_DEFINED_RESOURCE, .shards = {shards, 1}},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_expect_eq(cadre_directory_set_variable(&directory, &bad[i]), CADRE_EMALFORMED, "%zu", i);
    }
    cr_expect_eq(set_gone(&directory, CADRE_DEFINED_RESOURCE, 4), 0, "one that it never had");
    cadre_directory_fini(&directory);
}
