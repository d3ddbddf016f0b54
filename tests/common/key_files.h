/*
 * key_files - files with keys in the tree of a test.
 *
 * Thread: one, as fake_tree.h.
 */
#ifndef CADRE_TESTS_COMMON_KEY_FILES_H
#define CADRE_TESTS_COMMON_KEY_FILES_H

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/keys/certificate_file.h"
#include "tests/common/fake_tree.h"

enum { KEY_FILES_USER = 12345 };

/* "TREE/NAME", freed by the caller. */
static inline char *
key_file_path(const char *name)
{
    return cadre_asprintf("%s/%s", fake_tree, name);
}

/* Root becomes another user; skips the test where only root may enter the folders above the tree,
 * as in a root directory that mktemp made. */
static inline void
key_files_leave_root(void)
{
    cr_assert_eq(setegid(KEY_FILES_USER), 0);
    cr_assert_eq(seteuid(KEY_FILES_USER), 0);
    struct stat about;
    if (stat(fake_tree, &about) < 0) {
        cr_assert_eq(seteuid(0), 0);
        cr_skip_test("only root may enter /tmp here");
    }
}

/* What follows is done as a user, who owns the tree: root may do everything. */
static inline void
key_files_as_user(void)
{
    if (geteuid() == 0) {
        cr_assert_eq(chown(fake_tree, KEY_FILES_USER, KEY_FILES_USER), 0);
        key_files_leave_root();
    }
}

/* Writes a new certificate of that role and name; gives it. */
static inline cadre_certificate_t
key_file_make(const char *path, cadre_key_role_t role, bool secret)
{
    cadre_certificate_t certificate;
    cr_assert_eq(cadre_certificate_make(role, cadre_key_role_text(role), &certificate), 0);
    cr_assert_eq(cadre_certificate_file_write(&certificate, path, secret), 0, "%s",
                 cadre_error_text());
    return certificate;
}

/* Descriptors that were taken so that few are left. */
typedef struct {
    rlim_t limit; /* before */
    int taken[1024];
    int count;
} key_files_descriptors_t;

/* Lets this process open `count` more descriptors, until key_files_release_descriptors. */
static inline key_files_descriptors_t
key_files_leave_descriptors(int count)
{
    key_files_descriptors_t self = {.count = 0};
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    self.limit = limit.rlim_cur;
    limit.rlim_cur = 1000;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd;
    while ((fd = dup(1)) >= 0) {
        self.taken[self.count++] = fd;
    }
    cr_assert_geq(self.count, count);
    for (int i = 0; i < count; i++) {
        close(self.taken[--self.count]);
    }
    return self;
}

static inline void
key_files_release_descriptors(key_files_descriptors_t *self)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = self->limit;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (self->count > 0) {
        close(self->taken[--self->count]);
    }
}

/* Fails the test unless this thread's error text has `wanted` in it. */
static inline void
expect_error(const char *wanted)
{
    cr_expect(strstr(cadre_error_text(), wanted), "\"%s\" has no \"%s\"", cadre_error_text(),
              wanted);
}

#endif
