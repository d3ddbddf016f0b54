/* Which paths of checkpoints a ps takes from its coordinator. */
#include "ps/folders.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(folders, .timeout = 60);

/* A directory with allowed/, allowed/ckpt, other/, a link to allowed, and in there one out of it
 * and one that stays. */
static char *
open_tree(void)
{
    static const char *const folders[] = {"allowed", "allowed/ckpt", "allowed-too", "other"};
    char *top = cadre_strdup("/tmp/cadre-folders-XXXXXX");
    cr_assert_not_null(mkdtemp(top));
    for (size_t i = 0; i < CADRE_COUNT_OF(folders); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", top, folders[i]);
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    cadre_auto(cadre_free) char *link = cadre_asprintf("%s/link", top);
    cadre_auto(cadre_free) char *out = cadre_asprintf("%s/allowed/out", top);
    cadre_auto(cadre_free) char *in = cadre_asprintf("%s/allowed/in", top);
    cr_assert_eq(symlink("allowed", link), 0);
    cr_assert_eq(symlink("../other", out), 0);
    cr_assert_eq(symlink("../allowed", in), 0);
    return top;
}

static void
remove_tree(char *top)
{
    static const char *const names[] = {"allowed/out", "allowed/in",  "link", "allowed/ckpt",
                                        "allowed",     "allowed-too", "other"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", top, names[i]);
        cr_assert_eq(remove(path), 0, "%s", path);
    }
    cr_assert_eq(rmdir(top), 0);
    free(top);
}

static int
try_open(const cadre_folders_t *folders, const char *path)
{
    int folder = -1;
    int status = cadre_folders_open(folders, path, &folder);
    if (status == 0) {
        cr_assert_eq(close(folder), 0);
    }
    return status;
}

static int
check(const char *top, const char *folder, const char *path)
{
    cadre_auto(cadre_free) char *allowed = cadre_asprintf("%s/%s", top, folder);
    cadre_auto(cadre_free) char *asked = cadre_asprintf("%s/%s", top, path);
    cadre_folders_t folders = {.any = false};
    cr_assert_eq(cadre_folders_add(&folders, allowed), 0);
    return try_open(&folders, asked);
}

Test(folders, takes_what_is_in_a_folder_by_any_of_its_names)
{
    char *top = open_tree();
    static const char *const inside[] = {"allowed",
                                         "allowed/",
                                         "allowed/ckpt",
                                         "link/ckpt",
                                         "other/../allowed",
                                         "allowed/in/ckpt",
                                         "allowed/ckpt/../.."
                                         "/allowed"};
    static const char *const names[] = {"allowed", "allowed/", "link", "other/../allowed"};
    for (size_t i = 0; i < CADRE_COUNT_OF(inside); i++) {
        cr_expect_eq(check(top, "allowed", inside[i]), 0, "%s: %s", inside[i], cadre_error_text());
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_expect_eq(check(top, names[i], "allowed/ckpt"), 0, "%s", names[i]);
        cr_expect_eq(check(top, names[i], "link/ckpt"), 0, "%s", names[i]);
    }
    remove_tree(top);
}

Test(folders, says_what_is_not_there)
{
    char *top = open_tree();
    cr_expect_eq(check(top, "allowed", "allowed/not-there"), CADRE_ENOTFOUND);
    cr_expect_eq(check(top, "allowed", "allowed/a/b"), CADRE_ENOTFOUND);
    cr_expect_eq(check(top, "link", "link/a/b"), CADRE_ENOTFOUND);
    cr_expect_eq(check(top, "not-there", "not-there/a"), CADRE_ENOTFOUND);
    cr_expect_not_null(strstr(cadre_error_text(), "/not-there/a"), "%s", cadre_error_text());
    remove_tree(top);
}

/* Its folders are looked at by name first, to find out which is meant; what is opened has none. */
Test(folders, opens_no_link_in_the_place_of_the_folder)
{
    char *top = open_tree();
    cr_expect_eq(check(top, "allowed", "allowed/in"), CADRE_EREFUSED, "though it stays below");
    cr_expect_not_null(strstr(cadre_error_text(), "symbolic link"), "%s", cadre_error_text());
    cr_expect_not_null(strstr(cadre_error_text(), "/allowed/in"), "%s", cadre_error_text());
    cr_expect_eq(check(top, "allowed", "allowed/in/"), CADRE_EREFUSED);
    const cadre_folders_t anywhere = {.any = true};
    cadre_auto(cadre_free) char *link = cadre_asprintf("%s/link", top);
    cr_expect_neq(try_open(&anywhere, link), 0);
    remove_tree(top);
}

Test(folders, refuses_what_is_elsewhere)
{
    char *top = open_tree();
    static const char *const outside[] = {"",
                                          "other",
                                          "allowed-too",
                                          "allowed-too/ckpt",
                                          "allowed/..",
                                          "allowed/../other",
                                          "allowed/out",
                                          "allowed/not-there/../../other",
                                          "allowed/ckpt/..",
                                          "allowed/not-there/../ckpt",
                                          "not-there",
                                          "allowe"};
    for (size_t i = 0; i < CADRE_COUNT_OF(outside); i++) {
        cr_expect_eq(check(top, "allowed", outside[i]), CADRE_EREFUSED, "%s", outside[i]);
    }
    cr_expect_not_null(strstr(cadre_error_text(), "--checkpoint-dir"));
    remove_tree(top);
}

Test(folders, takes_nothing_or_anything_where_it_was_told_none)
{
    cadre_folders_t folders = {.any = false};
    cr_assert_eq(try_open(&folders, "/tmp"), CADRE_EREFUSED);
    cr_assert_eq(try_open(&folders, "relative"), CADRE_EREFUSED);
    folders.any = true;
    cr_assert_eq(try_open(&folders, "/tmp"), 0);
}

Test(folders, the_root_is_everything)
{
    cadre_folders_t folders = {.any = false};
    cr_assert_eq(cadre_folders_add(&folders, "/"), 0);
    cr_assert_eq(try_open(&folders, "/tmp"), 0);
    cr_assert_eq(try_open(&folders, "/not/there"), CADRE_ENOTFOUND);
}

Test(folders, are_bounded)
{
    cadre_folders_t folders = {.any = false};
    cr_assert_eq(cadre_folders_add(&folders, ""), CADRE_EINVALID);
    for (int i = 0; i < CADRE_FOLDERS_MAX; i++) {
        cr_assert_eq(cadre_folders_add(&folders, "/tmp"), 0);
    }
    cr_assert_eq(cadre_folders_add(&folders, "/tmp"), CADRE_EINVALID);
}
