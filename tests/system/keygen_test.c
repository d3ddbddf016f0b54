/* `cadre keygen` as a shell sees it. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(keygen, .timeout = 900);

/* Runs a line of shell in the scratch directory; gives all that it wrote, freed by the caller. */
static char *
shell(const scratch_t *scratch, const char *line, int wanted)
{
    cadre_auto(cadre_free) char *bin = program_path("");
    cadre_auto(cadre_free) char *all =
        cadre_asprintf("cd %s; umask 022; PATH=%s:$PATH; %s", scratch->path, bin, line);
    cadre_auto(cadre_free) char *path = scratch_path(scratch, "output");
    const char *arguments[] = {"/bin/bash", "-c", all, NULL};
    int end = 0;
    unlink(path);
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = path});
    cr_assert(process_wait(pid, COMMAND_WAIT_MS, &end), "%s", line);
    char *output = file_text(path);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == wanted, "%s: %x, %s", line, (unsigned)end,
              output);
    return output;
}

static void
expect_shell(const scratch_t *scratch, const char *line, int wanted, const char *words)
{
    cadre_auto(cadre_free) char *output = shell(scratch, line, wanted);
    cr_expect(strstr(output, words), "%s: %s", line, output);
}

Test(keygen, makes_files_that_only_their_owner_reads)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *made = shell(&scratch, "cadre keygen keys 2>&1", 0);
    cr_expect_str_eq(made, "keys/coordinator.key  secret, for the coordinator alone\n"
                           "keys/ps.key  secret, for every ps alone\n"
                           "keys/worker.key  secret, for every worker alone\n"
                           "keys/client.key  secret, for who looks at the job\n"
                           "keys/allowed  public, for every task: who may connect\n"
                           "next: copy to each task the key of its role and the directory allowed, "
                           "no other key\n");
    cadre_auto(cadre_free) char *found =
        shell(&scratch, "cd keys; LC_ALL=C; stat -c '%a %n' . * allowed/*", 0);
    cr_expect_str_eq(found, "700 .\n755 allowed\n600 client.key\n600 coordinator.key\n600 ps.key\n"
                            "600 worker.key\n644 allowed/client.pub\n644 allowed/coordinator.pub\n"
                            "644 allowed/ps.pub\n644 allowed/worker.pub\n");
    expect_shell(&scratch, "grep -rl secret-key keys/allowed", 1, "");
    scratch_close(&scratch);
}

Test(keygen, writes_over_nothing)
{
    scratch_t scratch;
    scratch_open(&scratch);
    expect_shell(&scratch, "cadre keygen keys; sha256sum keys/*.key > before", 0, "next: ");
    expect_shell(&scratch, "cadre keygen keys 2>&1", 77, "keys is not empty, and keys are never");
    expect_shell(&scratch, "sha256sum -c before", 0, "ps.key: OK");
    expect_shell(&scratch, "cadre keygen none/keys 2>&1", 73, "none/keys: No such file");
    expect_shell(&scratch, "cadre keygen 2>&1", 2, "a directory for the keys is missing");
    expect_shell(&scratch, "cadre keygen a b 2>&1", 2, "one directory, not also \"b\"");
    expect_shell(&scratch, "cadre keygen $'a\\033[2J' 2>&1", 2, "has control characters");
    scratch_close(&scratch);
}

Test(keygen, says_as_json_what_it_made)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *output = shell(&scratch, "cadre keygen keys -o json 2>&1", 0);
    json_t *object = json_loads(output, JSON_REJECT_DUPLICATES, NULL);
    cr_expect_str_eq(json_string_value(json_object_get(object, "schema")), "cadre.keys/v1");
    json_t *keys = json_object_get(object, "keys");
    cr_assert_eq(json_array_size(keys), 4);
    json_t *ps = json_array_get(keys, 1);
    cr_expect_str_eq(json_string_value(json_object_get(ps, "role")), "ps");
    cr_expect_str_eq(json_string_value(json_object_get(ps, "key")), "keys/ps.key");
    cr_expect_str_eq(json_string_value(json_object_get(ps, "allowed")), "keys/allowed/ps.pub");
    cadre_auto(cadre_free) char *line =
        cadre_asprintf("grep -F '%s' keys/ps.key keys/allowed/ps.pub",
                       json_string_value(json_object_get(ps, "public_key")));
    expect_shell(&scratch, line, 0, "keys/allowed/ps.pub:    public-key = ");
    json_decref(object);
    scratch_close(&scratch);
}

Test(keygen, prints_objects_of_kubernetes_and_writes_no_file)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *output =
        shell(&scratch, "cadre keygen --kubernetes job-1 2>&1; ls | grep -v output", 1);
    cr_expect(strstr(output, "kind: Secret\nmetadata:\n  name: \"job-1\"\n"), "%s", output);
    cr_expect(strstr(output, "\n  coordinator.key: |\n    #"), "%s", output);
    cr_expect(strstr(output, "\n  name: \"job-1-allowed\"\ndata:\n  coordinator.pub: |\n    #"),
              "%s", output);
    cr_expect_null(strstr(output, "terminal"), "%s", output);
    expect_shell(&scratch, "script -qec 'cadre keygen --kubernetes job-1' /dev/null < /dev/null", 0,
                 "these secret keys stand on a terminal now: do not use them");
    expect_shell(&scratch, "cadre keygen --kubernetes Job 2>&1", 2, "\"Job\" is no name");
    expect_shell(&scratch, "cadre keygen --kubernetes job-1 keys 2>&1", 2, "writes no directory");
    expect_shell(&scratch, "cadre keygen --kubernetes job-1 > /dev/full", 74, "");
    scratch_close(&scratch);
}
