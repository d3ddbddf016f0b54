#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_draft.h"

#include <signal.h>
#include <sys/resource.h>

#include "tests/checkpoint/sample.h"

TestSuite(checkpoint_directory, .timeout = 240);

typedef struct {
    char *path;
    cadre_checkpoint_directory_t *directory;
} store_t;

static store_t
store_open(void)
{
    store_t store = {.path = sample_directory()};
    ok(cadre_checkpoint_directory_open(store.path, false, &store.directory));
    return store;
}

static void
store_fini(store_t *store)
{
    cadre_checkpoint_directory_destroy(&store->directory);
    sample_directory_remove(&store->path);
}

/* What the alarm callback heard, newest first. */
typedef struct {
    uint64_t ids[8];
    char reasons[8][256];
    size_t count;
} alarms_t;

static void
alarm_raised(void *context, uint64_t id, const char *reason)
{
    alarms_t *alarms = context;
    cr_assert_lt(alarms->count, 8);
    snprintf(alarms->reasons[alarms->count], 256, "%s", reason);
    alarms->ids[alarms->count++] = id;
}

static uint64_t
newest(store_t *store, alarms_t *alarms)
{
    uint64_t id = 0;
    memset(alarms, 0, sizeof(*alarms));
    ok(cadre_checkpoint_directory_newest(store->directory, alarm_raised, alarms, &id));
    return id;
}

static void
damage(store_t *store, const char *file, off_t offset)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", store->path, file);
    sample_damage(path, offset);
}

static bool
exists(store_t *store, const char *name)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", store->path, name);
    struct stat about;
    return lstat(path, &about) == 0;
}

Test(checkpoint_directory, lists_commits_newest_first)
{
    cadre_auto(store_fini) store_t store = store_open();
    sample_commit(store.directory, 2, 1, 2);
    sample_commit(store.directory, 10, 2, 2);
    sample_commit(store.directory, 100000000, 1, 1); /* nine digits */
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    ok(cadre_checkpoint_directory_list(store.directory, &entries, &count));
    cr_assert_eq(count, 3);
    cr_assert(entries[0].id == 100000000 && entries[1].id == 10 && entries[2].id == 2);
    cr_assert(entries[1].valid && entries[1].cut == 1000 && entries[1].shard_count == 2);
    cr_assert_str_eq(entries[1].created, "2026-11-20T21:30:00Z");
    cr_assert_gt(entries[1].size_bytes, 8192);
    cadre_checkpoint_entries_free(&entries, count);
    ok(cadre_checkpoint_directory_verify(store.directory, 10));
    cr_assert_eq(cadre_checkpoint_directory_verify(store.directory, 3), CADRE_ENOTFOUND);
}

Test(checkpoint_directory, is_created_when_asked)
{
    cadre_auto(sample_directory_remove) char *path = sample_directory();
    cadre_auto(cadre_free) char *inner = cadre_asprintf("%s/new", path);
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *self = NULL;
    cr_assert_eq(cadre_checkpoint_directory_open(inner, false, &self), CADRE_ENOTFOUND);
    ok(cadre_checkpoint_directory_open(inner, true, &self));
    uint64_t id;
    cr_assert_eq(cadre_checkpoint_directory_newest(self, NULL, NULL, &id), CADRE_ENOTFOUND);
}

/* A coordinator that dies after `steps` steps of writing checkpoint 2. */
static void
die_after(store_t *store, int steps)
{
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 2, 2, 2);
    cadre_checkpoint_draft_t *draft = NULL;
    ok(cadre_checkpoint_draft_begin(store->directory, 2, &draft));
    const char *path = cadre_checkpoint_draft_path(draft);
    if (steps >= 1) {
        sample_write_shard(path, &manifest, 0);
    }
    if (steps >= 2) {
        sample_write_shard(path, &manifest, 1);
    }
    if (steps >= 3) {
        int fd = open(path, O_RDONLY | O_DIRECTORY);
        ok(cadre_manifest_write(&manifest, fd, path));
        close(fd);
    }
    cadre_manifest_fini(&manifest);
    free((char *)
             path); /* the process is gone, and with it the draft; only its memory is ours to end */
    free(draft);
}

Test(checkpoint_directory, keeps_the_old_checkpoint_when_a_commit_is_cut_off_at_any_step)
{
    for (int steps = 0; steps <= 3; steps++) {
        cadre_auto(store_fini) store_t store = store_open();
        sample_commit(store.directory, 1, 2, 2);
        die_after(&store, steps);
        cr_assert_eq(sample_names(store.path), 2);
        alarms_t alarms;
        cr_assert_eq(newest(&store, &alarms), 1);
        cr_assert_eq(alarms.count, 0);
        ok(cadre_checkpoint_directory_verify(store.directory, 1));
        size_t removed = 0;
        ok(cadre_checkpoint_directory_clean(store.directory, &removed));
        cr_assert_eq(removed, 1);
        cr_assert_eq(sample_names(store.path), 1);
        sample_commit(store.directory, 2, 2, 2); /* the id is free again */
        cr_assert_eq(newest(&store, &alarms), 2);
    }
}

Test(checkpoint_directory, aborts_without_a_trace_and_refuses_an_id_that_is_there)
{
    cadre_auto(store_fini) store_t store = store_open();
    sample_commit(store.directory, 1, 1, 1);
    cadre_checkpoint_draft_t *draft = NULL, *second = NULL;
    cr_assert_eq(cadre_checkpoint_draft_begin(store.directory, 1, &draft), CADRE_EEXISTS);
    ok(cadre_checkpoint_draft_begin(store.directory, 2, &draft));
    ok(cadre_checkpoint_draft_begin(store.directory, 2, &second));
    cr_assert_str_neq(cadre_checkpoint_draft_path(draft), cadre_checkpoint_draft_path(second));
    cadre_checkpoint_draft_abort(&draft);
    cadre_checkpoint_draft_abort(&draft);
    cadre_checkpoint_draft_abort(&second);
    cr_assert_eq(sample_names(store.path), 1);
}

/* A ps of a coordinator that is gone may still write into its draft of a checkpoint, and removes
 * what it has failed to write. */
Test(checkpoint_directory, never_gives_two_drafts_one_name)
{
    cadre_auto(store_fini) store_t store = store_open();
    cadre_auto(cadre_free) char *first = NULL;
    for (int i = 0; i < 3; i++) {
        cadre_checkpoint_draft_t *draft = NULL;
        ok(cadre_checkpoint_draft_begin(store.directory, 1, &draft));
        if (first) {
            cr_assert_str_neq(cadre_checkpoint_draft_path(draft), first);
        } else {
            first = cadre_strdup(cadre_checkpoint_draft_path(draft));
        }
        cadre_checkpoint_draft_abort(&draft);
    }
}

Test(checkpoint_directory, leaves_the_coordinators_lock_where_it_is)
{
    cadre_auto(store_fini) store_t store = store_open();
    cadre_auto(cadre_free) char *lock = cadre_asprintf("%s/coordinator.lock", store.path);
    sample_write_file(lock, "", 0);
    for (uint64_t id = 1; id <= 3; id++) {
        sample_commit(store.directory, id, 1, 1);
    }
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    size_t removed = 0;
    ok(cadre_checkpoint_directory_list(store.directory, &entries, &count));
    cr_assert_eq(count, 3);
    cadre_checkpoint_entries_free(&entries, count);
    ok(cadre_checkpoint_directory_clean(store.directory, &removed));
    cr_assert_eq(removed, 0);
    ok(cadre_checkpoint_directory_retain(store.directory, 1, UINT64_MAX, &removed));
    cr_assert_eq(removed, 2);
    cr_assert_eq(access(lock, F_OK), 0);
}

Test(checkpoint_directory, refuses_to_commit_what_is_not_whole)
{
    cadre_auto(store_fini) store_t store = store_open();
    for (int fault = 0; fault < 5; fault++) {
        cadre_manifest_t manifest;
        sample_manifest(&manifest, 1, 2, 2);
        cadre_checkpoint_draft_t *draft = NULL;
        ok(cadre_checkpoint_draft_begin(store.directory, 1, &draft));
        sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 0);
        if (fault != 0) { /* 0: shard 1 never wrote */
            sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 1);
        }
        manifest.shards[0].size_bytes += fault == 1;
        manifest.id += fault == 2;
        manifest.shards[0].file[0] = fault == 3 ? '.' : 's';
        manifest.cut = fault == 4 ? UINT64_MAX : 1;
        const int want[] = {CADRE_ENOTFOUND, CADRE_ECORRUPT, CADRE_EINVALID, CADRE_EINVALID,
                            CADRE_EINVALID};
        cr_assert_eq(cadre_checkpoint_draft_commit(&draft, &manifest), want[fault], "%d: %s", fault,
                     cadre_error_text());
        cr_assert(cadre_error_text()[0]);
        cr_assert_eq(sample_names(store.path), 0);
        cadre_manifest_fini(&manifest);
    }
}

Test(checkpoint_directory, aborts_when_the_disk_is_full_at_the_manifest)
{
    cadre_auto(store_fini) store_t store = store_open();
    sample_commit(store.directory, 1, 1, 1);
    cadre_manifest_t manifest;
    sample_manifest(&manifest, 2, 1, 1);
    cadre_checkpoint_draft_t *draft = NULL;
    ok(cadre_checkpoint_draft_begin(store.directory, 2, &draft));
    sample_write_shard(cadre_checkpoint_draft_path(draft), &manifest, 0);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {100, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(cadre_checkpoint_draft_commit(&draft, &manifest), CADRE_EIO);
    cr_assert(strstr(cadre_error_text(), "manifest.json"), "%s", cadre_error_text());
    cr_assert_eq(sample_names(store.path), 1);
    ok(cadre_checkpoint_directory_verify(store.directory, 1));
    cadre_manifest_fini(&manifest);
}

Test(checkpoint_directory, skips_damaged_checkpoints_with_an_alarm_for_each)
{
    cadre_auto(store_fini) store_t store = store_open();
    for (uint64_t id = 1; id <= 5; id++) {
        sample_commit(store.directory, id, 2, 2);
    }
    damage(&store, "ckpt-00000005/manifest.json", 40);
    damage(&store, "ckpt-00000004/shard-1.mdb", 4097);
    cadre_auto(cadre_free) char *cut = cadre_asprintf("%s/ckpt-00000003/shard-0.mdb", store.path);
    cr_assert_eq(truncate(cut, 4096), 0);
    alarms_t alarms;
    cr_assert_eq(newest(&store, &alarms), 2);
    cr_assert_eq(alarms.count, 3);
    cr_assert(alarms.ids[0] == 5 && alarms.ids[1] == 4 && alarms.ids[2] == 3);
    cr_assert(strstr(alarms.reasons[0], "manifest.json"), "%s", alarms.reasons[0]);
    cr_assert(strstr(alarms.reasons[1], "shard-1.mdb: the hash does not match"));
    cr_assert(strstr(alarms.reasons[2], "shard-0.mdb"), "%s", alarms.reasons[2]);
    cr_assert_neq(cadre_checkpoint_directory_verify(store.directory, 4), 0);
}

Test(checkpoint_directory, refuses_a_checkpoint_under_another_id)
{
    cadre_auto(store_fini) store_t store = store_open();
    sample_commit(store.directory, 1, 1, 1);
    cadre_auto(cadre_free) char *from = cadre_asprintf("%s/ckpt-00000001", store.path);
    cadre_auto(cadre_free) char *to = cadre_asprintf("%s/ckpt-00000009", store.path);
    cr_assert_eq(rename(from, to), 0);
    cr_assert_eq(cadre_checkpoint_directory_verify(store.directory, 9), CADRE_ECORRUPT);
    uint64_t id;
    cr_assert_eq(cadre_checkpoint_directory_newest(store.directory, NULL, NULL, &id),
                 CADRE_ENOTFOUND);
}

Test(checkpoint_directory, keeps_the_newest_valid_ones)
{
    cadre_auto(store_fini) store_t store = store_open();
    for (uint64_t id = 1; id <= 6; id++) {
        sample_commit(store.directory, id, 1, 1);
    }
    damage(&store, "ckpt-00000002/manifest.json", 40); /* older than those kept: goes */
    damage(&store, "ckpt-00000005/manifest.json", 40); /* not counted, and stays to be looked at */
    size_t removed = 0;
    ok(cadre_checkpoint_directory_retain(store.directory, 2, UINT64_MAX, &removed));
    cr_assert_eq(removed, 3);
    cr_assert_eq(sample_names(store.path), 3);
    cr_assert(exists(&store, "ckpt-00000006") && exists(&store, "ckpt-00000005") &&
              exists(&store, "ckpt-00000004"));
    ok(cadre_checkpoint_directory_retain(store.directory, 2, UINT64_MAX, &removed));
    cr_assert_eq(removed, 0);
}

Test(checkpoint_directory, keeps_what_is_needed_however_few_are_to_be_kept)
{
    cadre_auto(store_fini) store_t store = store_open();
    for (uint64_t id = 1; id <= 5; id++) {
        sample_commit(store.directory, id, 1, 1);
    }
    size_t removed = 0;
    ok(cadre_checkpoint_directory_retain(store.directory, 2, 3, &removed));
    cr_assert_eq(removed, 2);
    cr_assert(exists(&store, "ckpt-00000003") && !exists(&store, "ckpt-00000002"));
    ok(cadre_checkpoint_directory_retain(store.directory, 2, 5, &removed));
    cr_assert_eq(removed, 1, "keep is the least");
    cr_assert(exists(&store, "ckpt-00000004"));
}

/* Nobody reads all of the files again for it: those that wrote them have. */
Test(checkpoint_directory, counts_no_file_of_another_size_among_those_it_keeps)
{
    cadre_auto(store_fini) store_t store = store_open();
    for (uint64_t id = 1; id <= 3; id++) {
        sample_commit(store.directory, id, 1, 1);
    }
    cadre_auto(cadre_free) char *cut = cadre_asprintf("%s/ckpt-00000003/shard-0.mdb", store.path);
    cr_assert_eq(truncate(cut, 4096), 0);
    size_t removed = 9;
    ok(cadre_checkpoint_directory_retain(store.directory, 1, UINT64_MAX, &removed));
    cr_assert_eq(removed, 1);
    cr_assert(exists(&store, "ckpt-00000003") && exists(&store, "ckpt-00000002"));
    damage(&store, "ckpt-00000002/manifest.json", 40); /* now none is valid */
    ok(cadre_checkpoint_directory_retain(store.directory, 1, UINT64_MAX, &removed));
    cr_assert_eq(removed, 0);
    cr_assert_eq(sample_names(store.path), 2);
}

Test(checkpoint_directory, leaves_alone_whatever_is_not_ours)
{
    cadre_auto(store_fini) store_t store = store_open();
    for (uint64_t id = 1; id <= 3; id++) {
        sample_commit(store.directory, id, 1, 1);
    }
    cadre_auto(sample_directory_remove) char *outside = sample_directory();
    cadre_auto(cadre_free) char *outside_file = cadre_asprintf("%s/manifest.json", outside);
    sample_write_file(outside_file, "precious", 8);
    cadre_auto(cadre_free) char *foreign = cadre_asprintf("%s/ckpt-00000001/notes.txt", store.path);
    sample_write_file(foreign, "mine", 4);
    const char *names[] = {
        "ckpt-1",        "ckpt-+0000001",      "ckpt-00000002x", "ckpt-000000002",       "backup",
        ".tmp-ckpt-1-0", ".tmp-ckpt-00000001", "ckpt-",          ".tmp-ckpt-00000001-00"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", store.path, names[i]);
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    const char *links[] = {"ckpt-00000000", ".tmp-ckpt-00000007-0"};
    for (size_t i = 0; i < CADRE_COUNT_OF(links); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", store.path, links[i]);
        cr_assert_eq(symlink(outside, path), 0);
    }
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    ok(cadre_checkpoint_directory_list(store.directory, &entries, &count));
    cr_assert_eq(count, 4);
    cr_assert(entries[3].id == 0 && !entries[3].valid); /* the link */
    cadre_checkpoint_entries_free(&entries, count);
    size_t removed = 0;
    cr_assert_neq(cadre_checkpoint_directory_retain(store.directory, 1, UINT64_MAX, &removed), 0);
    cr_assert_eq(removed, 1); /* checkpoint 2 */
    cr_assert_neq(cadre_checkpoint_directory_clean(store.directory, &removed), 0);
    cr_assert_eq(removed, 0);
    cr_assert_eq(sample_names(store.path), 13);
    cr_assert_eq(sample_names(outside), 1);
    cr_assert(exists(&store, "ckpt-00000001/notes.txt") &&
              exists(&store, "ckpt-00000001/shard-0.mdb"));
}

Test(checkpoint_directory, keeps_the_one_that_is_marked_as_the_best)
{
    cadre_auto(store_fini) store_t store = store_open();
    uint64_t best = 0;
    cr_assert_eq(cadre_checkpoint_directory_best(store.directory, &best), CADRE_ENOTFOUND);
    cr_assert_eq(cadre_checkpoint_directory_mark_best(store.directory, 2), CADRE_ENOTFOUND);
    for (uint64_t id = 1; id <= 5; id++) {
        sample_commit(store.directory, id, 1, 1);
    }
    ok(cadre_checkpoint_directory_mark_best(store.directory, 1));
    ok(cadre_checkpoint_directory_mark_best(store.directory, 2)); /* in its place */
    ok(cadre_checkpoint_directory_best(store.directory, &best));
    cr_assert_eq(best, 2);
    size_t removed = 0;
    ok(cadre_checkpoint_directory_retain(store.directory, 2, UINT64_MAX, &removed));
    cr_assert_eq(removed, 2);
    cr_assert(exists(&store, "ckpt-00000002") && exists(&store, "ckpt-00000004"));
    cr_assert_not(exists(&store, "ckpt-00000001") || exists(&store, "ckpt-00000003"));

    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    ok(cadre_checkpoint_directory_list(store.directory, &entries, &count));
    cr_assert_eq(count, 3);
    cr_assert(!entries[0].is_best && !entries[1].is_best && entries[2].is_best);
    cadre_checkpoint_entries_free(&entries, count);

    ok(cadre_checkpoint_directory_mark_best(store.directory, 5)); /* then 2 is one like any other */
    ok(cadre_checkpoint_directory_retain(store.directory, 2, UINT64_MAX, NULL));
    cr_assert_not(exists(&store, "ckpt-00000002"));
    ok(cadre_checkpoint_directory_remove(store.directory, "ckpt-00000005"));
    cr_assert_eq(cadre_checkpoint_directory_best(store.directory, &best), CADRE_ENOTFOUND);
}

Test(checkpoint_directory, says_when_the_mark_of_the_best_is_no_name)
{
    cadre_auto(store_fini) store_t store = store_open();
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/best", store.path);
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs("../ckpt-00000001\n", file) >= 0 && fclose(file) == 0);
    uint64_t best = 0;
    cr_assert_eq(cadre_checkpoint_directory_best(store.directory, &best), CADRE_ECORRUPT);
    sample_commit(store.directory, 1, 1, 1);
    ok(cadre_checkpoint_directory_mark_best(store.directory, 1)); /* and mends it */
    ok(cadre_checkpoint_directory_best(store.directory, &best));
    cr_assert_eq(best, 1);
}
