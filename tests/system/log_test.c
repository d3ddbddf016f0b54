/* What the log of a ps and of a worker says of itself. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/local_cluster.h"
#include "tests/system/process.h"

TestSuite(log, .timeout = 900);

/* The log of a task once it has said that it joined; freed by the caller. */
static char *
joined_log(const local_cluster_t *cluster, const char *name)
{
    cadre_auto(cadre_free) char *path = scratch_path(&cluster->scratch, name);
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    char *text = file_text(path);
    while (!strstr(text, "\"event\":\"joined\"")) {
        cr_assert(again(deadline), "%s: %s", name, text);
        free(text);
        text = file_text(path);
    }
    return text;
}

/* Starts a task whose coordinator is not there, and waits until its log says so. */
static void
expect_waiting(const scratch_t *scratch, const char *program)
{
    cadre_auto(cadre_free) char *path = program_path(program);
    cadre_auto(cadre_free) char *log = scratch_path(scratch, program);
    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s/none", scratch->path);
    const char *arguments[] = {path, "--coordinator", address, NULL};
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = log});
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    bool said = false;
    while (!said && again(deadline)) {
        cadre_auto(cadre_free) char *text = file_text(log);
        const char *line = strstr(text, "\"event\":\"waiting_for_coordinator\",\"coordinator\":");
        said = line && strstr(line, "\"seconds\":") && strstr(line, "\"limit_s\":0}");
    }
    int wait_status = 0;
    kill(pid, SIGKILL);
    process_wait(pid, LOCAL_WAIT_MS, &wait_status);
    cr_expect(said, "%s", program);
}

Test(log, of_a_ps_and_of_a_worker_say_alike_that_no_coordinator_is_there)
{
    scratch_t scratch;
    scratch_open(&scratch);
    expect_waiting(&scratch, "cadre-ps");
    expect_waiting(&scratch, "cadre-worker");
    scratch_close(&scratch);
}

Test(log, names_the_task_by_the_index_that_the_coordinator_chose)
{
    local_cluster_t cluster;
    local_cluster_open(&cluster,
                       &(local_cluster_options_t){.ps = 1, .workers = 1, .open_indexes = true});
    cadre_auto(cadre_free) char *ps = joined_log(&cluster, "ps-0.log");
    cadre_auto(cadre_free) char *worker = joined_log(&cluster, "worker-0.log");
    cr_expect(strstr(ps, "\"task\":\"ps\",\"event\":\"listening\""), "%s", ps);
    cr_expect(strstr(ps, "\"task\":\"ps/0\",\"event\":\"joined\""), "%s", ps);
    cr_expect(strstr(worker, "\"task\":\"worker/0\",\"event\":\"joined\""), "%s", worker);
    local_cluster_close(&cluster);
}

/* --device auto is the default: a machine without a GPU is nothing to be warned of. */
Test(log, warns_of_nothing_on_a_machine_without_a_gpu)
{
    local_cluster_t cluster;
    local_cluster_open(&cluster, &(local_cluster_options_t){.ps = 1, .workers = 1});
    cadre_auto(cadre_free) char *worker = joined_log(&cluster, "worker-0.log");
    cr_expect_null(strstr(worker, "\"level\":\"warn\""), "%s", worker);
    local_cluster_close(&cluster);
}
