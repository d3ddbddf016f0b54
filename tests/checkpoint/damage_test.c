/*
 * A checkpoint of several shards, variables and slots with one bit flipped, or one file cut short
 * or grown, again and again: whoever loads it is told so, with the file's name, and gets the one
 * before; or gets every number as it was written, when the bit means nothing.
 *
 * CADRE_TEST_FLIPS (2000), CADRE_TEST_TRUNCATIONS (300) and CADRE_TEST_SEED (1) set sizes and
 * beginning.
 */
#include <linux/capability.h>
#include <sys/syscall.h>

#include "common/base/random.h"
#include "tests/checkpoint/sample.h"

TestSuite(damage, .timeout = 900);

enum { SHARDS = 3, PARTITIONS = 4, FILES = SHARDS + 1, FLIPS = 2000, TRUNCATIONS = 300 };
enum { BEFORE = 1, NEWEST = 2, PAGE = 4096 };

typedef struct {
    char *path; /* of the directory of checkpoints */
    cadre_checkpoint_directory_t *directory;
    char *newest;             /* path of the checkpoint that is damaged */
    char *names[FILES];       /* its files, */
    uint8_t *contents[FILES]; /* as they should be */
    size_t sizes[FILES];
    cadre_random_t random;
    uint64_t refused;
    uint64_t unused; /* bits that mean nothing */
    char why[512];   /* the newest one was refused by newest(); "" when it was not */
} fixture_t;

static char *
checkpoint_path(const fixture_t *self, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    return cadre_asprintf("%s/%s", self->path, cadre_checkpoint_name(id, name));
}

static void
fixture_init(fixture_t *self)
{
    *self = (fixture_t){.path = sample_directory()};
    cadre_random_init(&self->random, sample_setting("CADRE_TEST_SEED", 1), 0);
    ok(cadre_checkpoint_directory_open(self->path, true, &self->directory));
    for (uint64_t id = BEFORE; id <= NEWEST; id++) {
        sample_salt = id;
        sample_commit(self->directory, id, SHARDS, PARTITIONS);
    }
    self->newest = checkpoint_path(self, NEWEST);
    for (uint32_t i = 0; i < FILES; i++) {
        char name[CADRE_CHECKPOINT_NAME_SIZE];
        const char *file =
            i < SHARDS ? cadre_checkpoint_shard_name(i, name) : CADRE_MANIFEST_FILE_NAME;
        self->names[i] = cadre_asprintf("%s/%s", self->newest, file);
        self->contents[i] = sample_read_file(self->names[i], &self->sizes[i]);
    }
}

static void
fixture_fini(fixture_t *self)
{
    for (size_t i = 0; i < FILES; i++) {
        free(self->names[i]);
        free(self->contents[i]);
    }
    free(self->newest);
    cadre_checkpoint_directory_destroy(&self->directory);
    sample_directory_remove(&self->path);
}

static void
restore_file(const fixture_t *self, size_t file)
{
    sample_write_file(self->names[file], self->contents[file], self->sizes[file]);
}

static void
on_damaged(void *context, uint64_t id, const char *reason)
{
    fixture_t *self = context;
    cr_assert_eq(id, NEWEST, "the one before is sound: %s", reason);
    snprintf(self->why, sizeof(self->why), "%s", reason);
}

/* Loads as the coordinator does (the newest that verifies) and as a ps does that is told a path.
 * True when the damaged checkpoint was refused, by both; false when both loaded it, bit by bit. */
static bool
is_refused(fixture_t *self, size_t file, const char *what)
{
    size_t different = 0;
    uint64_t id = 0;
    self->why[0] = '\0';
    ok(cadre_checkpoint_directory_newest(self->directory, on_damaged, self, &id));
    const char *name = strrchr(self->names[file], '/') + 1;
    if (id == NEWEST) {
        ok(cadre_checkpoint_directory_verify(self->directory, NEWEST));
        sample_salt = NEWEST;
        ok(sample_read_all(self->newest, &different));
        cr_assert_eq(different, 0, "%s: %s was not noticed", name, what);
        return false;
    }
    cr_assert_eq(id, BEFORE);
    cr_assert(strstr(self->why, name), "%s: %s: \"%s\" does not name it", name, what, self->why);
    int status = sample_read_all(self->newest, &different);
    cr_assert_lt(status, 0, "%s: %s was not noticed", name, what);
    cr_assert(strstr(cadre_error_text(), name), "%s: %s: \"%s\" does not name it", name, what,
              cadre_error_text());
    status = cadre_checkpoint_directory_verify(self->directory, NEWEST);
    cr_assert(status == CADRE_ECORRUPT || status == CADRE_EMALFORMED || status == CADRE_EPROTOCOL ||
                  status == CADRE_ENOTFOUND || status == CADRE_EIO,
              "%s: %s: %d", name, what, status);
    cadre_auto(cadre_free) char *before = checkpoint_path(self, BEFORE);
    sample_salt = BEFORE;
    ok(sample_read_all(before, &different));
    cr_assert_eq(different, 0);
    return true;
}

Test(damage, a_flipped_bit_is_refused_or_means_nothing)
{
    fixture_t self;
    fixture_init(&self);
    uint64_t flips = sample_setting("CADRE_TEST_FLIPS", FLIPS);
    for (uint64_t i = 0; i < flips; i++) {
        size_t file = (size_t)cadre_random_below(&self.random, FILES);
        size_t bit = (size_t)cadre_random_below(&self.random, 8 * self.sizes[file]);
        char what[64];
        snprintf(what, sizeof(what), "bit %zu of byte %zu", bit % 8, bit / 8);
        int fd = open(self.names[file], O_WRONLY);
        uint8_t byte = self.contents[file][bit / 8] ^ (uint8_t)(1 << bit % 8);
        cr_assert_eq(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        bool refused = is_refused(&self, file, what);
        self.refused += refused ? 1 : 0;
        self.unused += refused ? 0 : 1;
        if (!refused) {
            fprintf(stderr, "damage: %s, %s means nothing\n", strrchr(self.names[file], '/') + 1,
                    what);
        }
        byte = self.contents[file][bit / 8];
        cr_assert_eq(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
        close(fd);
    }
    fprintf(stderr, "damage: %llu bits flipped: %llu refused, %llu mean nothing\n",
            (unsigned long long)flips, (unsigned long long)self.refused,
            (unsigned long long)self.unused);
    size_t different = 0;
    sample_salt = NEWEST;
    ok(sample_read_all(self.newest, &different)); /* all of it is whole again */
    cr_assert_eq(different, 0);
    fixture_fini(&self);
}

/* A length that a file may be left with: at and around the borders of pages, or any, or beyond. */
static size_t
draw_length(fixture_t *self, size_t size, uint64_t number)
{
    size_t pages = size / PAGE;
    size_t border = PAGE * (size_t)cadre_random_below(&self->random, pages + 1);
    switch (number % 6) {
    case 0:
        return number / 6 % 3; /* 0, 1, 2 */
    case 1:
        return border;
    case 2:
        return border + 1;
    case 3:
        return border > 0 ? border - 1 : size - 1;
    case 4:
        return size + 1 + (size_t)cadre_random_below(&self->random, 2 * PAGE);
    default:
        return (size_t)cadre_random_below(&self->random, size);
    }
}

Test(damage, a_file_of_another_length_is_refused)
{
    fixture_t self;
    fixture_init(&self);
    uint64_t truncations = sample_setting("CADRE_TEST_TRUNCATIONS", TRUNCATIONS);
    uint64_t cut = 0;
    for (uint64_t i = 0; cut < truncations; i++) {
        size_t file = (size_t)cadre_random_below(&self.random, FILES);
        size_t length = draw_length(&self, self.sizes[file], i);
        if (length == self.sizes[file]) {
            continue;
        }
        char what[64];
        snprintf(what, sizeof(what), "%zu bytes instead of %zu", length, self.sizes[file]);
        cr_assert_eq(truncate(self.names[file], (off_t)length), 0);
        cr_assert(is_refused(&self, file, what), "%s: %s loads", self.names[file], what);
        cut += length < self.sizes[file] ? 1 : 0;
        restore_file(&self, file);
    }
    fprintf(stderr, "damage: %llu files cut short: all refused\n", (unsigned long long)cut);
    fixture_fini(&self);
}

/* --- whole files --- */

Test(damage, a_file_that_is_gone_or_another_is_refused)
{
    fixture_t self;
    fixture_init(&self);
    for (size_t file = 0; file < FILES; file++) {
        cr_assert_eq(unlink(self.names[file]), 0);
        cr_assert(is_refused(&self, file, "gone"));
        cr_assert_eq(mkdir(self.names[file], 0777), 0);
        cr_assert(is_refused(&self, file, "a directory"));
        cr_assert_eq(rmdir(self.names[file]), 0);
        cadre_auto(cadre_free) char *other =
            cadre_asprintf("%s/ckpt-00000001/%s", self.path, strrchr(self.names[file], '/') + 1);
        size_t size = 0;
        cadre_auto(cadre_free) uint8_t *bytes = sample_read_file(other, &size);
        sample_write_file(self.names[file], bytes, size);
        if (file < SHARDS) { /* another manifest leads to any of the files */
            cr_assert(is_refused(&self, file, "the one before's"));
        }
        restore_file(&self, file);
    }
    fixture_fini(&self);
}

/* Whether this thread, if it is root's, reads what permissions forbid. */
static void
set_almighty(bool almighty)
{
    const uint32_t rights = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    cr_assert_eq(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~rights;
    data[0].effective |= almighty ? data[0].permitted & rights : 0;
    cr_assert_eq(syscall(SYS_capset, &header, data), 0);
}

Test(damage, a_file_that_cannot_be_read_is_refused_for_now)
{
    fixture_t self;
    fixture_init(&self);
    set_almighty(false);
    uint64_t id = 0;
    for (size_t file = 0; file < FILES; file++) {
        cr_assert_eq(chmod(self.names[file], 0), 0);
        ok(cadre_checkpoint_directory_newest(self.directory, on_damaged, &self, &id));
        cr_assert_eq(id, BEFORE);
        cr_assert(strstr(self.why, "Permission denied"), "%s", self.why);
        cr_assert(strstr(self.why, strrchr(self.names[file], '/')), "%s", self.why);
        cr_assert_eq(chmod(self.names[file], 0644), 0);
    }
    ok(cadre_checkpoint_directory_newest(self.directory, NULL, NULL, &id));
    cr_assert_eq(id, NEWEST);
    set_almighty(true);
    fixture_fini(&self);
}
