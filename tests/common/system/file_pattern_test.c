#include "common/system/file_pattern.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static char folder[] = "/tmp/cadre-file[p]-XXXXXX";
static const char *const files[] = {"b-10", "b-2", "b-1", ".b-3", "a*", "ab", "d/b-1"};

static char *
in_folder(const char *name)
{
    return cadre_asprintf("%s/%s", folder, name);
}

static void
set_up(void)
{
    cr_assert(mkdtemp(folder));
    cadre_auto(cadre_free) char *below = in_folder("d");
    cr_assert_eq(mkdir(below, 0700), 0);
    for (size_t i = 0; i < CADRE_COUNT_OF(files); i++) {
        cadre_auto(cadre_free) char *path = in_folder(files[i]);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        cr_assert_geq(file, 0);
        close(file);
    }
}

static void
tear_down(void)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(files); i++) {
        cadre_auto(cadre_free) char *path = in_folder(files[i]);
        unlink(path);
    }
    cadre_auto(cadre_free) char *below = in_folder("d");
    rmdir(below);
    rmdir(folder);
}

TestSuite(file_pattern, .timeout = 240, .init = set_up, .fini = tear_down);

/* The pattern must stand for these files of the folder, a list that NULL ends. */
static void
check(const char *pattern, const char *const *wanted)
{
    cadre_auto(cadre_file_names_fini) cadre_file_names_t names = {0};
    cr_assert_eq(cadre_file_pattern_expand(folder, pattern, 10, &names), 0, "%s",
                 cadre_error_text());
    size_t count = 0;
    for (; wanted[count]; count++) {
        cadre_auto(cadre_free) char *path = in_folder(wanted[count]);
        cr_assert_lt(count, names.count, "%s: no %s", pattern, path);
        cr_expect_str_eq(names.items[count], path);
    }
    cr_expect_eq(names.count, count, "%s stands for %zu files", pattern, names.count);
}

Test(file_pattern, lists_files_by_their_bytes_and_none_that_are_hidden)
{
    check("b-*", (const char *const[]){"b-1", "b-10", "b-2", NULL});
    check("b-?", (const char *const[]){"b-1", "b-2", NULL});
    check("b-[2-9]", (const char *const[]){"b-2", NULL});
    check("*/b-*", (const char *const[]){"d/b-1", NULL});
}

Test(file_pattern, is_the_file_that_has_it_as_its_name)
{
    check("a*", (const char *const[]){"a*", NULL});
    check("a[b]", (const char *const[]){"ab", NULL});
    check("none", (const char *const[]){"none", NULL});
}

Test(file_pattern, refuses_what_no_file_fits_and_more_files_than_may_be)
{
    cadre_auto(cadre_file_names_fini) cadre_file_names_t names = {0};
    cr_expect_eq(cadre_file_pattern_expand(folder, "c*", 10, &names), CADRE_ENOTFOUND);
    cr_expect_eq(cadre_file_pattern_expand(folder, "b-*", 3, &names), 0);
    cr_expect_eq(names.count, 3);
    cr_expect_eq(cadre_file_pattern_expand(folder, "b-1", 3, &names), CADRE_ETOOLARGE);
}
