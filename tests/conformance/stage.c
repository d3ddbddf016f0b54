#include "tests/conformance/stage.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/rows.h"

void
stage_open_with(stage_t *self, const local_cluster_options_t *options)
{
    *self = (stage_t){.coordinator = NULL};
    local_cluster_open(&self->cluster, options);
    self->coordinator = self->cluster.coordinator;
    cadre_variable_options_t variable = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    variable.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    variable.partitioner = CADRE_PARTITION_FIXED;
    variable.count = options->ps;
    OK(cadre_variable_create(self->coordinator, "wide", CADRE_F32, shape, 1, &variable,
                             &self->wide));
}

void
stage_open(stage_t *self, int ps, int workers)
{
    stage_open_with(self, &(local_cluster_options_t){.ps = ps, .workers = workers});
}

void
stage_open_capacity(stage_t *self, int ps, int workers, size_t capacity)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers};
    options.coordinator.queue_capacity = capacity;
    stage_open_with(self, &options);
}

void
stage_close(stage_t *self)
{
    self->coordinator = NULL;
    local_cluster_close(&self->cluster);
}

cadre_function_t *
stage_function(stage_t *self, const char *name)
{
    cadre_function_t *function = NULL;
    OK(cadre_function_native(self->coordinator, name, &function));
    return function;
}

void
stage_schedule(stage_t *self, const char *name, int count)
{
    const cadre_function_t *function = stage_function(self, name);
    for (int i = 0; i < count; i++) {
        OK(cadre_coordinator_schedule(self->coordinator, function, NULL, LOCAL_WAIT_MS, NULL));
    }
}

cadre_future_t *
stage_call(stage_t *self, const char *name, const char *argument, const cadre_tensor_t *value)
{
    cadre_argument_t arguments[] = {{argument, value}};
    cadre_call_t call = cadre_call_tensors(arguments, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(self->coordinator, stage_function(self, name), &call,
                                  LOCAL_WAIT_MS, &future));
    return future;
}

cadre_tensor_t
stage_text(const char *text)
{
    return (cadre_tensor_t){.dtype = CADRE_U8,
                            .rank = 1,
                            .shape = {(int64_t)strlen(text)},
                            .data = (char *)(uintptr_t)text};
}

cadre_tensor_t
stage_row(float values[WIDE_ROWS], float value)
{
    for (int i = 0; i < WIDE_ROWS; i++) {
        values[i] = value;
    }
    return (cadre_tensor_t){.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = values};
}

void
stage_train(stage_t *self, int first, int last)
{
    for (int step = first; step <= last; step++) {
        float values[WIDE_ROWS];
        cadre_tensor_t gradient = stage_row(values, 0);
        for (int i = 0; i < WIDE_ROWS; i++) {
            values[i] = 0.37f * (float)((step * 7 + i * 3) % 11) - 1.7f;
        }
        cadre_future_t *future = stage_call(self, "push", "gradient", &gradient);
        OK(cadre_future_wait(future, LOCAL_WAIT_MS));
        cadre_future_destroy(&future);
    }
}

void
stage_join(stage_t *self)
{
    OK(cadre_coordinator_join(self->coordinator, LOCAL_WAIT_MS));
}

void
stage_expect(stage_t *self, double value)
{
    cadre_tensor_t wide = {.data = NULL};
    OK(cadre_variable_read(self->wide, &wide, LOCAL_WAIT_MS));
    cr_assert_eq(cadre_tensor_count(&wide), WIDE_ROWS);
    for (int i = 0; i < WIDE_ROWS; i++) {
        double row = (double)((const float *)wide.data)[i];
        cr_assert(row >= value && row <= value, "row %d is %g, not %g", i, row, value);
    }
    cadre_tensor_fini(&wide);
}

void
stage_expect_applied(stage_t *self, uint64_t updates)
{
    for (int shard = 0; shard < self->cluster.options.ps; shard++) {
        cadre_shard_totals_t totals;
        OK(cadre_shard_totals(self->coordinator, shard, &totals, LOCAL_WAIT_MS));
        cr_assert(totals.applied == updates, "shard %d applied %llu updates, not %llu", shard,
                  (unsigned long long)totals.applied, (unsigned long long)updates);
    }
}

char *
stage_write_rows(const stage_t *self, int rows)
{
    char *path = cadre_asprintf("%s/%d-rows.csv", self->cluster.scratch.path, rows);
    rows_write(path, rows);
    return path;
}

cadre_dataset_t *
stage_open_rows(const stage_t *self, const char *path, const char *name)
{
    cadre_dataset_t *dataset = NULL;
    OK(rows_open(self->coordinator, path, name, LOCAL_WAIT_MS, &dataset));
    return dataset;
}

cadre_variable_t *
stage_visits(stage_t *self)
{
    cadre_variable_t *visits = NULL;
    OK(visits_create(self->coordinator, self->cluster.options.ps, &visits));
    return visits;
}

void
stage_expect_visits(cadre_variable_t *visits, int rows, int times)
{
    cadre_tensor_t counts = {.data = NULL};
    OK(cadre_variable_read(visits, &counts, LOCAL_WAIT_MS));
    cr_assert_eq(cadre_tensor_count(&counts), VISIT_ROWS);
    for (int i = 0; i < VISIT_ROWS; i++) {
        double count = (double)((const float *)counts.data)[i];
        double wanted = i < rows ? times : 0;
        cr_assert(count >= wanted && count <= wanted, "row %d was visited %g times, not %g", i,
                  count, wanted);
    }
    cadre_tensor_fini(&counts);
}

hold_t
stage_hold_files(stage_t *self, const char *name)
{
    const char *folder = self->cluster.scratch.path;
    return (hold_t){.started = cadre_asprintf("%s/%s.started", folder, name),
                    .release = cadre_asprintf("%s/%s.release", folder, name)};
}

static hold_t
call_hold(stage_t *self, const char *function, const char *name)
{
    hold_t hold = stage_hold_files(self, name);
    cadre_tensor_t started = stage_text(hold.started);
    cadre_tensor_t release = stage_text(hold.release);
    cadre_tensor_t text = stage_text(name);
    cadre_argument_t arguments[] = {{"started", &started}, {"release", &release}, {"text", &text}};
    cadre_call_t call = {
        .size = sizeof(call), .tensors = arguments, .tensor_count = CADRE_COUNT_OF(arguments)};
    OK(cadre_coordinator_schedule(self->coordinator, stage_function(self, function), &call,
                                  LOCAL_WAIT_MS, &hold.future));
    return hold;
}

hold_t
stage_hold(stage_t *self, const char *name)
{
    return call_hold(self, "hold", name);
}

hold_t
stage_hold_failing(stage_t *self, const char *name)
{
    return call_hold(self, "fail_when", name);
}

/* Attempts that have begun; the worker of the last one into *worker. */
static int
read_started(const hold_t *self, int *worker)
{
    cadre_auto(cadre_free) char *text = file_text(self->started);
    int lines = 0;
    for (const char *line = text; (line = strstr(line, "worker ")) && strchr(line, '\n'); lines++) {
        line += strlen("worker ");
        *worker = (int)strtol(line, NULL, 10);
    }
    return lines;
}

int
hold_begun(const hold_t *self)
{
    int worker = -1;
    return read_started(self, &worker);
}

int
hold_wait(const hold_t *self, int attempts)
{
    int worker = -1;
    EVENTUALLY(read_started(self, &worker) >= attempts);
    return worker;
}

void
hold_release(const hold_t *self)
{
    FILE *file = fopen(self->release, "we");
    cr_assert(file);
    fclose(file);
}

void
hold_fini(hold_t *self)
{
    cadre_future_destroy(&self->future);
    free(self->started);
    free(self->release);
}
