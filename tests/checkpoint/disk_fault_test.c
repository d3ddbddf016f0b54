/*
 * A disk that refuses: each call of a checkpoint's life, LMDB's own among them, fails once, or
 * fails from there on. The checkpoint before loads whatever happens, the failure is told with a
 * status and a text, and the next checkpoint succeeds once the disk does.
 */
#include "tests/checkpoint/disk_shim.h"

#include "common/base/status.h"
#include "tests/checkpoint/sample.h"

TestSuite(disk_fault, .timeout = 240);

enum { SHARDS = 2, PARTITIONS = 3, BEFORE = 1, NEXT = 2, CALLS_MAX = 1000 };

typedef struct {
    char *path;
    cadre_checkpoint_directory_t *directory;
} fixture_t;

static void
fixture_init(fixture_t *self)
{
    self->path = sample_directory();
    ok(cadre_checkpoint_directory_open(self->path, true, &self->directory));
    sample_salt = BEFORE;
    sample_commit(self->directory, BEFORE, SHARDS, PARTITIONS);
}

static void
fixture_fini(fixture_t *self)
{
    cadre_checkpoint_directory_destroy(&self->directory);
    sample_directory_remove(&self->path);
}

static void
expect_contents(const fixture_t *self, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", self->path, cadre_checkpoint_name(id, name));
    size_t different = 0;
    sample_salt = id;
    ok(sample_read_all(path, &different));
    cr_assert_eq(different, 0);
    ok(cadre_checkpoint_directory_verify(self->directory, id));
}

static void
begin_faults(const fixture_t *self, int64_t at, int error, bool lasting)
{
    disk_shim_begin(self->path, false);
    disk_shim.fail_at = at;
    disk_shim.fail_error = error;
    disk_shim.fail_on = lasting;
}

/* The checkpoint after it, with call `at` failing; true when that call was reached. */
static bool
commit_with_fault(int64_t at, int error, bool lasting)
{
    fixture_t self;
    fixture_init(&self);
    sample_salt = NEXT;
    begin_faults(&self, at, error, lasting);
    int status = sample_try_commit(self.directory, NEXT, SHARDS, PARTITIONS);
    char text[CADRE_ERROR_TEXT_SIZE];
    snprintf(text, sizeof(text), "%s", status < 0 ? cadre_error_text() : "");
    bool reached = disk_shim.failed > 0;
    disk_shim_end();
    if (status < 0) {
        cr_assert(reached);
        cr_assert(strstr(text, self.path), "call %lld: %d, \"%s\" names no file", (long long)at,
                  status, text);
    } else {
        cr_assert(!lasting || !reached, "call %lld failed and nobody said so", (long long)at);
    }
    uint64_t newest = 0;
    ok(cadre_checkpoint_directory_clean(self.directory, NULL));
    ok(cadre_checkpoint_directory_newest(self.directory, NULL, NULL, &newest));
    /* It may be there although it was refused only when the last sync, of the directory, failed. */
    cr_assert(newest == NEXT || status < 0);
    expect_contents(&self, newest);
    expect_contents(&self, BEFORE);
    sample_salt = NEXT + 1;
    sample_commit(self.directory, NEXT + 1, SHARDS, PARTITIONS);
    ok(cadre_checkpoint_directory_newest(self.directory, NULL, NULL, &newest));
    cr_assert_eq(newest, NEXT + 1);
    cr_assert_leq(sample_names(self.path), 3, "nothing is left over");
    fixture_fini(&self);
    return reached;
}

Test(disk_fault, every_call_of_a_commit_may_fail_once)
{
    int64_t at = 0;
    while (at < CALLS_MAX && commit_with_fault(at, EIO, false)) {
        at++;
    }
    cr_assert(at > 30 && at < CALLS_MAX, "%lld calls", (long long)at);
}

Test(disk_fault, a_disk_may_be_full_from_any_call_on)
{
    int64_t at = 0;
    while (at < CALLS_MAX && commit_with_fault(at, ENOSPC, true)) {
        at++;
    }
    cr_assert(at > 30 && at < CALLS_MAX, "%lld calls", (long long)at);
}

/* As on NFS and some FUSE: a rename knows no flags, a directory no sync. */
Test(disk_fault, checkpoints_come_and_go_on_a_plain_file_system)
{
    fixture_t self;
    fixture_init(&self);
    begin_faults(&self, -1, 0, false);
    disk_shim.plain = true;
    for (uint64_t id = NEXT; id <= NEXT + 2; id++) {
        size_t removed = 0;
        sample_salt = id;
        ok(sample_try_commit(self.directory, id, SHARDS, PARTITIONS));
        ok(cadre_checkpoint_directory_retain(self.directory, 1, UINT64_MAX, &removed));
        cr_assert_eq(removed, 1);
    }
    disk_shim.plain = false;
    disk_shim_end();
    expect_contents(&self, NEXT + 2);
    cr_assert_eq(sample_names(self.path), 1, "nothing is left over");
    fixture_fini(&self);
}

/* Its name may not be on disk: if it counted as the newest, retention would remove one that is. */
Test(disk_fault, a_checkpoint_whose_name_was_not_synced_is_none)
{
    fixture_t self;
    fixture_init(&self);
    begin_faults(&self, -1, 0, false);
    disk_shim.unsynced = "";
    sample_salt = NEXT;
    cr_expect_eq(sample_try_commit(self.directory, NEXT, SHARDS, PARTITIONS), CADRE_EIO);
    cr_expect_eq(cadre_checkpoint_directory_retain(self.directory, 1, UINT64_MAX, NULL), 0,
                 "one is there, and may be");
    uint64_t newest = 0;
    ok(cadre_checkpoint_directory_newest(self.directory, NULL, NULL, &newest));
    cr_expect_eq(newest, BEFORE);
    cr_expect_eq(sample_names(self.path), 1, "nothing is left over");
    disk_shim.unsynced = NULL;
    sample_commit(self.directory, NEXT, SHARDS, PARTITIONS);
    disk_shim.unsynced = "";
    cr_expect_eq(cadre_checkpoint_directory_retain(self.directory, 1, UINT64_MAX, NULL), CADRE_EIO);
    disk_shim.unsynced = NULL;
    disk_shim_end();
    expect_contents(&self, BEFORE);
    fixture_fini(&self);
}

/* Loading with call `at` failing: the newest, the one before it, or a status; never another value.
 */
static bool
load_with_fault(const fixture_t *self, int64_t at, bool lasting)
{
    uint64_t id = 0;
    size_t different = 0;
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    begin_faults(self, at, EIO, lasting);
    int status = cadre_checkpoint_directory_newest(self->directory, NULL, NULL, &id);
    if (status == 0) {
        cadre_auto(cadre_free) char *path =
            cadre_asprintf("%s/%s", self->path, cadre_checkpoint_name(id, name));
        sample_salt = id;
        status = sample_read_all(path, &different);
        cr_assert_eq(different, 0);
    }
    bool reached = disk_shim.failed > 0;
    disk_shim_end();
    cr_assert(status == 0 || reached);
    return reached;
}

Test(disk_fault, every_call_of_a_load_may_fail)
{
    fixture_t self;
    fixture_init(&self);
    sample_salt = NEXT;
    sample_commit(self.directory, NEXT, SHARDS, PARTITIONS);
    for (int lasting = 0; lasting < 2; lasting++) {
        int64_t at = 0;
        while (at < CALLS_MAX && load_with_fault(&self, at, lasting)) {
            at++;
        }
        cr_assert(at > 10 && at < CALLS_MAX, "%lld calls", (long long)at);
    }
    expect_contents(&self, NEXT);
    expect_contents(&self, BEFORE);
    fixture_fini(&self);
}

/* Retention with call `at` failing removes nothing but what is older than the newest `keep`. */
static bool
retain_with_fault(int64_t at, bool lasting)
{
    fixture_t self;
    fixture_init(&self);
    for (uint64_t id = NEXT; id < NEXT + 2; id++) {
        sample_salt = id;
        sample_commit(self.directory, id, SHARDS, PARTITIONS);
    }
    begin_faults(&self, at, EIO, lasting);
    int status = cadre_checkpoint_directory_retain(self.directory, 2, UINT64_MAX, NULL);
    bool reached = disk_shim.failed > 0;
    disk_shim_end();
    cr_assert(status == 0 || reached);
    expect_contents(&self, NEXT);
    expect_contents(&self, NEXT + 1);
    ok(cadre_checkpoint_directory_clean(self.directory, NULL));
    ok(cadre_checkpoint_directory_retain(self.directory, 2, UINT64_MAX, NULL));
    cr_assert_eq(sample_names(self.path), 2);
    fixture_fini(&self);
    return reached;
}

Test(disk_fault, every_call_of_retention_may_fail)
{
    for (int lasting = 0; lasting < 2; lasting++) {
        int64_t at = 0;
        while (at < CALLS_MAX && retain_with_fault(at, lasting)) {
            at++;
        }
        cr_assert(at > 10 && at < CALLS_MAX, "%lld calls", (long long)at);
    }
}
