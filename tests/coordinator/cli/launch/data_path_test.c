#include "coordinator/cli/launch/data_path.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(data_path, .timeout = 240);

/* A folder with jobs/a.csv and data/a.csv in it. */
static char folder[] = "/tmp/cadre-data-path-XXXXXX";

static void
make_file(const char *name)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, name);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(file, 0);
    close(file);
}

static void
set_up(void)
{
    cr_assert(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    cr_assert_eq(mkdir("jobs", 0700), 0);
    cr_assert_eq(mkdir("data", 0700), 0);
    make_file("jobs/a.csv");
    make_file("data/a.csv");
}

static void
tear_down(void)
{
    unlink("jobs/a.csv");
    unlink("data/a.csv");
    rmdir("jobs");
    rmdir("data");
    rmdir(folder);
}

static int
resolve(const char *data_dir, const char *path, bool local, char **found)
{
    cadre_job_t job = {
        .file = (char *)"jobs/j.json", .folder = (char *)"jobs", .data_dir = (char *)data_dir};
    json_t *description = json_pack("{s:s, s:s}", "format", "csv", "path", path);
    json_t *resolved = NULL;
    int status = cadre_data_resolve(&job, description, local, &resolved);
    *found = resolved ? cadre_strdup(json_string_value(json_object_get(resolved, "path"))) : NULL;
    json_decref(description);
    json_decref(resolved);
    return status;
}

static void
expect(const char *data_dir, const char *path, bool local, const char *below)
{
    cadre_auto(cadre_free) char *found = NULL;
    cadre_auto(cadre_free) char *wanted =
        local ? cadre_asprintf("%s/%s", folder, below) : cadre_strdup(below);
    cr_expect_eq(resolve(data_dir, path, local, &found), 0, "%s", cadre_error_text());
    cr_expect_str_eq(found, wanted);
}

Test(data_path, is_absolute_for_workers_on_this_machine, .init = set_up, .fini = tear_down)
{
    expect(NULL, "a.csv", true, "jobs/a.csv");
    expect("data", "a.csv", true, "data/a.csv");
    expect("data", "${DATA}/a.csv", true, "data/a.csv");
    cadre_auto(cadre_free) char *whole = cadre_asprintf("%s/data", folder);
    expect(whole, "${DATA}/a.csv", true, "data/a.csv");
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/jobs/a.csv", folder);
    expect("data", path, true, "jobs/a.csv");
}

Test(data_path, is_left_to_workers_elsewhere, .init = set_up, .fini = tear_down)
{
    expect(NULL, "sub/b.csv", false, "sub/b.csv");
    expect(NULL, "${DATA}/b.csv", false, "b.csv");
    expect("/mnt", "${DATA}/b.csv", false, "/mnt/b.csv");
    expect("/mnt", "b.csv", false, "/mnt/b.csv");
}

Test(data_path, is_resolved_in_a_list_and_as_a_pattern, .init = set_up, .fini = tear_down)
{
    expect(NULL, "[a].c*", true, "jobs/[a].c*");
    expect(NULL, "[a].c*", false, "[a].c*");
    cadre_job_t job = {.file = (char *)"jobs/j.json", .folder = (char *)"jobs"};
    json_t *description = json_pack("{s:[s,s]}", "path", "a.csv", "*.csv");
    json_t *resolved = NULL;
    cr_assert_eq(cadre_data_resolve(&job, description, true, &resolved), 0);
    const json_t *list = json_object_get(resolved, "path");
    cr_assert_eq(json_array_size(list), 2);
    cadre_auto(cadre_free) char *wanted = cadre_asprintf("%s/jobs/*.csv", folder);
    cr_expect_str_eq(json_string_value(json_array_get(list, 1)), wanted);
    json_decref(description);
    json_decref(resolved);
}

Test(data_path, says_what_is_missing, .init = set_up, .fini = tear_down)
{
    char *found;
    cr_assert_eq(resolve(NULL, "${DATA}/a.csv", true, &found), CADRE_ENOTFOUND);
    cr_assert(strstr(cadre_error_text(), "give --data DIR"));
    cr_assert_eq(resolve(NULL, "b.csv", true, &found), CADRE_ENOTFOUND);
    cr_assert(strstr(cadre_error_text(), "jobs/b.csv: No such file or directory"));
    cr_assert_eq(resolve(NULL, "b*.csv", true, &found), CADRE_ENOTFOUND);
    cr_assert(strstr(cadre_error_text(), "no file fits"));
}
