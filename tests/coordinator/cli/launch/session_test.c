#include "coordinator/cli/launch/session.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/net/cluster_config.h"

TestSuite(session, .timeout = 240);

static void
write_log(const cadre_session_t *session, const char *text)
{
    cadre_auto(cadre_free) char *path = cadre_session_log_path(session, CADRE_LAUNCH_WORKER, 3);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
}

Test(session, is_a_private_directory_that_goes_with_what_is_in_it)
{
    cadre_session_t session = {0};
    cr_assert_eq(cadre_session_open(&session, false), 0);
    cadre_auto(cadre_free) char *path = cadre_strdup(session.path);
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0700);
    write_log(&session, "text");
    cadre_session_close(&session, false);
    cr_assert_neq(stat(path, &info), 0);
}

Test(session, shows_the_last_whole_lines_of_a_log)
{
    cadre_session_t session = {0};
    cr_assert_eq(cadre_session_open(&session, false), 0);
    char tail[CADRE_SESSION_TAIL_SIZE + 1];
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 0, tail), "");
    write_log(&session, "");
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 0, tail), "");
    write_log(&session, "one\ntwo\n");
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 0, tail), "one\ntwo");
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 4, tail), "two");
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 8, tail), "");
    write_log(&session, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10");
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 0, tail),
                     "3\n4\n5\n6\n7\n8\n9\n10");
    char lines[3 * CADRE_SESSION_TAIL_SIZE] = "";
    memset(lines, 'x', sizeof(lines) - 1);
    memcpy(lines + sizeof(lines) - 1 - 6, "\nlast\n", 6);
    write_log(&session, lines);
    cr_expect_str_eq(cadre_session_tail(&session, CADRE_LAUNCH_WORKER, 3, 0, tail), "last");
    cadre_session_close(&session, false);
}

Test(session, lists_its_tasks_with_their_process_ids)
{
    cadre_session_t session = {0};
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 1, 2, false, 0);
    cr_assert_eq(cadre_session_open(&session, false), 0);
    size_t task;
    while (cadre_launcher_core_next(&core, 0, &task)) {
    }
    cr_assert_eq(cadre_session_write_tasks(&session, &core, (int[]){11, 0, 33}), 0);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/tasks.json", session.path);
    json_t *tasks = json_load_file(path, 0, NULL);
    json_t *wanted =
        json_pack("{s:s, s:i, s:[{s:s,s:i,s:i,s:i},{s:s,s:i,s:n,s:i},{s:s,s:i,s:i,s:i}]}", "schema",
                  "cadre.session/v1", "launcher", (int)getpid(), "tasks", "role", "ps", "index", 0,
                  "pid", 11, "starts", 1, "role", "worker", "index", 0, "pid", "starts", 1, "role",
                  "worker", "index", 1, "pid", 33, "starts", 1);
    cr_assert(json_equal(tasks, wanted));
    json_decref(tasks);
    json_decref(wanted);
    cadre_session_close(&session, false);
}

Test(session, describes_its_cluster_as_a_coordinator_reads_it)
{
    cadre_session_t session = {0};
    cadre_auto(cadre_launcher_core_fini) cadre_launcher_core_t core;
    cadre_launcher_core_init(&core, 2, 3, true, 0);
    cr_assert_eq(cadre_session_open(&session, false), 0);
    cadre_auto(cadre_free) char *text = cadre_session_cluster(&session, &core);
    cadre_cluster_sources_t sources = {.cadre_cluster = text};
    cadre_auto(cadre_cluster_config_fini) cadre_cluster_config_t config = {0};
    cr_assert_eq(cadre_cluster_config_read(&sources, &config), 0);
    cr_assert(config.ps.count == 2 && config.workers.count == 3);
    cr_assert_eq(config.coordinator.kind, CADRE_ENDPOINT_IPC);
    cadre_auto(cadre_free) char *address =
        cadre_session_endpoint(&session, CADRE_LAUNCH_PROGRAM, 0);
    cr_assert_str_eq(config.coordinator.path, address + strlen("ipc://"));
    cadre_session_close(&session, false);
}

/* --- what a killed launcher leaves --- */

static void
write_tasks(const char *folder, const char *text)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/tasks.json", folder);
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
}

/* A directory such as a launcher makes, that nobody holds. */
static char *
abandoned(const char *parent, const char *tasks)
{
    char *path = cadre_asprintf("%s/cadre-XXXXXX", parent);
    cr_assert(mkdtemp(path));
    write_tasks(path, tasks);
    return path;
}

static void
remove_folder(const char *path)
{
    static const char *const names[] = {"tasks.json", "kept", "ps-0.log"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *file = cadre_asprintf("%s/%s", path, names[i]);
        unlink(file);
    }
    cr_expect_eq(rmdir(path), 0, "%s", path);
}

Test(session, removes_what_killed_launchers_left_and_nothing_else)
{
    static const char ours[] = "{\"schema\": \"cadre.session/v1\", \"tasks\": []}";
    char parent[] = "/tmp/cadre-parent-XXXXXX";
    cr_assert(mkdtemp(parent));
    setenv("XDG_RUNTIME_DIR", parent, 1);
    cadre_session_t living = {0};
    cr_assert_eq(cadre_session_open(&living, false), 0);
    write_tasks(living.path, ours);
    cadre_session_t kept = {0};
    cr_assert_eq(cadre_session_open(&kept, true), 0);
    write_tasks(kept.path, ours);
    cadre_auto(cadre_free) char *kept_path = cadre_strdup(kept.path);
    cadre_session_close(&kept, true);
    cadre_auto(cadre_free) char *dead = abandoned(parent, ours);
    cadre_auto(cadre_free) char *foreign = abandoned(parent, "{\"schema\": \"other/v1\"}");
    cadre_auto(cadre_free) char *link = cadre_asprintf("%s/cadre-linked", parent);
    cr_assert_eq(symlink(foreign, link), 0);

    cadre_session_t session = {0};
    cr_assert_eq(cadre_session_open(&session, false), 0);
    cr_expect_neq(access(dead, F_OK), 0, "a killed launcher's");
    cr_expect_eq(access(foreign, F_OK), 0, "somebody else's");
    cr_expect_eq(access(living.path, F_OK), 0, "held");
    cr_expect_eq(access(kept_path, F_OK), 0, "kept");
    cadre_session_close(&session, false);
    cadre_session_close(&living, false);
    unlink(link);
    remove_folder(kept_path);
    remove_folder(foreign);
    cr_expect_eq(rmdir(parent), 0);
}
