/*
 * sample - a small model for the tests of this folder, written as a checkpoint in any number of
 * shards and partitions. Every element's bytes follow from variable, kind and position, so that any
 * range can be compared with what it must be.
 */
#ifndef CADRE_TESTS_CHECKPOINT_SAMPLE_H
#define CADRE_TESTS_CHECKPOINT_SAMPLE_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_draft.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/shard_writer.h"
#include "common/tensor/tensor.h"

#define ok(call) cr_assert_eq((call), 0, "%s: %s", #call, cadre_error_text())

typedef struct {
    const char *name;
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    const char *kinds[4];
    cadre_dtype_t slot_dtype;
} sample_variable_t;

static const sample_variable_t SAMPLE[] = {
    {"fc1.weight", CADRE_F32, 2, {37, 5}, {"m", "v", "value"}, CADRE_F32},
    {"fc1.bias", CADRE_F32, 1, {11}, {"momentum", "value"}, CADRE_F32},
    {"fc1", CADRE_BF16, 2, {64, 3}, {"accumulator", "value"}, CADRE_F32},
    {"steps", CADRE_I64, 0, {0}, {"value"}, CADRE_I64},
    {"nothing", CADRE_F64, 2, {0, 4}, {"value"}, CADRE_F64},
};

static inline cadre_dtype_t
sample_dtype(const sample_variable_t *variable, const char *kind)
{
    return strcmp(kind, "value") == 0 ? variable->dtype : variable->slot_dtype;
}

static inline int64_t
sample_count(const sample_variable_t *variable)
{
    int64_t count = 0;
    ok(cadre_shape_size(variable->dtype, variable->shape, variable->rank, &count, NULL));
    return count;
}

/* Goes into every element, so that one checkpoint differs from the next where a test sets it. */
static uint64_t sample_salt;

/* The bytes of `count` elements from `first` on; freed with free. */
static inline uint8_t *
sample_bytes(const sample_variable_t *variable, const char *kind, int64_t first, int64_t count)
{
    size_t size = cadre_dtype_size(sample_dtype(variable, kind));
    uint8_t *bytes = cadre_calloc((size_t)count + 1, size);
    uint64_t salt = sample_salt * UINT64_C(0xd1b54a32d192ed03);
    for (const char *c = variable->name; *c; c++) {
        salt = 31 * salt + (uint64_t)*c;
    }
    for (const char *c = kind; *c; c++) {
        salt = 37 * salt + (uint64_t)*c;
    }
    for (size_t i = 0; i < (size_t)count * size; i++) {
        uint64_t x = (salt + (uint64_t)first * size + i) * UINT64_C(0x9e3779b97f4a7c15);
        bytes[i] = (uint8_t)(x >> 56);
    }
    return bytes;
}

/* A size of a test from the environment. */
static inline uint64_t
sample_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* The version of the partition that begins at `first`: neither the first nor the last is the
 * largest. */
static inline uint64_t
sample_version(int64_t first)
{
    return (uint64_t)(first * 20 % 101) + 1;
}

static inline char *
sample_directory(void)
{
    char *path = cadre_strdup("/tmp/cadre-checkpoint-test-XXXXXX");
    cr_assert(mkdtemp(path));
    return path;
}

static inline int
sample_remove_one(const char *path, const struct stat *about, int flag, struct FTW *walk)
{
    (void)about, (void)flag, (void)walk;
    return remove(path);
}

static inline void
sample_directory_remove(char **path_p)
{
    nftw(*path_p, sample_remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(*path_p);
    *path_p = NULL;
}

/* Names in a directory but "." and "..". */
static inline int
sample_names(const char *path)
{
    int count = 0;
    DIR *stream = opendir(path);
    cr_assert(stream);
    for (struct dirent *entry; (entry = readdir(stream));) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(stream);
    return count;
}

static inline uint8_t *
sample_read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = cadre_calloc(*size + 1, 1);
    cr_assert_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static inline void
sample_write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

/* Changes one byte of a file. */
static inline void
sample_damage(const char *path, off_t offset)
{
    int fd = open(path, O_RDWR);
    cr_assert(fd >= 0, "%s", path);
    uint8_t byte;
    cr_assert_eq(pread(fd, &byte, 1, offset), 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* Opens one shard's file by its path alone. */
static inline int
sample_open_shard(const char *path, uint64_t size_bytes, uint64_t hash, cadre_shard_reader_t **out)
{
    const cadre_shard_reader_file_t file = {AT_FDCWD, path, path, size_bytes, hash};
    return cadre_shard_reader_open(&file, NULL, out);
}

/* One variable's catalogue entry, cut into `partitions` along axis 0, on shards in turn. */
static inline void
sample_partition(const sample_variable_t *sample, cadre_manifest_variable_t *variable,
                 size_t partitions, size_t shards)
{
    int64_t count = sample_count(sample);
    int64_t rows = sample->rank > 0 ? sample->shape[0] : 1;
    int64_t row = rows > 0 ? count / rows : 0;
    int64_t parts = (int64_t)partitions < rows ? (int64_t)partitions : rows;
    variable->name = cadre_strdup(sample->name);
    variable->dtype = sample->dtype;
    variable->rank = sample->rank;
    memcpy(variable->shape, sample->shape, sizeof(sample->shape));
    variable->initializer = json_pack("{s:s, s:f}", "name", "normal", "stddev", 0.1);
    variable->optimizer = json_pack("{s:s}", "name", "adam");
    variable->partition_count = (size_t)parts;
    variable->partitions = cadre_calloc((size_t)parts, sizeof(*variable->partitions));
    int64_t next = 0;
    for (int64_t i = 0; i < parts; i++) {
        int64_t rows_here = rows / parts + (i < rows % parts ? 1 : 0);
        variable->partitions[i] = (cadre_manifest_partition_t){
            .shard = (uint32_t)((size_t)(i + (sample - SAMPLE)) % shards),
            .first_element = next,
            .count = rows_here * row};
        next += rows_here * row;
    }
}

/* A manifest whose shards have no size and hash yet. */
static inline void
sample_manifest(cadre_manifest_t *manifest, uint64_t id, size_t shards, size_t partitions)
{
    *manifest = (cadre_manifest_t){
        .job = cadre_strdup("digits"),
        .id = id,
        .cut = 100 * id,
        .epoch = UINT64_MAX,
        .seed = UINT64_C(0x8000000000000001),
        .created = cadre_strdup("2026-11-20T21:30:00Z"),
        .variable_count = CADRE_COUNT_OF(SAMPLE),
        .variables = cadre_calloc(CADRE_COUNT_OF(SAMPLE), sizeof(cadre_manifest_variable_t)),
        .shard_count = shards,
        .shards = cadre_calloc(shards, sizeof(cadre_manifest_shard_t)),
        .progress = json_pack("{s:i, s:f, s:{s:I}}", "epoch", 3, "loss", 1.0 / 3, "cursor", "row",
                              (json_int_t)INT64_MAX),
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(SAMPLE); i++) {
        sample_partition(&SAMPLE[i], &manifest->variables[i], partitions, shards);
    }
    for (size_t k = 0; k < shards; k++) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        manifest->shards[k].file = cadre_strdup(cadre_checkpoint_shard_name((uint32_t)k, name));
        manifest->shards[k].state = (cadre_shard_state_t){.window_base = manifest->cut,
                                                          .generation = 1 + k,
                                                          .applied = 10 * k,
                                                          .duplicate = 2,
                                                          .refused = 1};
    }
}

/* Puts one partition's values and slots, at most `chunk_count` elements at a time. */
static inline int
sample_put(cadre_shard_writer_t *writer, const sample_variable_t *sample, int64_t first,
           int64_t count, int64_t chunk_count)
{
    int status = 0;
    for (const char *const *kind = sample->kinds; status == 0 && *kind; kind++) {
        int64_t next = first;
        do {
            int64_t left = first + count - next;
            int64_t here = left < chunk_count ? left : chunk_count;
            uint8_t *bytes = sample_bytes(sample, *kind, next, here);
            cadre_shard_chunk_t chunk = {.variable = sample->name,
                                         .kind = *kind,
                                         .dtype = sample_dtype(sample, *kind),
                                         .rank = sample->rank,
                                         .first_element = next,
                                         .version = sample_version(first),
                                         .bytes = bytes};
            chunk.size_bytes = (size_t)here * cadre_dtype_size(chunk.dtype);
            memcpy(chunk.shape, sample->shape, sizeof(chunk.shape));
            status = cadre_shard_writer_put_chunk(writer, &chunk);
            free(bytes);
            next += here;
        } while (status == 0 && next < first + count);
    }
    return status;
}

/* Puts what shard k holds as the manifest has it. */
static inline int
sample_put_shard(cadre_shard_writer_t *writer, const cadre_manifest_t *manifest, size_t k)
{
    int status = cadre_shard_writer_put_state(writer, &manifest->shards[k].state);
    for (size_t i = 0; i < manifest->variable_count; i++) {
        const cadre_manifest_variable_t *variable = &manifest->variables[i];
        for (size_t j = variable->partition_count; status == 0 && j-- > 0;) {
            const cadre_manifest_partition_t *partition = &variable->partitions[j];
            if (partition->shard == k) {
                status =
                    sample_put(writer, &SAMPLE[i], partition->first_element, partition->count, 23);
            }
        }
    }
    return status;
}

/* Writes the file of shard k as a ps does, and notes size and hash in the manifest. */
static inline int
sample_try_write_shard(const char *path, cadre_manifest_t *manifest, size_t k)
{
    cadre_auto(cadre_free) char *file = cadre_asprintf("%s/%s", path, manifest->shards[k].file);
    cadre_auto(cadre_shard_writer_destroy) cadre_shard_writer_t *writer = NULL;
    int status = cadre_shard_writer_open(AT_FDCWD, file, file, 0, &writer);
    if (status == 0) {
        status = sample_put_shard(writer, manifest, k);
    }
    if (status == 0) {
        status = cadre_shard_writer_close(&writer, NULL, &manifest->shards[k].size_bytes,
                                          &manifest->shards[k].hash);
        cr_assert_null(writer);
    }
    return status;
}

static inline void
sample_write_shard(const char *path, cadre_manifest_t *manifest, size_t k)
{
    ok(sample_try_write_shard(path, manifest, k));
}

/* Reads every value and slot of a checkpoint, as a ps does that restores it. Answers the status of
 * the first read that failed, and counts in `different` what is not as it was written. */
static inline int
sample_read_all(const char *path, size_t *different)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = cadre_checkpoint_reader_open(path, &reader);
    *different = 0;
    for (size_t i = 0; status == 0 && i < CADRE_COUNT_OF(SAMPLE); i++) {
        int64_t count = sample_count(&SAMPLE[i]);
        for (const char *const *kind = SAMPLE[i].kinds; status == 0 && *kind; kind++) {
            cadre_dtype_t dtype = sample_dtype(&SAMPLE[i], *kind);
            size_t size_bytes = (size_t)count * cadre_dtype_size(dtype);
            cadre_checkpoint_range_t range = {
                .variable = SAMPLE[i].name, .kind = *kind, .dtype = dtype, .count = count};
            cadre_auto(cadre_free) uint8_t *expected = sample_bytes(&SAMPLE[i], *kind, 0, count);
            cadre_auto(cadre_free) uint8_t *found = cadre_calloc(size_bytes + 1, 1);
            status = cadre_checkpoint_reader_read(reader, &range, found, NULL);
            *different += status == 0 && memcmp(found, expected, size_bytes) != 0;
        }
    }
    return status;
}

/* Commits a whole checkpoint, or aborts it at the first failure, as the coordinator does. */
static inline int
sample_try_commit(cadre_checkpoint_directory_t *directory, uint64_t id, size_t shards,
                  size_t partitions)
{
    cadre_auto(cadre_manifest_fini) cadre_manifest_t manifest;
    cadre_auto(cadre_checkpoint_draft_abort) cadre_checkpoint_draft_t *draft = NULL;
    sample_manifest(&manifest, id, shards, partitions);
    int status = cadre_checkpoint_draft_begin(directory, id, &draft);
    for (size_t k = 0; status == 0 && k < shards; k++) {
        status = sample_try_write_shard(cadre_checkpoint_draft_path(draft), &manifest, k);
    }
    if (status == 0) {
        status = cadre_checkpoint_draft_commit(&draft, &manifest);
        cr_assert_null(draft);
    }
    return status;
}

static inline void
sample_commit(cadre_checkpoint_directory_t *directory, uint64_t id, size_t shards,
              size_t partitions)
{
    ok(sample_try_commit(directory, id, shards, partitions));
}

#endif
