#include "common/checkpoint/shard_reader.h"

#include "tests/checkpoint/sample.h"

TestSuite(shard_reader, .timeout = 240);

/* One shard that holds the whole sample, and what the manifest says of it. */
typedef struct {
    char *directory;
    char *path;
    uint64_t size_bytes;
    uint64_t hash;
} file_t;

static file_t
write_sample(void)
{
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 1, 1, 3);
    file_t file = {.directory = sample_directory()};
    sample_write_shard(file.directory, &manifest, 0);
    file.path = cadre_asprintf("%s/shard-0.mdb", file.directory);
    file.size_bytes = manifest.shards[0].size_bytes;
    file.hash = manifest.shards[0].hash;
    cadre_manifest_fini(&manifest);
    return file;
}

static void
file_fini(file_t *file)
{
    sample_directory_remove(&file->directory);
    free(file->path);
}

static int
open_file(const file_t *file, cadre_shard_reader_t **reader)
{
    return sample_open_shard(file->path, file->size_bytes, file->hash, reader);
}

Test(shard_reader, reads_every_range_of_every_kind)
{
    cadre_auto(file_fini) file_t file = write_sample();
    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(open_file(&file, &reader));
    const sample_variable_t *weight = &SAMPLE[0];
    static const int64_t STARTS[] = {0, 65, 125}, ENDS[] = {65, 125, 185}; /* of its partitions */
    for (const char *const *kind = weight->kinds; *kind; kind++) {
        for (int64_t first = 0; first <= 185; first += 3) {
            for (int64_t count = 0; first + count <= 185; count += 7) {
                float out[185];
                cadre_change_counts_t counts = {99, 99};
                cadre_checkpoint_range_t range = {weight->name, *kind, CADRE_F32, first, count};
                ok(cadre_shard_reader_read(reader, &range, out, &counts));
                cadre_auto(cadre_free) uint8_t *want = sample_bytes(weight, *kind, first, count);
                cr_assert_eq(memcmp(out, want, (size_t)count * 4), 0);
                uint64_t newest = 0;
                for (int i = 0; i < 3; i++) {
                    bool touched = count > 0 && first < ENDS[i] && first + count > STARTS[i];
                    uint64_t here = sample_version(STARTS[i]);
                    newest = touched && here > newest ? here : newest;
                }
                cr_assert_eq(counts.version, newest);
            }
        }
    }
}

Test(shard_reader, says_what_it_does_not_have)
{
    cadre_auto(file_fini) file_t file = write_sample();
    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(open_file(&file, &reader));
    uint8_t out[2048];
    cadre_checkpoint_range_t range = {"fc1.weight", "rms", CADRE_F32, 0, 5};
    cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
    range.variable = "fc2", range.kind = "value";
    cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
    range.variable = "zz";
    cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_ENOTFOUND);
    range = (cadre_checkpoint_range_t){"fc1", "value", CADRE_F32, 0, 5};
    cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_EDTYPE);
    range = (cadre_checkpoint_range_t){"fc1.weight", "value", CADRE_F32, 180, 6};
    cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
    cr_assert(strstr(cadre_error_text(), "element 185 is missing"), "%s", cadre_error_text());
}

Test(shard_reader, says_which_element_a_gap_begins_with)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer));
    sample_put(writer, &SAMPLE[0], 10, 20, 8);
    sample_put(writer, &SAMPLE[0], 35, 20, 8);
    cadre_shard_state_t state = {.generation = 1};
    ok(cadre_shard_writer_put_state(writer, &state));
    uint64_t size, hash;
    ok(cadre_shard_writer_close(&writer, NULL, &size, &hash));
    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(sample_open_shard(path, size, hash, &reader));
    float out[64];
    const struct {
        int64_t first, count;
        const char *missing;
    } cases[] = {{9, 2, "element 9 "},   {0, 1, "element 0 "},   {29, 2, "element 30 "},
                 {30, 5, "element 30 "}, {34, 9, "element 34 "}, {54, 2, "element 55 "}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_checkpoint_range_t range = {"fc1.weight", "m", CADRE_F32, cases[i].first,
                                          cases[i].count};
        cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
        cr_assert(strstr(cadre_error_text(), cases[i].missing), "%s", cadre_error_text());
    }
}

Test(shard_reader, never_maps_a_file_with_a_flipped_bit)
{
    cadre_auto(file_fini) file_t file = write_sample();
    size_t size = 0;
    cadre_auto(cadre_free) uint8_t *bytes = sample_read_file(file.path, &size);
    cr_assert_eq(size, file.size_bytes);
    uint64_t random = 42;
    for (int i = 0; i < 400; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        size_t bit = (size_t)(random >> 20) % (8 * size);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        sample_write_file(file.path, bytes, size);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cadre_shard_reader_t *reader = NULL;
        cr_assert_eq(open_file(&file, &reader), CADRE_ECORRUPT, "bit %zu", bit);
        cr_assert_null(reader);
    }
}

Test(shard_reader, never_maps_a_file_cut_short_or_grown)
{
    cadre_auto(file_fini) file_t file = write_sample();
    cadre_shard_reader_t *reader = NULL;
    const off_t size = (off_t)file.size_bytes;
    const off_t sizes[] = {size + 1, size - 1, size - 4096, size / 2, 4096, 1, 0};
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        cr_assert_eq(truncate(file.path, sizes[i]), 0);
        cr_assert_eq(open_file(&file, &reader), CADRE_ECORRUPT);
    }
    unlink(file.path);
    cr_assert_eq(open_file(&file, &reader), CADRE_ENOTFOUND);
}

Test(shard_reader, notices_bytes_that_change_after_it_was_opened)
{
    cadre_auto(file_fini) file_t file = write_sample();
    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(open_file(&file, &reader));
    size_t size = 0;
    cadre_auto(cadre_free) uint8_t *bytes = sample_read_file(file.path, &size);
    cadre_auto(cadre_free) uint8_t *want = sample_bytes(&SAMPLE[0], "v", 0, 23);
    const uint8_t *found = memmem(bytes, size, want, (size_t)23 * 4);
    cr_assert(found);
    float out[30];
    cadre_checkpoint_range_t range = {"fc1.weight", "v", CADRE_F32, 5, 1};
    ok(cadre_shard_reader_read(reader, &range, out, NULL));
    sample_damage(file.path, found - bytes + 90); /* in the record, beside the element asked for */
    cr_assert_eq(cadre_shard_reader_read(reader, &range, out, NULL), CADRE_ECORRUPT);
    cr_assert(strstr(cadre_error_text(), "fc1.weight v"), "%s", cadre_error_text());
}

/* Asked while the file is hashed: gives its name to another one. */
static bool
replace(void *context)
{
    const file_t *file = context;
    cadre_auto(cadre_free) char *aside = cadre_asprintf("%s/aside", file->directory);
    cr_assert_eq(rename(file->path, aside), 0);
    sample_write_file(file->path, "no map", 6);
    return false;
}

Test(shard_reader, maps_the_file_that_it_verified)
{
    cadre_auto(file_fini) file_t file = write_sample();
    const cadre_shard_reader_file_t wanted = {AT_FDCWD, file.path, file.path, file.size_bytes,
                                              file.hash};
    const cadre_give_up_t give_up = {replace, &file};
    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(cadre_shard_reader_open(&wanted, &give_up, &reader));
    cadre_shard_state_t state;
    ok(cadre_shard_reader_state(reader, &state));
}

Test(shard_reader, opens_neither_links_nor_pipes)
{
    cadre_auto(file_fini) file_t file = write_sample();
    cadre_auto(cadre_free) char *real = cadre_asprintf("%s/real", file.directory);
    cr_assert_eq(rename(file.path, real), 0);
    cr_assert_eq(symlink("real", file.path), 0);
    cadre_shard_reader_t *reader = NULL;
    cr_assert_eq(open_file(&file, &reader), CADRE_ECORRUPT);
    unlink(file.path);
    cr_assert_eq(mkfifo(file.path, 0600), 0);
    cr_assert_eq(open_file(&file, &reader), CADRE_ECORRUPT);
}
