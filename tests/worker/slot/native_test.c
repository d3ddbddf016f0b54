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
#include "tests/worker/native_file.h"

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

/* Starts cadre-worker --check with --native `path`; what it writes can be read from *output. */
static pid_t
start_check(const char *path, int *output)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cadre_auto(cadre_free) char *worker =
        cadre_asprintf("%s/cadre-worker", getenv("CADRE_BIN_DIR"));
    pid_t process = fork();
    if (process == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execl(worker, worker, "--check", "--coordinator", "tcp://127.0.0.1:1", "--native", path,
              (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *output = ends[0];
    return process;
}

/* Its exit status and what it wrote. */
static int
check(const char *path, char *output, size_t size_bytes)
{
    int fd = -1;
    pid_t process = start_check(path, &fd);
    size_t count = 0;
    ssize_t more = 0;
    while (count < size_bytes - 1 &&
           (more = read(fd, output + count, size_bytes - 1 - count)) > 0) {
        count += (size_t)more;
    }
    output[count] = '\0';
    close(fd);
    int state = 0;
    waitpid(process, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

Test(native, a_worker_can_be_stopped_while_a_file_hangs_in_its_constructor)
{
    int fd = -1;
    int state = 0;
    char said[5] = "";
    cadre_auto(cadre_free) char *path = native_file_copy(folder, "a.so");
    setenv("CADRE_TEST_NATIVE_HANGS", "1", 1);
    pid_t process = start_check(path, &fd);
    unsetenv("CADRE_TEST_NATIVE_HANGS");
    cr_assert_eq(read(fd, said, sizeof(said)), (ssize_t)sizeof(said));
    kill(process, SIGTERM);
    cr_assert_eq(waitpid(process, &state, 0), process);
    cr_expect(WIFSIGNALED(state) && WTERMSIG(state) == SIGTERM, "%x", (unsigned)state);
    close(fd);
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
