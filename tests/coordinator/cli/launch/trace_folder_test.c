#include "coordinator/cli/launch/trace_folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static char base[64];

static void
setup(void)
{
    snprintf(base, sizeof(base), "/tmp/cadre-trace-XXXXXX");
    cr_assert_not_null(mkdtemp(base));
}

/* `name` in the folder of the test; freed by the caller. */
static char *
inside(const char *name)
{
    return cadre_asprintf("%s/%s", base, name);
}

static void
put(const char *name)
{
    cadre_auto(cadre_free) char *path = inside(name);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fputs("x", file);
    fclose(file);
}

static bool
is_there(const char *name)
{
    cadre_auto(cadre_free) char *path = inside(name);
    return access(path, F_OK) == 0;
}

static int
entries(const char *folder)
{
    DIR *list = opendir(folder);
    cr_assert(list);
    int count = 0;
    while (readdir(list)) {
        count++;
    }
    closedir(list);
    return count - 2;
}

static int
remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static void
teardown(void)
{
    cr_expect_eq(nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

TestSuite(trace_folder, .timeout = 240, .init = setup, .fini = teardown);

Test(trace_folder, names_a_file_for_each_process)
{
    cadre_auto(cadre_free) char *first = cadre_trace_folder_file("t", 12, 1);
    cadre_auto(cadre_free) char *third = cadre_trace_folder_file("t", 0, 3);
    cr_expect_str_eq(first, "t/worker-12.json");
    cr_expect_str_eq(third, "t/worker-0.3.json");
}

Test(trace_folder, is_made_with_its_parents)
{
    cadre_auto(cadre_free) char *folder = inside("a/b//c/");
    cr_expect_eq(cadre_trace_folder_check(folder), 0, "%s", cadre_error_text());
    cr_expect_not(is_there("a"));
    cr_expect_eq(cadre_trace_folder_make(folder), 0, "%s", cadre_error_text());
    cr_expect(is_there("a/b/c"));
    cr_expect_eq(entries(folder), 0);
    cr_expect_eq(cadre_trace_folder_make(folder), 0, "%s", cadre_error_text());
}

Test(trace_folder, loses_the_traces_of_earlier_runs_and_nothing_else)
{
    enum { TRACES = 4 };
    static const char *const names[] = {
        "worker-0.json",   "worker-0.3.json", "worker-1.2.json",   "worker-12.json",
        "notes.txt",       "worker-.json",    "worker-1.json.gz",  "worker-1..json",
        "worker-1.a.json", "worker.json",     "worker-1.2.3.json", "my-worker-1.json",
        "worker-1",        "worker--1.json",  "worker-1.json.old", "Worker-1.json"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        put(names[i]);
    }
    cr_expect_eq(cadre_trace_folder_check(base), 0);
    cr_expect_eq(entries(base), (int)CADRE_COUNT_OF(names));
    cr_expect_eq(cadre_trace_folder_sweep(base, NULL), 0, "%s", cadre_error_text());
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_expect_eq(is_there(names[i]), i >= TRACES, "%s", names[i]);
    }
}

Test(trace_folder, spares_the_trace_of_this_run)
{
    put("worker-0.json");
    put("worker-1.json");
    cadre_auto(cadre_free) char *own = inside("worker-0.json");
    cr_expect_eq(cadre_trace_folder_sweep(base, own), 0, "%s", cadre_error_text());
    cr_expect(is_there("worker-0.json"));
    cr_expect_not(is_there("worker-1.json"));
}

static void
expect_refused(const char *folder, const char *text)
{
    cr_expect_eq(cadre_trace_folder_check(folder), CADRE_EIO, "%s", folder);
    cr_expect(strstr(cadre_error_text(), text), "%s: %s", folder, cadre_error_text());
    cr_expect_eq(cadre_trace_folder_make(folder), CADRE_EIO, "%s", folder);
    cr_expect(strstr(cadre_error_text(), folder), "%s: %s", folder, cadre_error_text());
}

Test(trace_folder, says_what_cannot_be_used)
{
    put("file");
    cadre_auto(cadre_free) char *file = inside("file");
    cadre_auto(cadre_free) char *below = inside("file/below");
    expect_refused("/proc/nowhere", "the folder /proc cannot be written to: ");
    expect_refused(file, "file cannot be used: Not a directory");
    cr_expect_eq(cadre_trace_folder_check(below), CADRE_EIO);
    cr_expect_eq(cadre_trace_folder_make(below), CADRE_EIO);
    cr_expect(strstr(cadre_error_text(), "file/below cannot be made: Not a directory"), "%s",
              cadre_error_text());
}

Test(trace_folder, keeps_what_it_may_not_remove)
{
    cadre_auto(cadre_free) char *path = inside("worker-0.json");
    cr_assert_eq(mkdir(path, 0777), 0);
    cr_expect_eq(cadre_trace_folder_sweep(base, NULL), CADRE_EIO);
    cr_expect(
        strstr(cadre_error_text(), "worker-0.json of an earlier run cannot be removed: Is a "),
        "%s", cadre_error_text());
}
