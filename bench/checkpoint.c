/*
 * How fast a shard's file is written, from the first chunk to the finished, hashed file, beside
 * write and fsync of the same bytes to a plain file in the same directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/shard_writer.h"

enum {
    CHUNK_SIZE = 1 << 20,
    CHUNKS_FULL = 256,
    CHUNKS_QUICK = 64,
    REPETITIONS = 5,
};

typedef struct {
    const cadre_bench_t *bench;
    char *path;
    float *bytes; /* CHUNK_SIZE */
    int chunks;
} subject_t;

static double
gb_per_second(const subject_t *self, double begin)
{
    return (double)self->chunks * CHUNK_SIZE / (cadre_bench_now() - begin) * 1e-9;
}

static int
put_chunks(const subject_t *self, cadre_shard_writer_t *writer)
{
    const int64_t elements = CHUNK_SIZE / (int64_t)sizeof(float);
    cadre_shard_chunk_t chunk = {.variable = "weights",
                                 .kind = CADRE_CHECKPOINT_KIND_VALUE,
                                 .dtype = CADRE_F32,
                                 .rank = 1,
                                 .shape = {self->chunks * elements},
                                 .bytes = self->bytes,
                                 .size_bytes = CHUNK_SIZE};
    int status = 0;
    for (int i = 0; i < self->chunks && status == 0; i++) {
        chunk.first_element = i * elements;
        status = cadre_shard_writer_put_chunk(writer, &chunk);
    }

    const cadre_shard_state_t state = {.window_base = 1, .generation = 1};
    if (status < 0) {
        return status;
    }

    return cadre_shard_writer_put_state(writer, &state);
}

static int
run_shard_file(void *context, double *value)
{
    const subject_t *self = context;
    cadre_shard_writer_t *writer = NULL;
    uint64_t size_bytes = 0;
    uint64_t hash = 0;
    double begin = cadre_bench_now();
    int status = cadre_shard_writer_open(AT_FDCWD, self->path, self->path,
                                         (uint64_t)self->chunks * CHUNK_SIZE, &writer);

    status = status < 0 ? status : put_chunks(self, writer);
    status = status < 0 ? status : cadre_shard_writer_close(&writer, NULL, &size_bytes, &hash);
    *value = gb_per_second(self, begin);
    cadre_shard_writer_destroy(&writer);
    unlink(self->path);
    return status;
}

static int
write_chunk(int file, const char *bytes)
{
    for (size_t at = 0; at < CHUNK_SIZE;) {
        ssize_t written = write(file, bytes + at, CHUNK_SIZE - at);
        if (written < 0 && errno != EINTR) {
            return -1;
        }
        at += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static int
run_plain_file(void *context, double *value)
{
    const subject_t *self = context;
    double begin = cadre_bench_now();
    int file = open(self->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int failed = file < 0;
    for (int i = 0; i < self->chunks && !failed; i++) {
        failed = write_chunk(file, (const char *)self->bytes) < 0;
    }

    failed = failed || fsync(file) < 0;
    int status = failed ? cadre_fail(CADRE_EIO, "%s: %s", self->path, strerror(errno)) : 0;
    *value = gb_per_second(self, begin);
    if (file >= 0) {
        close(file);
        unlink(self->path);
    }

    return status;
}

int
cadre_bench_checkpoint(cadre_bench_t *self)
{
    cadre_auto(cadre_free) char *directory =
        cadre_asprintf("%s/cadre-bench-XXXXXX", self->directory);
    if (!mkdtemp(directory)) {
        return cadre_fail(CADRE_EIO, "%s: %s", directory, strerror(errno));
    }

    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/file", directory);
    cadre_auto(cadre_free) float *bytes = cadre_aligned_alloc(CHUNK_SIZE);
    for (size_t i = 0; i < CHUNK_SIZE / sizeof(float); i++) {
        bytes[i] = (float)i;
    }

    subject_t subject = {self, path, bytes, cadre_bench_amount(self, CHUNKS_FULL, CHUNKS_QUICK)};
    cadre_bench_measure_t measures[] = {{run_plain_file, &subject, 0},
                                        {run_shard_file, &subject, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(self, REPETITIONS, 3));

    rmdir(directory);
    if (status < 0) {
        return status;
    }

    cadre_bench_report_add(&self->report,
                           &(cadre_bench_figure_t){.section = "checkpoint",
                                                   .unit = "GB/s",
                                                   .value = measures[1].value,
                                                   .ceiling_name = "write and fsync",
                                                   .ceiling = measures[0].value},
                           "shard file of %d MiB, hashed", subject.chunks);

    return 0;
}
