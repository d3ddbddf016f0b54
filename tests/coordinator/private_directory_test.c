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
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/cadre-%d", folder, USER);
    unlink(own);
    rmdir(own);
    rmdir(folder);
}

Test(private_directory, is_the_runtime_directory_when_nobody_else_may_enter, .init = set_up,
     .fini = tear_down)
{
    cadre_auto(cadre_free) char *path = NULL;
    cr_assert_eq(cadre_private_directory(folder, "/nowhere", geteuid(), &path), 0);
    cr_expect_str_eq(path, folder);
}

Test(private_directory, is_made_where_there_is_none_and_found_again, .init = set_up,
     .fini = tear_down)
{
    if (geteuid() != 0) {
        cr_skip_test("only root can make a directory of another user");
    }
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/cadre-%d", folder, USER);
    cadre_auto(cadre_free) char *path = NULL;
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_EREFUSED,
                 "root made it just now");
    cr_assert_eq(chown(own, USER, USER), 0);
    cr_assert_eq(cadre_private_directory("", folder, USER, &path), 0, "%s", cadre_error_text());
    cr_expect_str_eq(path, own);
    struct stat about;
    cr_assert_eq(stat(own, &about), 0);
    cr_expect_eq(about.st_mode & 0777, 0700);
}

Test(private_directory, that_others_made_or_may_enter_is_refused, .init = set_up, .fini = tear_down)
{
    if (geteuid() != 0) {
        cr_skip_test("only root can make a directory of another user");
    }
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/cadre-%d", folder, USER);
    char *path = NULL;
    cr_assert_eq(mkdir(own, 0700), 0);
    cr_assert_eq(chown(own, USER, USER), 0);
    cr_assert_eq(chmod(own, 0755), 0);
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_EREFUSED);
    cr_expect(strstr(cadre_error_text(), own), "%s", cadre_error_text());
    rmdir(own);
    cr_assert_eq(symlink("/tmp", own), 0);
    cr_expect_eq(cadre_private_directory(NULL, folder, USER, &path), CADRE_EREFUSED);
    cr_expect_null(path);
}
