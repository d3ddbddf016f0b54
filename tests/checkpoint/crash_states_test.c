/*
 * Commits, retention and an abort, recorded call by call; then the disk as a crash at any call may
 * leave it (disk_states.h). From every such state a checkpoint that was committed must load, bit by
 * bit, and the job must be able to go on.
 *
 * CADRE_TEST_CRASH_STATES (1000) says how many states, CADRE_TEST_SEED (1) where drawing begins.
 */
#include "tests/checkpoint/disk_states.h"

#include "tests/checkpoint/sample.h"

TestSuite(crash_states, .timeout = 900);

enum { SHARDS = 2, PARTITIONS = 3, KEEP = 2, STATES = 1000, COMMITS_MAX = 8, GO_ON_EVERY = 16 };

/* Where the states are built: in memory when there is such a place. */
static char *
scratch(void)
{
    char *path = cadre_strdup("/dev/shm/cadre-checkpoint-test-XXXXXX");
    if (mkdtemp(path)) {
        return path;
    }
    free(path);
    return sample_directory();
}

static void
commit(cadre_checkpoint_directory_t *directory, uint64_t id)
{
    sample_salt = id;
    sample_commit(directory, id, SHARDS, PARTITIONS);
    disk_shim_mark(id);
    ok(cadre_checkpoint_directory_retain(directory, KEEP, UINT64_MAX, NULL));
}

/* What a coordinator does to its directory: three checkpoints, one given up, two more. */
static void
record(const char *root)
{
    disk_shim_begin(root, true);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/checkpoints", root);
    cadre_checkpoint_directory_t *directory = NULL;
    ok(cadre_checkpoint_directory_open(path, true, &directory));
    ok(cadre_checkpoint_directory_clean(directory, NULL));
    for (uint64_t id = 1; id <= 3; id++) {
        commit(directory, id);
    }
    cadre_manifest_t manifest;
    cadre_checkpoint_draft_t *draft = NULL;
    sample_salt = 4;
    sample_manifest(&manifest, 4, SHARDS, PARTITIONS);
    ok(cadre_checkpoint_draft_begin(directory, 4, &draft));
    sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 0);
    cadre_checkpoint_draft_abort(&draft);
    cadre_manifest_fini(&manifest);
    commit(directory, 4); /* the id again, as after a restart */
    commit(directory, 5);
    cadre_checkpoint_directory_destroy(&directory);
    disk_shim_end();
}

static void
expect_contents(const char *directory, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", directory, cadre_checkpoint_name(id, name));
    size_t different = 0;
    sample_salt = id;
    ok(sample_read_all(path, &different));
    cr_assert_eq(different, 0, "checkpoint %llu", (unsigned long long)id);
}

/* The next id, as the coordinator's store chooses it. */
static uint64_t
next_id(cadre_checkpoint_directory_t *directory)
{
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    ok(cadre_checkpoint_directory_list(directory, &entries, &count));
    uint64_t id = count > 0 ? entries[0].id + 1 : 1;
    cadre_checkpoint_entries_free(&entries, count);
    return id;
}

static void
go_on(cadre_checkpoint_directory_t *directory, const char *path)
{
    uint64_t id = next_id(directory);
    uint64_t newest = 0;
    commit(directory, id);
    ok(cadre_checkpoint_directory_newest(directory, NULL, NULL, &newest));
    cr_assert_eq(newest, id);
    expect_contents(path, id);
}

/* What a coordinator that starts after the crash finds; the id it loads, 0 for none. */
static uint64_t
start_again(const char *root, uint64_t certain, bool goes_on)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/checkpoints", root);
    cadre_checkpoint_directory_t *directory = NULL;
    ok(cadre_checkpoint_directory_open(path, true, &directory));
    ok(cadre_checkpoint_directory_clean(directory, NULL));
    uint64_t id = 0;
    int status = cadre_checkpoint_directory_newest(directory, NULL, NULL, &id);
    if (status == 0) {
        ok(cadre_checkpoint_directory_verify(directory, id));
        expect_contents(path, id);
    } else {
        cr_assert_eq(status, CADRE_ENOTFOUND, "%s", cadre_error_text());
    }
    cr_assert_geq(id, certain, "%llu was committed, %llu is what loads",
                  (unsigned long long)certain, (unsigned long long)id);
    if (goes_on) {
        go_on(directory, path);
    }
    cadre_checkpoint_directory_destroy(&directory);
    return id;
}

Test(crash_states, a_committed_checkpoint_loads_whatever_a_crash_leaves)
{
    uint64_t count = sample_setting("CADRE_TEST_CRASH_STATES", STATES);
    uint64_t seed = sample_setting("CADRE_TEST_SEED", 1);
    cadre_auto(sample_directory_remove) char *place = scratch();
    cadre_auto(cadre_free) char *original = cadre_asprintf("%s/original", place);
    cr_assert_eq(mkdir(original, 0777), 0);
    record(original);
    disk_states_t states;
    disk_states_init(&states, seed);
    uint64_t loaded[COMMITS_MAX] = {0};
    uint64_t later = 0;
    for (uint64_t i = 0; i < count; i++) {
        /* Every call in turn, and for each of them every way in turn. */
        size_t crash = (size_t)(i * (states.count + 1) / count);
        disk_way_t way = (disk_way_t)(i % DISK_WAYS);
        uint64_t certain = 0;
        for (size_t k = 0; k < crash; k++) {
            certain = disk_shim.log[k].kind == DISK_MARK ? disk_shim.log[k].mark : certain;
        }
        char *root = cadre_asprintf("%s/state", place);
        cr_assert_eq(mkdir(root, 0777), 0);
        disk_states_draw(&states, crash, way, root);
        uint64_t id = start_again(root, certain, i % GO_ON_EVERY == 0);
        loaded[id]++;
        later += id > certain ? 1 : 0;
        sample_directory_remove(&root);
    }
    fprintf(stderr, "crash states: %llu of %zu calls, from seed %llu; loaded",
            (unsigned long long)count, states.count, (unsigned long long)seed);
    for (size_t id = 0; id < COMMITS_MAX && (id < 6 || loaded[id] > 0); id++) {
        fprintf(stderr, " %zu: %llu", id, (unsigned long long)loaded[id]);
        cr_assert(loaded[id] > 0 || count < STATES, "no state loads checkpoint %zu", id);
    }
    fprintf(stderr, "; %llu newer than what was certain\n", (unsigned long long)later);
    disk_states_fini(&states);
    disk_shim_free_log();
}
