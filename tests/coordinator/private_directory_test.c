#include "coordinator/private_directory.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(private_directory, .timeout = 240);

enum { USER = 54321 }; /* has no /run/user */

static char folder[64];

static void
set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cadre-private-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void
tear_down(void)
{
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/.cache/cadre", folder);
    cadre_auto(cadre_free) char *cache = cadre_asprintf("%s/.cache", folder);
    unlink(own);
    rmdir(own);
    rmdir(cache);
    rmdir(folder);
}

Test(private_directory, is_the_runtime_directory_when_nobody_else_may_enter, .init = set_up,
     .fini = tear_down)
{
    cadre_auto(cadre_free) char *path = NULL;
    cr_assert_eq(cadre_private_directory(folder, "/nowhere", geteuid(), &path), 0);
    cr_expect_str_eq(path, folder);
}

/* Hands the home over to USER, who has no /run/user. */
static void
give_home_away(void)
{
    if (geteuid() != 0) {
        cr_skip_test("only root can make a directory of another user");
    }
    cr_assert_eq(chown(folder, USER, USER), 0);
}

Test(private_directory, is_made_in_the_home_and_found_again, .init = set_up, .fini = tear_down)
{
    give_home_away();
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/.cache/cadre", folder);
    cadre_auto(cadre_free) char *path = NULL;
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_ENOTFOUND,
                 "root made it just now");
    cr_assert_eq(chown(own, USER, USER), 0);
    cr_assert_eq(cadre_private_directory("", folder, USER, &path), 0, "%s", cadre_error_text());
    cr_expect_str_eq(path, own);
    struct stat about;
    cr_assert_eq(stat(own, &about), 0);
    cr_expect_eq(about.st_mode & 0777, 0700);
}

Test(private_directory, that_others_may_enter_or_change_is_none, .init = set_up, .fini = tear_down)
{
    give_home_away();
    cadre_auto(cadre_free) char *cache = cadre_asprintf("%s/.cache", folder);
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/cadre", cache);
    char *path = NULL;
    cr_assert_eq(mkdir(cache, 0700), 0);
    cr_assert_eq(mkdir(own, 0700), 0);
    cr_assert_eq(chown(own, USER, USER), 0);
    cr_assert_eq(chmod(own, 0755), 0);
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_ENOTFOUND);
    cr_assert_eq(rmdir(own), 0);
    cr_assert_eq(symlink("/tmp", own), 0);
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_ENOTFOUND);
    cr_assert_eq(unlink(own), 0);
    cr_assert_eq(mkdir(own, 0700), 0);
    cr_assert_eq(chown(own, USER, USER), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_ENOTFOUND,
                 "a home that others may write to, as /tmp");
    cr_expect_eq(cadre_private_directory(NULL, NULL, USER, &path), CADRE_ENOTFOUND);
    cr_expect_null(path);
}
