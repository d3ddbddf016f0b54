/*
 * fake_tree - a directory that stands for / in tests of what is read below /proc and /sys.
 *
 * Thread: one. Each test has one of its own: TestSuite(..., .init = fake_tree_make, .fini =
 * fake_tree_remove).
 */
#ifndef CADRE_TESTS_COMMON_FAKE_TREE_H
#define CADRE_TESTS_COMMON_FAKE_TREE_H

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"

static char fake_tree[] = "/tmp/cadre-tree-XXXXXX";

static inline void
fake_tree_make(void)
{
    cr_assert_not_null(mkdtemp(fake_tree));
}

static inline int
fake_tree_remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

static inline void
fake_tree_remove(void)
{
    nftw(fake_tree, fake_tree_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file of the tree, with its directories. */
static inline void
fake_tree_put(const char *path, const char *content)
{
    cadre_auto(cadre_free) char *full = cadre_asprintf("%s/%s", fake_tree, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *stream = fopen(full, "w");
    cr_assert_not_null(stream, "%s", full);
    fputs(content, stream);
    fclose(stream);
}

#endif
