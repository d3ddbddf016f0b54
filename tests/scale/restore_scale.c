/*
 * restore - MEGABYTES: what a ps takes to load a checkpoint, and what it answers meanwhile
 *
 * One variable under Adam, whose values and slots are so many MB in the file of one ps, and a small
 * one. The job resumes: closures that update the small one run while the big one is loaded. Beside
 * it a ceiling: one thread that reads and hashes the file, hashes each 1 MiB again and copies it,
 * which is what has to be done. Wanted: the ps answers while it loads. The times are for a quiet
 * machine; closures that ended are counted, by no clock.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum { PIECE = 1 << 20, COLUMNS = 1024, AHEAD = 64, CLOSURES_MIN = 3 };

/* Closures that go on while the big variable is loaded. */
typedef struct {
    scale_cluster_t *cluster;
    cadre_function_t *function;
    atomic_bool loaded;
    uint64_t finished; /* while it was */
    double longest;    /* s without one that has ended */
} load_t;

static cadre_variable_t *
create(scale_cluster_t *cluster, const char *name, int64_t rows, int64_t columns,
       const char *optimizer)
{
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    scale_check(cadre_optimizer_named(optimizer, &options.optimizer), optimizer);
    options.initializer =
        cadre_initializer(rows > 0 ? CADRE_INITIALIZER_GLOROT_UNIFORM : CADRE_INITIALIZER_ZEROS);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 1;
    scale_check(cadre_variable_create(cluster->coordinator, name, CADRE_F32,
                                      (int64_t[]){rows, columns}, rows > 0 ? 2 : 0, &options,
                                      &variable),
                name);
    return variable;
}

static void
open_cluster(scale_cluster_t *cluster, const char *directory, cadre_resume_t resume)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.checkpoint_dir = directory;
    options.resume = resume;
    scale_cluster_open(cluster, 1, &options);
    cluster->native = "../tests/scale_functions.so";
}

/* Makes the checkpoint; the path of its file. */
static char *
prepare(const char *directory, int64_t rows)
{
    scale_cluster_t cluster;
    uint64_t id = 0;
    open_cluster(&cluster, directory, CADRE_RESUME_NEVER);
    create(&cluster, "total", 0, 0, "add");
    double from = scale_now();
    create(&cluster, "big", rows, COLUMNS, "adam");
    printf("created in %.2f s", scale_now() - from);
    from = scale_now();
    scale_check(cadre_checkpoint_save(cluster.coordinator, NULL, SCALE_WAIT_MS, &id),
                "a checkpoint");
    printf(", saved in %.2f s\n", scale_now() - from);
    scale_cluster_close(&cluster);
    return cadre_asprintf("%s/ckpt-%08llu/shard-0.mdb", directory, (unsigned long long)id);
}

/* Reads the file, hashes it, hashes each piece again and copies it: the seconds. */
static double
ceiling(const char *path)
{
    double from = scale_now();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    require(fd >= 0 && size > 0, "the file of the shard");
    cadre_auto(cadre_free) char *all = cadre_aligned_alloc((size_t)size);
    cadre_auto(cadre_free) char *piece = cadre_aligned_alloc(PIECE);
    XXH64_hash_t hash = 0;
    for (off_t at = 0; at < size; at += PIECE) {
        ssize_t count = pread(fd, piece, PIECE, at);
        require(count > 0, "a piece of the file");
        hash ^= XXH3_64bits(piece, (size_t)count);
        hash ^= XXH3_64bits_withSeed(piece, (size_t)count, 1);
        memcpy(all + at, piece, (size_t)count);
    }
    close(fd);
    double seconds = scale_now() - from;
    printf("read, hashed twice and copied by one thread in %.2f s (%llx)\n", seconds,
           (unsigned long long)(hash ^ (XXH64_hash_t)all[size - 1]));
    return seconds;
}

static void *
run_closures(void *argument)
{
    load_t *self = argument;
    cadre_coordinator_t *coordinator = self->cluster->coordinator;
    uint64_t last = 0;
    double last_s = scale_now();
    while (!atomic_load(&self->loaded)) {
        cadre_totals_t totals = cadre_coordinator_totals(coordinator);
        double now = scale_now();
        self->longest = now - last_s > self->longest ? now - last_s : self->longest;
        last_s = totals.finished > last ? now : last_s;
        last = totals.finished;
        int64_t ms = 0;
        cadre_tensor_t value = {.dtype = CADRE_I64, .rank = 0, .data = &ms};
        cadre_argument_t given = {"ms", &value};
        cadre_call_t call = cadre_call_tensors(&given, 1);
        for (uint64_t i = totals.queued; i < AHEAD; i++) {
            scale_check(
                cadre_coordinator_schedule(coordinator, self->function, &call, SCALE_WAIT_MS, NULL),
                "a closure");
        }
        again(deadline_in(SCALE_WAIT_MS));
    }
    return NULL;
}

/* The seconds that it takes to create the big variable from the checkpoint. */
static double
load(scale_cluster_t *cluster, int64_t rows, load_t *load)
{
    create(cluster, "total", 0, 0, "add");
    scale_check(cadre_function_native(cluster->coordinator, "sleep_add", &load->function),
                "a function");
    scale_cluster_add_processes(cluster, 1, 1);
    scale_check(cadre_coordinator_wait_ready(cluster->coordinator, 1, SCALE_WAIT_MS), "a worker");
    pthread_t thread;
    require(pthread_create(&thread, NULL, run_closures, load) == 0, "a thread");
    scale_await_finished(cluster, 1);
    uint64_t begin = cadre_coordinator_totals(cluster->coordinator).finished;
    double from = scale_now();
    create(cluster, "big", rows, COLUMNS, "adam");
    double seconds = scale_now() - from;
    load->finished = cadre_coordinator_totals(cluster->coordinator).finished - begin;
    atomic_store(&load->loaded, true);
    pthread_join(thread, NULL);
    return seconds;
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    int64_t megabytes = scale_number(&arguments, 0, 2048, 512);
    int64_t rows = megabytes * 1024 * 1024 / (3 * 4 * COLUMNS);
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *directory = scratch_path(&scratch, "checkpoints");
    cadre_auto(cadre_free) char *file = prepare(directory, rows);
    double best = ceiling(file);

    scale_cluster_t cluster;
    double from = scale_now();
    open_cluster(&cluster, directory, CADRE_RESUME_AUTO);
    printf("opened, files verified, in %.2f s\n", scale_now() - from);
    load_t closures = {.cluster = &cluster};
    double loaded = load(&cluster, rows, &closures);
    scale_cluster_close(&cluster);
    scratch_close(&scratch);
    return scale_verdict(closures.finished >= CLOSURES_MIN,
                         "loads %ld MB in %.2f s, %.2f of one thread's pass over it; %llu closures "
                         "ended meanwhile, %.0f ms without one at most",
                         (long)megabytes, loaded, loaded / best,
                         (unsigned long long)closures.finished, 1000 * closures.longest);
}
