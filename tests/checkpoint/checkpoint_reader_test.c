#include "common/checkpoint/checkpoint_reader.h"

#include "tests/checkpoint/sample.h"

TestSuite(checkpoint_reader, .timeout = 240);

/* A directory with one checkpoint, id 1. */
typedef struct {
    char *path;
    char *checkpoint;
    cadre_checkpoint_directory_t *directory;
} stored_t;

static stored_t
store(size_t shards, size_t partitions)
{
    stored_t stored = {.path = sample_directory()};
    stored.checkpoint = cadre_asprintf("%s/ckpt-00000001", stored.path);
    ok(cadre_checkpoint_directory_open(stored.path, false, &stored.directory));
    sample_commit(stored.directory, 1, shards, partitions);
    return stored;
}

static void
stored_fini(stored_t *stored)
{
    cadre_checkpoint_directory_destroy(&stored->directory);
    sample_directory_remove(&stored->path);
    free(stored->checkpoint);
}

/* Reads one range as a ps would that holds it under another partitioning. */
static void
expect(cadre_checkpoint_reader_t *reader, const sample_variable_t *sample, const char *kind,
       int64_t first, int64_t count)
{
    cadre_checkpoint_range_t range = {sample->name, kind, sample_dtype(sample, kind), first, count};
    size_t size = (size_t)count * cadre_dtype_size(range.dtype);
    cadre_auto(cadre_free) uint8_t *found = cadre_calloc(size + 1, 1);
    cadre_auto(cadre_free) uint8_t *want = sample_bytes(sample, kind, first, count);
    ok(cadre_checkpoint_reader_read(reader, &range, found, NULL));
    cr_assert_eq(memcmp(found, want, size), 0, "%s %s", sample->name, kind);
}

Test(checkpoint_reader, reads_bit_exact_whatever_the_shards_and_partitions_were)
{
    const size_t cases[][2] = {{4, 1}, {1, 4}, {4, 2}, {2, 4}, {3, 7}, {1, 1}, {5, 3}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(stored_fini) stored_t stored = store(cases[i][0], cases[i][0]);
        cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
        ok(cadre_checkpoint_reader_open(stored.checkpoint, &reader));
        for (size_t v = 0; v < CADRE_COUNT_OF(SAMPLE); v++) {
            cadre_manifest_variable_t now = {0};
            sample_partition(&SAMPLE[v], &now, cases[i][1], cases[i][1]);
            for (size_t j = 0; j < now.partition_count; j++) {
                for (const char *const *kind = SAMPLE[v].kinds; *kind; kind++) {
                    expect(reader, &SAMPLE[v], *kind, now.partitions[j].first_element,
                           now.partitions[j].count);
                }
            }
            cadre_manifest_t one = {.variable_count = 1, .variables = cadre_calloc(1, sizeof(now))};
            one.variables[0] = now;
            cadre_manifest_fini(&one);
        }
    }
}

Test(checkpoint_reader, gives_the_largest_version_of_a_range)
{
    cadre_auto(stored_fini) stored_t stored = store(2, 3); /* fc1.bias: from 0, 4, 8 */
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(stored.checkpoint, &reader));
    float out[11];
    const uint64_t versions[] = {sample_version(0), sample_version(4), sample_version(8)};
    cr_assert(versions[1] > versions[0] && versions[1] > versions[2]);
    const struct {
        int64_t first, count;
        uint64_t version;
    } cases[] = {{0, 4, versions[0]},  {3, 2, versions[1]}, {7, 2, versions[1]},
                 {0, 11, versions[1]}, {8, 3, versions[2]}, {4, 0, 0}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_change_counts_t counts = {99, 99};
        cadre_checkpoint_range_t range = {"fc1.bias", "value", CADRE_F32, cases[i].first,
                                          cases[i].count};
        ok(cadre_checkpoint_reader_read(reader, &range, out, &counts));
        cr_assert_eq(counts.version, cases[i].version);
    }
}

Test(checkpoint_reader, refuses_ranges_names_and_dtypes_that_are_not_there)
{
    cadre_auto(stored_fini) stored_t stored = store(2, 2);
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(stored.checkpoint, &reader));
    float out[16];
    cadre_checkpoint_range_t range = {"fc1.bias", "value", CADRE_F32, 0, 11};
    ok(cadre_checkpoint_reader_read(reader, &range, out, NULL));
    range.first_element = 1;
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_EINVALID);
    range.first_element = INT64_MAX;
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_EINVALID);
    range.first_element = -1;
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_EINVALID);
    range = (cadre_checkpoint_range_t){"fc2", "value", CADRE_F32, 0, 1};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
    range = (cadre_checkpoint_range_t){"fc1.bias", "v", CADRE_F32, 0, 11};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
    range.kind = "../v";
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_EINVALID);
    range = (cadre_checkpoint_range_t){"fc1.bias", "value", CADRE_F64, 0, 1};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_EDTYPE);
}

Test(checkpoint_reader, opens_only_the_files_it_needs)
{
    cadre_auto(stored_fini) stored_t stored =
        store(2, 2); /* fc1.bias: 0..5 on shard 1, 6..10 on 0 */
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", stored.checkpoint);
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(stored.checkpoint, &reader));
    sample_damage(path, 5000);
    expect(reader, &SAMPLE[1], "value", 0, 6);
    float out[11];
    cadre_checkpoint_range_t range = {"fc1.bias", "value", CADRE_F32, 5, 2};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
    cr_assert(strstr(cadre_error_text(), "shard-0.mdb: the hash does not match"), "%s",
              cadre_error_text());
    cr_assert_eq(cadre_checkpoint_reader_verify_files(reader), CADRE_ECORRUPT);
    unlink(path);
    range = (cadre_checkpoint_range_t){"fc1.bias", "momentum", CADRE_F32, 6, 2};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
}

/* Commits a checkpoint whose shard 0 holds `kind` of its part of fc1.bias only. */
static void
commit_partly(cadre_checkpoint_directory_t *directory, const char *kind)
{
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 2, 2, 2);
    cadre_checkpoint_draft_t *draft = NULL;
    ok(cadre_checkpoint_draft_begin(directory, 2, &draft));
    const char *path = cadre_checkpoint_draft_path(draft);
    sample_write_shard(path, &manifest, 1);
    cadre_auto(cadre_free) char *file = cadre_asprintf("%s/shard-0.mdb", path);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, file, file, 0, &writer));
    sample_variable_t bias = SAMPLE[1];
    bias.kinds[0] = kind;
    bias.kinds[1] = NULL;
    sample_put(writer, &bias, 6, 5, 5);
    ok(cadre_shard_writer_put_state(writer, &manifest.shards[0].state));
    ok(cadre_shard_writer_close(&writer, NULL, &manifest.shards[0].size_bytes,
                                &manifest.shards[0].hash));
    ok(cadre_checkpoint_draft_commit(&draft, &manifest));
    cadre_manifest_fini(&manifest);
}

Test(checkpoint_reader, takes_no_missing_slot_for_one_that_never_was)
{
    cadre_auto(stored_fini) stored_t stored = store(1, 1);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/ckpt-00000002", stored.path);
    commit_partly(stored.directory, "value");
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(path, &reader));
    float out[11];
    cadre_checkpoint_range_t range = {"fc1.bias", "momentum", CADRE_F32, 0, 11};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
    cr_assert(strstr(cadre_error_text(), "5 of 11 elements are missing"), "%s", cadre_error_text());
    range.kind = "v";
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
    cr_assert_eq(cadre_checkpoint_directory_verify(stored.directory, 2), CADRE_ECORRUPT);
}

Test(checkpoint_reader, takes_missing_values_for_damage)
{
    cadre_auto(stored_fini) stored_t stored = store(1, 1);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/ckpt-00000002", stored.path);
    commit_partly(stored.directory, "momentum");
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(path, &reader));
    float out[11];
    cadre_checkpoint_range_t range = {"fc1.bias", "value", CADRE_F32, 6, 5};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
}

Test(checkpoint_reader, notices_chunks_in_the_file_of_another_shard)
{
    cadre_auto(stored_fini) stored_t stored = store(1, 1);
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 2, 2, 2);
    cadre_checkpoint_draft_t *draft = NULL;
    ok(cadre_checkpoint_draft_begin(stored.directory, 2, &draft));
    sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 0);
    sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 1);
    for (size_t j = 0; j < manifest.variables[2].partition_count; j++) {
        manifest.variables[2].partitions[j].shard ^= 1;
    }
    ok(cadre_checkpoint_draft_commit(&draft, &manifest));
    cadre_manifest_fini(&manifest);
    cr_assert_eq(cadre_checkpoint_directory_verify(stored.directory, 2), CADRE_ECORRUPT);
    cr_assert(strstr(cadre_error_text(), "is in no partition of this shard"), "%s",
              cadre_error_text());
}

/* A variable that was being created when the snapshots were taken is in some files and not in the
 * manifest. */
Test(checkpoint_reader, passes_over_what_the_manifest_does_not_name)
{
    cadre_auto(stored_fini) stored_t stored = store(1, 1);
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 2, 2, 2);
    cadre_checkpoint_draft_t *draft = NULL;
    ok(cadre_checkpoint_draft_begin(stored.directory, 2, &draft));
    sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 0);
    sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 1);
    size_t last = manifest.variable_count - 1;
    cadre_manifest_variable_t first = manifest.variables[0];
    manifest.variables[0] = manifest.variables[last];
    manifest.variables[last] = first;
    manifest.variable_count = last;
    ok(cadre_checkpoint_draft_commit(&draft, &manifest));
    manifest.variable_count = last + 1;
    cadre_manifest_fini(&manifest);
    ok(cadre_checkpoint_directory_verify(stored.directory, 2));
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/ckpt-00000002", stored.path);
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(path, &reader));
    float out[5];
    cadre_checkpoint_range_t range = {SAMPLE[0].name, "value", CADRE_F32, 0, 5};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
}

/* Puts a link to checkpoint `id` in the place of checkpoint 1. */
static void
plant_link(const stored_t *stored, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *aside = cadre_asprintf("%s/aside", stored->path);
    cr_assert_eq(rename(stored->checkpoint, aside), 0);
    cr_assert_eq(symlink(cadre_checkpoint_name(id, name), stored->checkpoint), 0);
}

Test(checkpoint_reader, reads_on_in_its_folder_when_a_link_takes_the_name)
{
    cadre_auto(stored_fini) stored_t stored = store(2, 3);
    sample_salt = 2;
    sample_commit(stored.directory, 2, 2, 3);
    sample_salt = 0;
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(stored.checkpoint, &reader));
    plant_link(&stored, 2);
    for (size_t v = 0; v < CADRE_COUNT_OF(SAMPLE); v++) {
        expect(reader, &SAMPLE[v], "value", 0, sample_count(&SAMPLE[v]));
    }
}

Test(checkpoint_reader, opens_no_link_in_the_place_of_a_checkpoint)
{
    cadre_auto(stored_fini) stored_t stored = store(2, 3);
    sample_commit(stored.directory, 2, 2, 3);
    plant_link(&stored, 2);
    cadre_checkpoint_reader_t *reader = NULL;
    cr_expect_neq(cadre_checkpoint_reader_open(stored.checkpoint, &reader), 0);
    cr_expect_null(reader);
    cr_expect_neq(cadre_checkpoint_directory_verify(stored.directory, 1), 0);
    cr_expect_not_null(strstr(cadre_error_text(), stored.checkpoint), "%s", cadre_error_text());
}

Test(checkpoint_reader, opens_no_link_in_the_place_of_a_file)
{
    static const char *const NAMES[] = {"manifest.json", "shard-0.mdb"};
    for (size_t i = 0; i < CADRE_COUNT_OF(NAMES); i++) {
        cadre_auto(stored_fini) stored_t stored = store(1, 1);
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", stored.checkpoint, NAMES[i]);
        cadre_auto(cadre_free) char *aside = cadre_asprintf("%s/aside", stored.path);
        cr_assert(rename(path, aside) == 0 && symlink("../aside", path) == 0);
        cr_expect_eq(cadre_checkpoint_directory_verify(stored.directory, 1), CADRE_ECORRUPT);
        cr_expect_not_null(strstr(cadre_error_text(), path), "%s", cadre_error_text());
    }
}

Test(checkpoint_reader, lists_every_kind_with_its_type_and_elements)
{
    cadre_auto(stored_fini) stored_t stored = store(3, 4);
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    ok(cadre_checkpoint_reader_open(stored.checkpoint, &reader));
    cadre_auto(cadre_free) cadre_checkpoint_content_t *contents = NULL;
    size_t count = 0, at = 0;
    ok(cadre_checkpoint_reader_contents(reader, &contents, &count));
    for (size_t v = 0; v < CADRE_COUNT_OF(SAMPLE); v++) {
        if (sample_count(&SAMPLE[v]) == 0) {
            continue; /* no partition, so nobody wrote it */
        }
        for (const char *const *kind = SAMPLE[v].kinds; *kind; kind++, at++) {
            cr_assert_lt(at, count);
            cr_assert_str_eq(contents[at].variable, SAMPLE[v].name);
            cr_assert_str_eq(contents[at].kind, *kind);
            cr_assert_eq(contents[at].dtype, sample_dtype(&SAMPLE[v], *kind));
            cr_assert_eq(contents[at].count, sample_count(&SAMPLE[v]));
        }
    }
    cr_assert_eq(at, count);
}

/* What a shard's writer may do wrong, behind right hashes. */
typedef struct {
    int64_t first, count; /* elements of fc1.bias that shard 0 puts, of 11 */
    int64_t again;        /* a further chunk of two elements from here, -1 for none */
    uint64_t again_version;
    bool slot_only;
    bool wrong_state;
    const char *message;
    /* Version and steps of all values, steps of two slots of the optimizer; 0: as above. */
    uint64_t changes[4];
} fault_t;

/* Puts values and two slots whole, with the numbers of changes that the fault says. */
static void
put_kinds(cadre_shard_writer_t *writer, const fault_t *fault)
{
    static const char *const kinds[] = {"value", "adam_m", "adam_v"};
    static const float BYTES[11];
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        const cadre_shard_chunk_t chunk = {.variable = "fc1.bias",
                                           .kind = kinds[i],
                                           .dtype = CADRE_F32,
                                           .rank = 1,
                                           .shape = {11},
                                           .version = fault->changes[i == 0 ? 0 : i + 1],
                                           .steps = fault->changes[i + 1],
                                           .bytes = BYTES,
                                           .size_bytes = sizeof(BYTES)};
        ok(cadre_shard_writer_put_chunk(writer, &chunk));
    }
}

static void
put_faulty(cadre_shard_writer_t *writer, const fault_t *fault)
{
    static const float BYTES[11];
    if (fault->changes[0] > 0) {
        put_kinds(writer, fault);
        return;
    }
    cadre_shard_chunk_t chunk = {.variable = "fc1.bias",
                                 .kind = fault->slot_only ? "momentum" : "value",
                                 .dtype = CADRE_F32,
                                 .rank = 1,
                                 .shape = {11},
                                 .first_element = fault->first,
                                 .version = 1,
                                 .bytes = BYTES,
                                 .size_bytes = (size_t)fault->count * 4};
    ok(cadre_shard_writer_put_chunk(writer, &chunk));
    if (fault->again >= 0) {
        chunk.first_element = fault->again;
        chunk.version = fault->again_version;
        chunk.size_bytes = 8;
        ok(cadre_shard_writer_put_chunk(writer, &chunk));
    }
}

static void
expect_fault(const fault_t *fault)
{
    cadre_auto(sample_directory_remove) char *path = sample_directory();
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    ok(cadre_checkpoint_directory_open(path, false, &directory));
    cadre_checkpoint_draft_t *draft = NULL;
    ok(cadre_checkpoint_draft_begin(directory, 1, &draft));
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 1, 1, 1);
    cadre_manifest_variable_t bias = manifest.variables[1];
    manifest.variables[1] = manifest.variables[0];
    manifest.variables[0] = bias;
    size_t all = manifest.variable_count;
    manifest.variable_count = 1;
    cadre_auto(cadre_free) char *file =
        cadre_asprintf("%s/shard-0.mdb", cadre_checkpoint_draft_path(draft));
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, file, file, 0, &writer));
    put_faulty(writer, fault);
    ok(cadre_shard_writer_put_state(writer, &manifest.shards[0].state));
    ok(cadre_shard_writer_close(&writer, NULL, &manifest.shards[0].size_bytes,
                                &manifest.shards[0].hash));
    manifest.shards[0].state.applied += fault->wrong_state;
    ok(cadre_checkpoint_draft_commit(&draft, &manifest));
    manifest.variable_count = all;
    cadre_manifest_fini(&manifest);
    int status = cadre_checkpoint_directory_verify(directory, 1);
    cr_assert_eq(status, fault->message ? CADRE_ECORRUPT : 0, "%s", cadre_error_text());
    if (fault->message) {
        cr_assert(strstr(cadre_error_text(), fault->message), "%s: %s", fault->message,
                  cadre_error_text());
    }
}

Test(checkpoint_reader, notices_what_is_missing_twice_or_wrong_behind_right_hashes)
{
    const fault_t faults[] = {
        {0, 11, -1, 0, false, false, NULL, {0}},
        {0, 9, 9, 1, false, false, NULL, {0}},
        {0, 10, -1, 0, false, false, "1 of 11 elements are missing", {0}},
        {2, 9, -1, 0, false, false, "2 of 11 elements are missing", {0}},
        {0, 8, 9, 1, false, false, "1 of 11 elements are missing", {0}},
        {0, 10, 9, 1, false, false, "overlaps", {0}},
        {0, 9, 9, 2, false, false, "another version", {0}},
        {0, 11, -1, 0, true, false, "the values of fc1.bias are missing", {0}},
        {0, 11, -1, 0, false, true, "state is not what the manifest says", {0}},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(faults); i++) {
        expect_fault(&faults[i]);
    }
}

/* A shard writes values and slots of one moment. Where no change but steps is known of values, they
 * may be of an older writer, which counted assignments as steps. */
Test(checkpoint_reader, notices_values_and_slots_of_different_steps_behind_right_hashes)
{
    const fault_t faults[] = {
        {.changes = {5, 4, 4, 4}},
        {.changes = {4, 4, 4, 4}},
        {.changes = {5, 5, 4, 4}},
        {.changes = {5, 4, 3, 3},
         .message = "shard-0.mdb: fc1.bias value from element 0 is in a partition with values of "
                    "step 4 and optimizer slots of step 3"},
        {.changes = {6, 4, 5, 5}, .message = "values of step 4 and optimizer slots of step 5"},
        {.changes = {4, 4, 5, 5}, .message = "values of step 4 and optimizer slots of step 5"},
        {.changes = {5, 4, 4, 3},
         .message = "adam_v from element 0 is of step 3, and another slot of the partition of step "
                    "4"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(faults); i++) {
        expect_fault(&faults[i]);
    }
}
