#include "common/checkpoint/shard_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include "common/checkpoint/shard_reader.h"
#include "tests/checkpoint/sample.h"

TestSuite(shard_writer, .timeout = 240);

static cadre_shard_chunk_t
chunk_of(const char *variable, int64_t first, const void *bytes, size_t size_bytes)
{
    return (cadre_shard_chunk_t){.variable = variable,
                                 .kind = "value",
                                 .dtype = CADRE_U8,
                                 .rank = 1,
                                 .shape = {1 << 30},
                                 .first_element = first,
                                 .bytes = bytes,
                                 .size_bytes = size_bytes};
}

static const cadre_shard_state_t STATE = {.window_base = 5, .generation = 1};

Test(shard_writer, writes_what_the_reader_finds_in_one_file_without_a_lock)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 100, &writer));
    cadre_shard_chunk_t late = chunk_of("b", 3, "defg", 4);
    cadre_shard_chunk_t early = chunk_of("b", 0, "abc", 3);
    ok(cadre_shard_writer_put_chunk(writer, &late));
    ok(cadre_shard_writer_put_state(writer, &STATE));
    ok(cadre_shard_writer_put_chunk(writer, &early));
    uint64_t size = 0, hash = 0;
    ok(cadre_shard_writer_close(&writer, NULL, &size, &hash));
    cr_assert_eq(sample_names(directory), 1);

    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(sample_open_shard(path, size, hash, &reader));
    char bytes[6] = "";
    cadre_checkpoint_range_t range = {"b", "value", CADRE_U8, 1, 5};
    ok(cadre_shard_reader_read(reader, &range, bytes, NULL));
    cr_assert_str_eq(bytes, "bcdef");
    cadre_shard_state_t state;
    ok(cadre_shard_reader_state(reader, &state));
    cr_assert(state.window_base == 5 && state.generation == 1);
}

Test(shard_writer, keeps_a_variable_without_elements)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer));
    cadre_shard_chunk_t chunk = chunk_of("none", 0, NULL, 0);
    cr_assert_eq(cadre_shard_writer_put_chunk(writer, &chunk), CADRE_EINVALID);
    chunk.shape[0] = 0;
    ok(cadre_shard_writer_put_chunk(writer, &chunk));
    ok(cadre_shard_writer_put_state(writer, &STATE));
    uint64_t size, hash;
    ok(cadre_shard_writer_close(&writer, NULL, &size, &hash));
    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(sample_open_shard(path, size, hash, &reader));
    cadre_checkpoint_range_t range = {"none", "value", CADRE_U8, 0, 0};
    ok(cadre_shard_reader_read(reader, &range, NULL, NULL));
}

Test(shard_writer, refuses_bad_chunks_and_repeated_ones_and_goes_on)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_auto(cadre_shard_writer_destroy) cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, UINT64_MAX, &writer));
    cadre_shard_chunk_t chunk = chunk_of("a/b", 0, "abc", 3);
    cr_assert_eq(cadre_shard_writer_put_chunk(writer, &chunk), CADRE_EINVALID);
    chunk.variable = "a";
    chunk.kind = "";
    cr_assert_eq(cadre_shard_writer_put_chunk(writer, &chunk), CADRE_EINVALID);
    chunk.kind = "value";
    ok(cadre_shard_writer_put_chunk(writer, &chunk));
    cr_assert_eq(cadre_shard_writer_put_chunk(writer, &chunk), CADRE_EEXISTS);
    ok(cadre_shard_writer_put_state(writer, &STATE));
    cr_assert_eq(cadre_shard_writer_put_state(writer, &STATE), CADRE_EEXISTS);
    uint64_t size, hash;
    ok(cadre_shard_writer_close(&writer, NULL, &size, &hash));
}

Test(shard_writer, never_touches_a_file_that_exists_nor_follows_a_link)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/other", directory);
    cadre_auto(cadre_free) char *link = cadre_asprintf("%s/link", directory);
    sample_write_file(path, "mine", 4);
    cr_assert_eq(symlink("nowhere", link), 0);
    cadre_shard_writer_t *writer = NULL;
    cr_assert_eq(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer), CADRE_EEXISTS);
    cr_assert_eq(cadre_shard_writer_open(AT_FDCWD, link, link, 0, &writer), CADRE_EEXISTS);
    cr_assert_null(writer);
    cr_assert_eq(sample_names(directory), 2);
}

Test(shard_writer, removes_the_file_when_it_is_given_up_or_has_no_state)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer));
    cr_assert_eq(sample_names(directory), 1);
    cadre_shard_writer_destroy(&writer);
    cadre_shard_writer_destroy(&writer);
    cr_assert_eq(sample_names(directory), 0);

    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer));
    uint64_t size, hash;
    cr_assert_eq(cadre_shard_writer_close(&writer, NULL, &size, &hash), CADRE_ESTATE);
    cr_assert_null(writer);
    cr_assert_eq(sample_names(directory), 0);
}

Test(shard_writer, grows_past_a_wrong_expected_size_over_several_transactions)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 1, &writer));
    enum { SIZE = 4 << 20, CHUNKS = 40 }; /* 160 MB: three transactions, more than the first map */
    cadre_auto(cadre_free) uint8_t *bytes = cadre_calloc(SIZE, 1);
    for (int i = 0; i < CHUNKS; i++) {
        memset(bytes, i + 1, SIZE);
        cadre_shard_chunk_t chunk = chunk_of("big", (int64_t)i * SIZE, bytes, SIZE);
        ok(cadre_shard_writer_put_chunk(writer, &chunk));
    }
    for (int i = 0; i < 20000; i++) { /* small values charge more than their bytes */
        cadre_shard_chunk_t chunk = chunk_of("small", ((int64_t)i * 7919) % 20000, "x", 1);
        ok(cadre_shard_writer_put_chunk(writer, &chunk));
    }
    ok(cadre_shard_writer_put_state(writer, &STATE));
    uint64_t size = 0, hash = 0;
    ok(cadre_shard_writer_close(&writer, NULL, &size, &hash));
    cr_assert_gt(size, (uint64_t)SIZE * CHUNKS);
    cr_assert_lt(size, (uint64_t)SIZE * CHUNKS * 110 / 100);

    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *reader = NULL;
    ok(sample_open_shard(path, size, hash, &reader));
    cadre_checkpoint_range_t range = {"big", "value", CADRE_U8, 39 * (int64_t)SIZE - 1, 2};
    ok(cadre_shard_reader_read(reader, &range, bytes, NULL));
    cr_assert(bytes[0] == 39 && bytes[1] == 40);
    range = (cadre_checkpoint_range_t){"small", "value", CADRE_U8, 0, 20000};
    ok(cadre_shard_reader_read(reader, &range, bytes, NULL));
}

/* Puts 1 MiB chunks until the disk refuses; the limit on the file's size stands for a full disk. */
static int
fill(cadre_shard_writer_t *writer, const void *bytes)
{
    int status = 0;
    for (int i = 0; status == 0 && i < 100; i++) {
        cadre_shard_chunk_t chunk = chunk_of("w", (int64_t)i << 20, bytes, 1 << 20);
        status = cadre_shard_writer_put_chunk(writer, &chunk);
    }
    return status;
}

static void
limit_file_size(rlim_t size)
{
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {size, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(shard_writer, drops_the_file_when_the_disk_is_full_and_says_so_from_then_on)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_auto(cadre_free) uint8_t *bytes = cadre_calloc(1 << 20, 1);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer));
    limit_file_size((rlim_t)10 << 20);
    cr_assert_eq(fill(writer, bytes), CADRE_EIO); /* at the commit between two transactions */
    cr_assert(strstr(cadre_error_text(), path), "%s", cadre_error_text());
    cr_assert(strstr(cadre_error_text(), "commit"), "%s", cadre_error_text());
    cr_assert_eq(sample_names(directory), 0);
    cr_assert_eq(cadre_shard_writer_put_state(writer, &STATE), CADRE_EIO);
    uint64_t size, hash;
    cr_assert_eq(cadre_shard_writer_close(&writer, NULL, &size, &hash), CADRE_EIO);
    cr_assert(strstr(cadre_error_text(), path));
    cr_assert_null(writer);
}

Test(shard_writer, drops_the_file_when_the_last_commit_fails)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/shard-0.mdb", directory);
    cadre_auto(cadre_free) uint8_t *bytes = cadre_calloc(1 << 20, 1);
    cadre_shard_writer_t *writer = NULL;
    ok(cadre_shard_writer_open(AT_FDCWD, path, path, 0, &writer));
    cadre_shard_chunk_t chunk = chunk_of("w", 0, bytes, 1 << 20);
    ok(cadre_shard_writer_put_chunk(writer, &chunk));
    ok(cadre_shard_writer_put_state(writer, &STATE));
    limit_file_size(100000);
    uint64_t size, hash;
    cr_assert_eq(cadre_shard_writer_close(&writer, NULL, &size, &hash), CADRE_EIO);
    cr_assert_eq(sample_names(directory), 0);
}
