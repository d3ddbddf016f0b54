#include "tests/conformance/outside.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "tests/conformance/rows.h"
#include "tests/system/process.h"

enum { END_MS = 100000, NUMBER_SIZE = 16 };

void
outside_open(outside_t *self, int size, int rows)
{
    *self = (outside_t){.driver = 0};
    local_cluster_t *cluster = &self->cluster;
    scratch_open(&cluster->scratch);
    cluster->options = (local_cluster_options_t){.ps = size, .workers = size};
    cluster->address = cadre_asprintf("ipc://%s/coordinator", cluster->scratch.path);
    cluster->native = program_path("../tests/conformance_functions.so");
    self->checkpoints = scratch_path(&cluster->scratch, "checkpoints");
    self->data = scratch_path(&cluster->scratch, "rows.csv");
    self->release = scratch_path(&cluster->scratch, "release");
    rows_write(self->data, rows);
    for (int i = 0; i < size; i++) {
        local_cluster_start(cluster, LOCAL_PS, i);
        local_cluster_start(cluster, LOCAL_WORKER, i);
    }
}

void
outside_drive(outside_t *self, const outside_job_t *job)
{
    require(self->driver == 0, "the driver before has ended");
    free(self->output);
    self->output = cadre_asprintf("%s/driver-%d.log", self->cluster.scratch.path, ++self->drivers);
    const int numbers[] = {self->cluster.options.ps, job->epochs, job->every_ms, job->save_at,
                           job->hold_at};
    char texts[CADRE_COUNT_OF(numbers)][NUMBER_SIZE];
    cadre_auto(cadre_free) char *program = program_path("../tests/conformance_driver");
    const char *arguments[OUTSIDE_ARGUMENTS + 1] = {program, self->cluster.address,
                                                    self->checkpoints, self->data, self->release};
    for (size_t i = 0; i < CADRE_COUNT_OF(numbers); i++) {
        snprintf(texts[i], NUMBER_SIZE, "%d", numbers[i]);
        arguments[5 + i] = texts[i];
    }
    self->driver = process_start(&(process_t){.arguments = arguments, .output = self->output});
}

void
outside_await(const outside_t *self, const char *text)
{
    bool said = false;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); !said;) {
        cadre_auto(cadre_free) char *output = file_text(self->output);
        said = strstr(output, text) != NULL;
        require(said || again(deadline), text);
    }
}

static uint64_t
newest_checkpoint(const outside_t *self)
{
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    uint64_t id = 0;
    if (cadre_checkpoint_directory_open(self->checkpoints, false, &directory) == 0 &&
        cadre_checkpoint_directory_list(directory, &entries, &count) == 0 && count > 0) {
        id = entries[0].id;
    }
    cadre_checkpoint_entries_free(&entries, count);
    return id;
}

uint64_t
outside_await_checkpoint(const outside_t *self, uint64_t than)
{
    uint64_t id;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
         (id = newest_checkpoint(self)) <= than;) {
        require(again(deadline), "a newer checkpoint");
    }
    return id;
}

void
outside_release(const outside_t *self)
{
    FILE *file = fopen(self->release, "we");
    require(file != NULL, self->release);
    fclose(file);
}

void
outside_kill_driver(outside_t *self)
{
    int end = 0;
    kill(self->driver, SIGKILL);
    require(process_wait(self->driver, LOCAL_WAIT_MS, &end), "the end of the driver");
    require(WIFSIGNALED(end), "the driver had not ended before it was killed");
    self->driver = 0;
}

json_t *
outside_result(outside_t *self)
{
    int end = 0;
    require(process_wait(self->driver, END_MS, &end), "the end of the driver");
    self->driver = 0;
    cadre_auto(cadre_free) char *output = file_text(self->output);
    require(WIFEXITED(end) && WEXITSTATUS(end) == 0, "the driver succeeds");
    size_t length = strlen(output);
    if (length > 0) {
        output[length - 1] = '\0';
    }
    const char *line = strrchr(output, '\n');
    json_t *result = json_loads(line ? line + 1 : output, 0, NULL);
    require(result != NULL, "a result");
    return result;
}

void
outside_close(outside_t *self)
{
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < LOCAL_TASKS_MAX; i++) {
            if (self->cluster.tasks[role][i]) {
                int end = local_cluster_reap(&self->cluster, (local_role_t)role, i);
                require(WIFEXITED(end) && WEXITSTATUS(end) == 0, "a task ends with the job");
            }
        }
    }
    scratch_close(&self->cluster.scratch);
    free(self->cluster.address);
    free(self->cluster.native);
    free(self->checkpoints);
    free(self->data);
    free(self->release);
    free(self->output);
}
