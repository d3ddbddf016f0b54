/* Workers without a native function, or with other data: the job goes on with the others. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/conformance/stage.h"
#include "tests/system/process.h"

TestSuite(conformance_admission, .timeout = 900);

enum { ROWS = 300, CLOSURES = 60 };

/* Starts worker `index`, which does not run, with other native functions than the rest. */
static void
start_without(stage_t *stage, int index)
{
    char *native = stage->cluster.native;
    stage->cluster.native = program_path("examples/resume_native.so");
    local_cluster_start(&stage->cluster, LOCAL_WORKER, index);
    free(stage->cluster.native);
    stage->cluster.native = native;
}

static bool
status_says(const stage_t *stage, const char *part)
{
    char *status = NULL;
    OK(cadre_coordinator_status_json(stage->coordinator, &status));
    bool found = strstr(status, part) != NULL;
    free(status);
    return found;
}

static bool
log_says(const stage_t *stage, const char *name, const char *part)
{
    char text[1 << 16] = "";
    cadre_auto(cadre_free) char *path = scratch_path(&stage->cluster.scratch, name);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    return strstr(text, part) != NULL;
}

Test(conformance_admission, a_worker_without_the_function_leaves_it_to_the_others)
{
    stage_t stage;
    stage_open(&stage, 2, 3);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 2, SIGKILL);
    local_cluster_wait_workers(&stage.cluster, 2);
    start_without(&stage, 2);
    local_cluster_wait_workers(&stage.cluster, 3);
    stage_schedule(&stage, "add_one", CLOSURES);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    stage_expect_applied(&stage, CLOSURES);
    EVENTUALLY(status_says(&stage, "\"lacks\":[{\"what\":\"function add_one\",\"why\":\"it has no "
                                   "native function add_one (--native FILE)\"}]"));
    cr_expect(log_says(&stage, "coordinator.log", "not_admitted worker=2"));
    EVENTUALLY(log_says(&stage, "worker-2.log", "function_missing"));

    /* Started again as it should have been, it is judged anew. */
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 2);
    local_cluster_wait_workers(&stage.cluster, 3);
    stage_schedule(&stage, "add_one", CLOSURES);
    stage_join(&stage);
    stage_expect(&stage, 2 * CLOSURES);
    EVENTUALLY(!status_says(&stage, "native function"));
    stage_close(&stage);
}

Test(conformance_admission, a_function_that_no_worker_has_fails_after_a_time)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    int64_t begin_ms = cadre_clock_now_ms();
    stage_schedule(&stage, "nowhere", 3);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "function nowhere: none of the 2 workers can run it: worker 0: it has no native function "
          "nowhere (--native FILE)");
    cr_expect_geq(cadre_clock_now_ms() - begin_ms, CADRE_UNSERVED_MS);
    stage_schedule(&stage, "add_one", 3);
    stage_join(&stage);
    stage_expect(&stage, 3);
    stage_close(&stage);
}

/* Closures that wait for a worker which joins in time. */
Test(conformance_admission, a_worker_that_has_the_function_may_come_later)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 1, SIGKILL);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    local_cluster_wait_workers(&stage.cluster, 0);
    start_without(&stage, 0);
    local_cluster_wait_workers(&stage.cluster, 1);
    stage_schedule(&stage, "add_one", 3);
    EVENTUALLY(status_says(&stage, "native function add_one"));
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 1);
    stage_join(&stage);
    stage_expect(&stage, 3);
    stage_close(&stage);
}

static void
visit_all(stage_t *stage, cadre_dataset_t *dataset)
{
    cadre_batch_t batch;
    const cadre_function_t *visit = stage_function(stage, "visit");
    OK(cadre_dataset_begin(dataset, 0, 0, 1, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(dataset, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        OK(cadre_coordinator_schedule(stage->coordinator, visit, &call, LOCAL_WAIT_MS, NULL));
    }
    stage_join(stage);
}

/* The file is another one by the time that the third worker opens it: as many rows, and of each
 * the number of the next. */
Test(conformance_admission, a_worker_with_other_rows_reads_none)
{
    stage_t stage;
    stage_open(&stage, 1, 3);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, ROWS);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 2, SIGKILL);
    local_cluster_wait_workers(&stage.cluster, 2);
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    EVENTUALLY(log_says(&stage, "worker-0.log", "dataset_open") &&
               log_says(&stage, "worker-1.log", "dataset_open"));
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    for (int i = 1; i <= ROWS; i++) {
        fprintf(file, "%d,0,%d\n", i, i);
    }
    fclose(file);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 2);
    EVENTUALLY(status_says(&stage, "\"what\":\"dataset rows\",\"why\":\"its data differ: it has"));
    visit_all(&stage, dataset);
    stage_expect_visits(visits, ROWS, 1);
    cr_expect(log_says(&stage, "coordinator.log", "to=\"dataset rows\""));
    stage_schedule(&stage, "add_one", 6); /* which it may run */
    stage_join(&stage);
    stage_close(&stage);
}

Test(conformance_admission, data_that_no_worker_can_open_fail_with_their_path)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_dataset_t *dataset = NULL;
    FAILS(cadre_dataset_open(stage.coordinator, "d",
                             "{\"format\": \"csv\", \"path\": \"/nowhere/at/all.csv\"}",
                             LOCAL_WAIT_MS, &dataset),
          CADRE_ENOTFOUND, "dataset d: /nowhere/at/all.csv: No such file or directory");
    stage_close(&stage);
}
