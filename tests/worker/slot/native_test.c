#include "worker/slot/native.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "tests/system/process.h"
#include "tests/system/scratch.h"
#include "tests/worker/native_file.h"

enum { CHECK_MS = 120000 };

static char folder[64];

static void
setup(void)
{
    native_file_setup(folder, sizeof(folder));
}

static void
teardown(void)
{
    native_file_teardown(folder);
}

TestSuite(native, .timeout = 240, .init = setup, .fini = teardown);

static int
nothing(cadre_invocation_t *invocation, void *state)
{
    (void)invocation;
    (void)state;
    return 0;
}

Test(native, finds_what_was_added_and_the_built_in_noop)
{
    cadre_registry_t *registry = cadre_registry_new();
    int state = 0;
    cr_expect_eq(cadre_registry_add(registry, "a.b-c_9", nothing, &state), 0);
    const cadre_native_entry_t *entry = cadre_registry_find(registry, "a.b-c_9");
    cr_assert_not_null(entry);
    cr_expect(entry->function == nothing && entry->state == &state);
    cr_expect_not_null(cadre_registry_find(registry, "noop"));
    cr_expect_null(cadre_registry_find(registry, "a.b"));
    cr_expect_str_eq(cadre_registry_name(registry, 0), "noop");
    cr_expect_null(cadre_registry_name(registry, 2));
    cadre_registry_destroy(&registry);
}

static char exits[8];

static void
note_exit(void *state)
{
    strncat(exits, state, sizeof(exits) - strlen(exits) - 1);
}

Test(native, calls_at_exit_what_was_asked_for_the_last_first)
{
    cadre_registry_t *registry = cadre_registry_new();
    char names[] = {'a', 0, 'b', 0, 'c', 0};
    cr_expect_eq(cadre_registry_at_exit(registry, NULL, names), CADRE_EINVALID);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(cadre_registry_at_exit(registry, note_exit, names + 2 * i), 0);
    }
    cr_expect_str_eq(exits, "");
    cadre_registry_destroy(&registry);
    cr_expect_str_eq(exits, "cba");
    registry = cadre_registry_new();
    for (int i = 0; i < CADRE_NATIVE_EXITS_MAX; i++) {
        cr_assert_eq(cadre_registry_at_exit(registry, note_exit, names), 0);
    }
    cr_expect_eq(cadre_registry_at_exit(registry, note_exit, names), CADRE_EFULL);
    cadre_registry_destroy(&registry);
}

Test(native, refuses_bad_and_doubled_names)
{
    cadre_registry_t *registry = cadre_registry_new();
    char longest[CADRE_NAME_SIZE_MAX + 2];
    memset(longest, 'n', sizeof(longest));
    longest[CADRE_NAME_SIZE_MAX + 1] = '\0';
    const char *const bad[] = {"", ".a", "-a", "_a", "a b", "a/b", "\xc3\xa4", longest, NULL};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_expect_eq(cadre_registry_add(registry, bad[i], nothing, NULL), CADRE_EINVALID, "%zu", i);
    }
    longest[CADRE_NAME_SIZE_MAX] = '\0';
    cr_expect_eq(cadre_registry_add(registry, longest, nothing, NULL), 0);
    cr_expect_eq(cadre_registry_add(registry, longest, nothing, NULL), CADRE_EEXISTS);
    cr_expect_eq(cadre_registry_add(registry, "noop", nothing, NULL), CADRE_EEXISTS);
    cr_expect_eq(cadre_registry_add(registry, "f", NULL, NULL), CADRE_EINVALID);
    cadre_registry_destroy(&registry);
}

Test(native, takes_as_many_functions_as_its_limit)
{
    cadre_registry_t *registry = cadre_registry_new();
    char name[16];
    for (int i = 1; i < CADRE_NATIVE_FUNCTIONS_MAX; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        cr_assert_eq(cadre_registry_add(registry, name, nothing, NULL), 0);
    }
    cr_expect_eq(cadre_registry_add(registry, "one_more", nothing, NULL), CADRE_EFULL);
    cadre_registry_destroy(&registry);
}

Test(native, refuses_files_that_others_could_have_written)
{
    cadre_registry_t *registry = cadre_registry_new();
    cadre_auto(cadre_free) char *path = native_file_copy(folder, "a.so");
    const mode_t modes[] = {0775, 0757, 0777};
    for (size_t i = 0; i < CADRE_COUNT_OF(modes); i++) {
        cr_assert_eq(chmod(path, modes[i]), 0);
        cr_expect_eq(cadre_native_load(registry, path), CADRE_EREFUSED);
        cr_expect_not_null(strstr(cadre_error_text(), path));
    }
    cr_assert_eq(chmod(path, 0755), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    cr_expect_eq(cadre_native_load(registry, path), CADRE_EREFUSED, "its folder");
    cr_assert_eq(chmod(folder, 01777), 0);
    cr_expect_neq(cadre_native_load(registry, path), CADRE_EREFUSED, "sticky, as /tmp is");
    if (geteuid() == 0) {
        cr_assert_eq(chmod(folder, 0755), 0);
        cr_assert_eq(chown(path, 12345, 0), 0);
        cr_expect_eq(cadre_native_load(registry, path), CADRE_EREFUSED, "another user's");
    }
    cadre_registry_destroy(&registry);
}

Test(native, refuses_a_folder_above_that_others_could_have_written)
{
    cadre_registry_t *registry = cadre_registry_new();
    cadre_auto(cadre_free) char *between =
        cadre_asprintf("%s/b.so", folder); /* as the fixture tidies up */
    cadre_auto(cadre_free) char *inside = cadre_asprintf("%s/own", between);
    cr_assert_eq(mkdir(between, 0755), 0);
    cr_assert_eq(mkdir(inside, 0755), 0);
    cadre_auto(cadre_free) char *path = native_file_copy(inside, "a.so");
    cr_expect_neq(cadre_native_load(registry, path), CADRE_EREFUSED, "%s", cadre_error_text());
    cr_assert_eq(chmod(between, 0775), 0);
    cr_expect_eq(cadre_native_load(registry, path), CADRE_EREFUSED);
    cr_expect_not_null(strstr(cadre_error_text(), between), "%s", cadre_error_text());
    cr_assert_eq(chmod(between, 01777), 0);
    cr_expect_neq(cadre_native_load(registry, path), CADRE_EREFUSED, "sticky, as /tmp is");
    if (geteuid() == 0) {
        cr_assert_eq(chown(between, 12345, 0), 0);
        cr_expect_eq(cadre_native_load(registry, path), CADRE_EREFUSED,
                     "another user's, sticky or not");
        cr_assert_eq(chown(between, 0, 0), 0);
    }
    unlink(path);
    rmdir(inside);
    rmdir(between);
    cadre_registry_destroy(&registry);
}

Test(native, says_what_is_wrong_with_a_file)
{
    cadre_registry_t *registry = cadre_registry_new();
    cr_expect_eq(cadre_native_load(registry, "/nonexistent/file.so"), CADRE_ENOTFOUND);
    cr_expect_not_null(strstr(cadre_error_text(), "/nonexistent/file.so"));
    cr_expect_eq(cadre_native_load(registry, folder), CADRE_EREFUSED, "a folder");
    cadre_auto(cadre_free) char *text = cadre_asprintf("%s/b.so", folder);
    int file = open(text, O_CREAT | O_WRONLY, 0644);
    cr_assert_eq(write(file, "no code", 7), 7);
    close(file);
    cr_expect_eq(cadre_native_load(registry, text), CADRE_ECONFIG);
    cr_expect_not_null(strstr(cadre_error_text(), text));
    cadre_registry_destroy(&registry);
}

/* cadre-worker --check with --native `path`: its exit status and what it wrote. */
static int
check(const char *path, char *output, size_t size_bytes)
{
    cadre_auto(cadre_free) char *worker = program_path("cadre-worker");
    return process_output((const char *const[]){worker, "--check", "--coordinator",
                                                "tcp://127.0.0.1:1", "--native", path, NULL},
                          NULL, CHECK_MS, output, size_bytes);
}

Test(native, a_worker_can_be_stopped_while_a_file_hangs_in_its_constructor)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *path = native_file_copy(folder, "a.so");
    cadre_auto(cadre_free) char *worker = program_path("cadre-worker");
    cadre_auto(cadre_free) char *output = scratch_path(&scratch, "output");
    pid_t process = process_start(&(process_t){
        .arguments = (const char *const[]){worker, "--check", "--coordinator", "tcp://127.0.0.1:1",
                                           "--native", path, NULL},
        .environment = (const char *const[]){"CADRE_TEST_NATIVE_HANGS=1", NULL},
        .output = output});

    deadline_t deadline = deadline_in(CHECK_MS);
    bool is_loading = false;
    while (!is_loading) { /* the constructor writes a word */
        cadre_auto(cadre_free) char *text = file_text(output);
        is_loading = *text != '\0';
        cr_assert(is_loading || again(deadline), "the file is not loaded");
    }
    kill(process, SIGTERM);

    int state = 0;
    cr_assert(process_wait(process, CHECK_MS, &state));
    cr_expect(WIFSIGNALED(state) && WTERMSIG(state) == SIGTERM, "%x", (unsigned)state);
    scratch_close(&scratch);
}

Test(native, a_worker_loads_functions_from_a_shared_object)
{
    char output[4096];
    cadre_auto(cadre_free) char *path = native_file_copy(folder, "a.so");
    cr_expect_eq(check(path, output, sizeof(output)), 0, "%s", output);
    cr_expect_not_null(strstr(output, "native noop\nnative test.add_one\n"), "%s", output);
}

Test(native, a_worker_exits_78_for_an_object_without_the_entry_point)
{
    char output[4096];
    char library[512] = "";
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), maps)) {
        const char *path = strchr(line, '/');
        if (path && strstr(path, "libc.so")) {
            snprintf(library, sizeof(library), "%.*s", (int)strcspn(path, "\n"), path);
        }
    }
    fclose(maps);
    cr_assert_neq(library[0], '\0');
    cr_expect_eq(check(library, output, sizeof(output)), 78, "%s", output);
    cr_expect_not_null(strstr(output, "does not export cadre_native_register"), "%s", output);
    cadre_auto(cadre_free) char *path = native_file_copy(folder, "a.so");
    cr_assert_eq(chmod(path, 0777), 0);
    cr_expect_eq(check(path, output, sizeof(output)), 78, "%s", output);
}
