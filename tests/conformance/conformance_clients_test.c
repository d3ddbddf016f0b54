/* A second program beside a running job: the ids K of docs/conformance.md. */
#include <cadre/catalogue.h>
#include <cadre/client.h>
#include <cadre/table.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "tests/conformance/stage.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(conformance_clients, .timeout = 900);

enum { ROWS = 50 };

/* Opens a cluster, whose job takes closures of clients or not. */
static void
open_job(stage_t *stage, int ps, int workers, bool client_closures)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers};
    options.coordinator.client_closures = client_closures;
    options.coordinator.lease_ms = 3000;
    stage_open_with(stage, &options);
}

static cadre_client_t *
attach(const stage_t *stage)
{
    cadre_client_t *client = NULL;
    cadre_client_options_t options = cadre_client_options();
    options.address = stage->cluster.address;
    options.timeout_ms = LOCAL_WAIT_MS;
    OK(cadre_client_open(&options, &client));
    return client;
}

/* Whether the coordinator's log has a line with this text. */
static bool
logged(const stage_t *stage, const char *text)
{
    cadre_auto(cadre_free) char *path = scratch_path(&stage->cluster.scratch, "coordinator.log");
    char line[1024];
    bool found = false;
    FILE *log = fopen(path, "re");
    while (log && !found && fgets(line, sizeof(line), log)) {
        found = strstr(line, text) != NULL;
    }
    if (log) {
        fclose(log);
    }
    return found;
}

Test(conformance_clients, K1_a_client_lists_and_reads_the_variables_of_a_running_job)
{
    stage_t stage;
    open_job(&stage, 2, 1, false);
    stage_schedule(&stage, "add_one", 3);
    stage_join(&stage);

    cadre_client_t *client = attach(&stage);
    cadre_client_variable_t *variables = NULL;
    size_t count = 0;
    cr_expect_str_eq(cadre_client_job(client), "job");
    cadre_auto(cadre_free) char *status = NULL;
    OK(cadre_coordinator_status_json(stage.coordinator, &status));
    cr_expect(strstr(status, "\"clients\":1"), "%s", status);
    OK(cadre_client_variables(client, LOCAL_WAIT_MS, &variables, &count));
    cr_assert_eq(count, 1);
    cr_expect_str_eq(variables[0].name, "wide");
    cr_expect_eq(variables[0].dtype, CADRE_F32);
    cr_expect_eq(variables[0].rank, 1);
    cr_expect_eq(variables[0].shape[0], WIDE_ROWS);
    cr_expect_eq(variables[0].partitions, 2);
    free(variables);

    cadre_tensor_t value = {0};
    OK(cadre_client_read(client, "wide", &value, LOCAL_WAIT_MS));
    for (int i = 0; i < WIDE_ROWS; i++) {
        cr_expect_eq(((const float *)value.data)[i], 3);
    }
    cadre_tensor_fini(&value);
    FAILS(cadre_client_read(client, "narrow", &value, LOCAL_WAIT_MS), CADRE_ENOTFOUND, "narrow");
    FAILS(cadre_client_read_average(client, "wide", &value, LOCAL_WAIT_MS), CADRE_EINVALID,
          "no average");
    cadre_client_close(&client);
    EVENTUALLY(logged(&stage, "client_left"));
    stage_close(&stage);
}

Test(conformance_clients, K2_closures_of_clients_are_refused_unless_the_job_allows_them)
{
    stage_t stage;
    open_job(&stage, 1, 1, false);
    stage_function(&stage, "add_one");
    cadre_client_t *client = attach(&stage);
    cadre_client_closure_t *closure = NULL;
    cr_expect(!cadre_client_may_schedule(client));
    OK(cadre_client_schedule(client, "add_one", NULL, &closure));
    FAILS(cadre_client_closure_wait(closure, LOCAL_WAIT_MS), CADRE_EREFUSED, "client_closures");
    cadre_client_closure_destroy(&closure);
    cadre_client_close(&client);
    stage_expect(&stage, 0);
    cr_expect(logged(&stage, "client_closure_refused"));
    stage_close(&stage);
}

Test(conformance_clients, K3_a_client_schedules_and_each_closure_counts_once)
{
    stage_t stage;
    open_job(&stage, 2, 2, true);
    stage_function(&stage, "add_one");
    cadre_client_t *client = attach(&stage);
    cadre_client_closure_t *closures[20];
    for (int i = 0; i < 20; i++) {
        OK(cadre_client_schedule(client, "add_one", NULL, &closures[i]));
    }
    for (int i = 0; i < 20; i++) {
        OK(cadre_client_closure_wait(closures[i], LOCAL_WAIT_MS));
        cadre_client_closure_destroy(&closures[i]);
    }
    stage_expect(&stage, 20);
    stage_expect_applied(&stage, 20);
    cadre_client_close(&client);
    stage_close(&stage);
}

Test(conformance_clients, K4_a_client_gets_results_and_errors_of_its_closures)
{
    stage_t stage;
    open_job(&stage, 1, 1, true);
    stage_function(&stage, "echo");
    stage_function(&stage, "fail");
    cadre_client_t *client = attach(&stage);
    cadre_client_closure_t *closure = NULL;
    float numbers[WIDE_ROWS];
    cadre_tensor_t given = stage_row(numbers, 2.5f);
    cadre_client_argument_t argument = {"value", &given};
    cadre_client_call_t call = cadre_client_call();
    call.tensors = &argument;
    call.tensor_count = 1;
    OK(cadre_client_schedule(client, "echo", &call, &closure));
    cadre_tensor_t value = {0};
    OK(cadre_client_closure_fetch(closure, "value", &value, LOCAL_WAIT_MS));
    cr_expect_eq(value.shape[0], WIDE_ROWS);
    cr_expect_eq(((const float *)value.data)[WIDE_ROWS - 1], 2.5);
    cadre_tensor_fini(&value);
    FAILS(cadre_client_closure_fetch(closure, "other", &value, 0), CADRE_ENOTFOUND, "other");
    cadre_client_closure_destroy(&closure);

    cadre_tensor_t text = stage_text("the soup is cold");
    argument = (cadre_client_argument_t){"text", &text};
    OK(cadre_client_schedule(client, "fail", &call, &closure));
    FAILS(cadre_client_closure_wait(closure, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    cadre_client_closure_destroy(&closure);
    stage_join(&stage); /* the job's program hears nothing of it */

    OK(cadre_client_schedule(client, "nothing", NULL, &closure));
    FAILS(cadre_client_closure_wait(closure, LOCAL_WAIT_MS), CADRE_ENOTFOUND, "nothing");
    cadre_client_closure_destroy(&closure);
    cadre_client_close(&client);
    stage_close(&stage);
}

/* Evaluates "tally" over a dataset. */
static int
evaluate(cadre_client_t *client, const char *dataset, const char *result, int64_t batch_size,
         double *mean)
{
    const cadre_client_evaluation_t what = {"tally", dataset, result, batch_size};
    return cadre_client_evaluate(client, &what, LOCAL_WAIT_MS, mean);
}

Test(conformance_clients, K5_a_client_evaluates_a_function_over_a_dataset_of_the_job)
{
    stage_t stage;
    open_job(&stage, 1, 2, true);
    stage_function(&stage, "tally");
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, ROWS);
    stage_open_rows(&stage, path, "rows");
    cadre_client_t *client = attach(&stage);
    double mean = 0;
    /* "loss" is 1 in each batch, whatever its size */
    OK(evaluate(client, "rows", "loss", 7, &mean));
    cr_expect_float_eq(mean, 1, 1e-12, "%g", mean);
    /* "correct" is the sum of the row numbers of a batch: with batches of one row the mean is that
     * of the numbers */
    OK(evaluate(client, "rows", "correct", 1, &mean));
    cr_expect_float_eq(mean, (ROWS - 1) / 2.0, 1e-9, "%g", mean);
    FAILS(evaluate(client, "lines", NULL, 7, &mean), CADRE_ENOTFOUND, "lines");
    cadre_client_close(&client);
    stage_close(&stage);
}

/* Starts a client as a process that schedules `count` calls of "hold". */
static pid_t
start_client(const stage_t *stage, const hold_t *hold, const char *count)
{
    cadre_auto(cadre_free) char *program = program_path("../tests/conformance_client");
    cadre_auto(cadre_free) char *log = scratch_path(&stage->cluster.scratch, "client.log");
    const char *arguments[] = {program, stage->cluster.address, hold->started, hold->release, count,
                               NULL};
    return process_start(&(process_t){.arguments = arguments, .output = log});
}

Test(conformance_clients, K6_of_a_client_that_is_killed_nothing_is_left)
{
    stage_t stage;
    int end = 0;
    open_job(&stage, 1, 1, true);
    stage_function(&stage, "hold");
    hold_t hold = stage_hold_files(&stage, "killed");
    pid_t client = start_client(&stage, &hold, "8");
    hold_wait(&hold, 1);

    kill(client, SIGKILL);
    cr_assert(process_wait(client, LOCAL_WAIT_MS, &end));
    EVENTUALLY(logged(&stage, "client_left"));
    stage_join(&stage); /* what ran was asked to stop, what waited is cancelled */
    stage_expect(&stage, 0);
    stage_schedule(&stage, "add_one", 2);
    stage_join(&stage);
    stage_expect(&stage, 2);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_clients, K7_a_worker_that_dies_does_not_end_a_closure_of_a_client)
{
    stage_t stage;
    int end = 0;
    open_job(&stage, 1, 1, true);
    stage_function(&stage, "hold");
    hold_t hold = stage_hold_files(&stage, "again");
    pid_t client = start_client(&stage, &hold, "1");
    hold_wait(&hold, 1);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0);
    hold_wait(&hold, 2);
    hold_release(&hold);
    cr_assert(process_wait(client, LOCAL_WAIT_MS, &end));
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    stage_expect(&stage, 1);
    stage_expect_applied(&stage, 1);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_clients, K8_a_job_that_ends_ends_the_calls_of_its_clients)
{
    stage_t stage;
    open_job(&stage, 1, 1, false);
    cadre_client_t *client = attach(&stage);
    stage_close(&stage);
    FAILS(cadre_client_variables(client, LOCAL_WAIT_MS, NULL, NULL), CADRE_ECLOSED, "");
    cadre_client_close(&client);

    cadre_client_options_t options = cadre_client_options();
    options.address = "ipc:///nonexistent/coordinator";
    options.timeout_ms = 200;
    FAILS(cadre_client_open(&options, &client), CADRE_ETIMEOUT, "does a coordinator run there");
}

/* Runs `cadre variables` with up to three words behind the address; gives its exit status and what
 * it has printed. */
static int
run_variables(const stage_t *stage, const char *const words[3], char text[4096])
{
    cadre_auto(cadre_free) char *program = program_path("cadre");
    const char *arguments[] = {program,  "variables", "--coordinator", stage->cluster.address,
                               words[0], words[1],    words[2],        NULL};
    return process_output(arguments, NULL, LOCAL_WAIT_MS, text, 4096);
}

Test(conformance_clients, K9_a_command_prints_what_a_client_reads)
{
    stage_t stage;
    char text[4096];
    open_job(&stage, 2, 1, false);
    stage_schedule(&stage, "add_one", 2);
    stage_join(&stage);
    cr_assert_eq(run_variables(&stage, (const char *[3]){NULL}, text), 0, "%s", text);
    cr_expect_str_eq(text, "wide                     f32 [10], 2 partitions\n");
    cr_assert_eq(run_variables(&stage, (const char *[3]){"wide"}, text), 0, "%s", text);
    cr_expect_str_eq(text, "2\n2\n2\n2\n2\n2\n2\n2\n2\n2\n");
    cr_assert_eq(run_variables(&stage, (const char *[3]){"wide", "-o", "json"}, text), 0);
    cr_expect(strstr(text, "\"values\":[2.0,2.0,"), "%s", text);
    cr_assert_eq(run_variables(&stage, (const char *[3]){"-o", "json"}, text), 0);
    cr_expect(strstr(text, "\"name\":\"wide\",\"dtype\":\"f32\",\"shape\":[10]"), "%s", text);
    cr_assert_neq(run_variables(&stage, (const char *[3]){"narrow"}, text), 0);
    cr_expect(strstr(text, "the job has no variable narrow"), "%s", text);
    stage_close(&stage);
}

/* Creates a table of rows of two numbers, in which three keys have rows. */
static void
make_table(stage_t *stage)
{
    enum { KEYS = 3 };
    static const uint64_t keys[KEYS] = {5, 70001, UINT64_MAX};
    static const float numbers[2 * KEYS] = {1, -1, 2, -2, 3, -3};
    const cadre_tensor_t rows =
        cadre_tensor_view(CADRE_F32, numbers, (const int64_t[]){KEYS, 2}, 2);
    cadre_variable_t *table = NULL;
    OK(cadre_variable_create_table(stage->coordinator, "users", 2, NULL, &table));
    OK(cadre_variable_assign_keys(table, CADRE_VARIABLE_SET, keys, KEYS, &rows, LOCAL_WAIT_MS));
}

/* Returns how many rows the table has. */
static uint64_t
rows_of_table(const stage_t *stage)
{
    cadre_table_counts_t counts = {.rows = 0};
    cadre_variable_t *table = NULL;
    OK(cadre_variable_find(stage->coordinator, "users", &table));
    cr_expect(cadre_variable_is_table(table) && !cadre_variable_is_table(stage->wide));
    OK(cadre_variable_read_counts(table, &counts, LOCAL_WAIT_MS));
    return counts.rows;
}

Test(conformance_clients, K10_a_client_reads_rows_by_key_and_makes_none)
{
    static const uint64_t keys[] = {UINT64_MAX, 6, 5, 70001, 5, 7};
    static const float wanted[] = {3, 0, 1, 2, 1, 0};
    static const uint64_t numbers[] = {9, 0, 9};
    stage_t stage;
    open_job(&stage, 3, 1, false);
    make_table(&stage);
    stage_schedule(&stage, "add_one", 4);
    stage_join(&stage);
    cadre_client_t *client = attach(&stage);
    cadre_client_rows_t rows = {.found = NULL};
    for (int again = 0; again < 2; again++) {
        OK(cadre_client_read_rows(client, "users", keys, 6, &rows, LOCAL_WAIT_MS));
        cr_assert_eq(rows.values.shape[0], 6);
        cr_assert_eq(rows.values.shape[1], 2);
        for (int i = 0; i < 6; i++) {
            cr_expect_eq(rows.found[i], wanted[i] != 0, "key %d", i);
            cr_expect_eq(((const float *)rows.values.data)[2 * i], wanted[i], "key %d", i);
        }
    }
    cr_expect_eq(rows_of_table(&stage), 3, "reading makes no row");

    OK(cadre_client_read_rows(client, "wide", numbers, 3, &rows, LOCAL_WAIT_MS));
    cr_assert_eq(rows.values.rank, 1);
    cr_expect(rows.found[0] && ((const float *)rows.values.data)[2] == 4);
    FAILS(cadre_client_read_rows(client, "wide", (const uint64_t[]){3, WIDE_ROWS}, 2, &rows,
                                 LOCAL_WAIT_MS),
          CADRE_EINVALID, "key 1 is 10, variable wide has rows 0 to 9");
    FAILS(cadre_client_read_rows(client, "narrow", keys, 1, &rows, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "narrow");
    FAILS(cadre_client_read_rows(client, "users", keys, 0, &rows, 0), CADRE_EINVALID, "no row");
    FAILS(cadre_client_read(client, "users", &rows.values, LOCAL_WAIT_MS), CADRE_EINVALID,
          "cadre_client_read_rows");
    cr_expect(rows.found[1], "what was read stays after an error");
    cadre_client_rows_fini(&rows);
    cadre_client_close(&client);
    stage_close(&stage);
}

Test(conformance_clients, K11_a_client_reads_more_rows_than_one_request_names)
{
    enum { COUNT = 3 * CADRE_CLIENT_ROWS_MAX + 1 };
    stage_t stage;
    open_job(&stage, 2, 1, false);
    make_table(&stage);
    cadre_client_t *client = attach(&stage);
    cadre_client_rows_t rows = {.found = NULL};
    cadre_auto(cadre_free) uint64_t *keys =
        cadre_calloc(CADRE_CLIENT_ROWS_PER_CALL_MAX + 1, sizeof(*keys));
    for (uint64_t i = 0; i < COUNT; i++) {
        keys[i] = 70001 + COUNT / 2 - i;
    }
    OK(cadre_client_read_rows(client, "users", keys, COUNT, &rows, LOCAL_WAIT_MS));
    for (int i = 0; i < COUNT; i++) {
        const bool is_it = i == COUNT / 2;
        cr_assert_eq(rows.found[i], is_it, "key %d", i);
        cr_assert_eq(((const float *)rows.values.data)[2 * i + 1], is_it ? -2 : 0, "key %d", i);
    }
    cadre_client_rows_fini(&rows);
    FAILS(cadre_client_read_rows(client, "users", keys, CADRE_CLIENT_ROWS_PER_CALL_MAX + 1, &rows,
                                 LOCAL_WAIT_MS),
          CADRE_ETOOLARGE, "1048577 rows of variable users: one call takes 1048576");
    cadre_client_close(&client);
    stage_close(&stage);
}

/* Creates a table with a slot of one number for each row, in which key 5 has a row. */
static void
make_row_wise_table(stage_t *stage)
{
    static const float numbers[] = {1, -1};
    const cadre_tensor_t row = cadre_tensor_view(CADRE_F32, numbers, (const int64_t[]){1, 2}, 2);
    cadre_table_options_t options = cadre_table_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAGRAD);
    options.row_wise = true;
    cadre_variable_t *table = NULL;
    OK(cadre_variable_create_table(stage->coordinator, "wise", 2, &options, &table));
    OK(cadre_variable_assign_keys(table, CADRE_VARIABLE_SET, (const uint64_t[]){5}, 1, &row,
                                  LOCAL_WAIT_MS));
}

Test(conformance_clients, K13_a_client_reads_rows_of_what_the_optimizer_keeps)
{
    static const uint64_t keys[] = {5, 6, 5};
    stage_t stage;
    char text[4096];
    open_job(&stage, 2, 1, false);
    make_table(&stage);
    make_row_wise_table(&stage);
    cadre_client_t *client = attach(&stage);
    cadre_client_rows_t rows = {.found = NULL};
    cadre_client_slot_rows_t what = {
        .variable = "wise", .slot = "accumulator", .keys = keys, .count = 3};
    OK(cadre_client_read_slot_rows(client, &what, &rows, LOCAL_WAIT_MS));
    cr_assert_eq(rows.values.shape[0], 3);
    cr_assert_eq(rows.values.shape[1], 1);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(((const float *)rows.values.data)[i], 0.1F);
        cr_expect_eq(rows.found[i], i != 1);
    }
    what.slot = "velocity";
    FAILS(cadre_client_read_slot_rows(client, &what, &rows, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "the optimizer of variable wise has no slot velocity, it has accumulator");
    what.slot = "";
    FAILS(cadre_client_read_slot_rows(client, &what, &rows, LOCAL_WAIT_MS), CADRE_EINVALID,
          "the name of a slot");
    what = (cadre_client_slot_rows_t){
        .variable = "users", .slot = "accumulator", .keys = keys, .count = 3};
    FAILS(cadre_client_read_slot_rows(client, &what, &rows, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "no slot accumulator, it has none");
    cadre_client_rows_fini(&rows);
    cadre_client_close(&client);

    cr_assert_eq(
        run_variables(&stage, (const char *[3]){"wise", "--rows=5,6", "--slot=accumulator"}, text),
        0, "%s", text);
    cr_expect_str_eq(text, "5 0.100000001\n6 has no row\n");
    cr_assert_neq(run_variables(&stage, (const char *[3]){"wise", "--rows=5", "--slot=m"}, text),
                  0);
    cr_expect(strstr(text, "no slot m, it has accumulator"), "%s", text);
    cr_assert_neq(run_variables(&stage, (const char *[3]){"wise", "--slot", "m"}, text), 0);
    cr_expect(strstr(text, "--slot needs --rows"), "%s", text);
    stage_close(&stage);
}

Test(conformance_clients, K12_a_command_prints_rows)
{
    stage_t stage;
    char text[4096];
    open_job(&stage, 2, 1, false);
    make_table(&stage);
    cr_assert_eq(run_variables(&stage,
                               (const char *[3]){"users", "--rows", "5,6,18446744073709551615"},
                               text),
                 0);
    cr_expect_str_eq(text, "5 1 -1\n6 has no row\n18446744073709551615 3 -3\n");
    cr_assert_eq(run_variables(&stage, (const char *[3]){"users", "--rows=6,5", "-ojson"}, text),
                 0);
    cr_expect(strstr(text, "{\"key\":\"6\",\"found\":false,"), "%s", text);
    cr_expect(strstr(text, "{\"key\":\"5\",\"found\":true,\"values\":[1.0,-1.0]}"), "%s", text);
    cr_assert_eq(run_variables(&stage, (const char *[3]){"wide", "--rows", "3"}, text), 0);
    cr_expect_str_eq(text, "3 0\n");
    cr_assert_neq(run_variables(&stage, (const char *[3]){"wide", "--rows", "10"}, text), 0);
    cr_expect(strstr(text, "variable wide has rows 0 to 9"), "%s", text);
    cr_assert_neq(run_variables(&stage, (const char *[3]){"wide", "--rows", "1,x"}, text), 0);
    cr_expect(strstr(text, "number 2 is \"x\""), "%s", text);
    cr_assert_eq(run_variables(&stage, (const char *[3]){"users", "--rows", "-1, 5"}, text), 0);
    cr_expect_str_eq(text, "18446744073709551615 3 -3\n5 1 -1\n", "as data has keys");
    cr_assert_neq(run_variables(&stage, (const char *[3]){"users", "--rows", ",1"}, text), 0);
    cr_expect(strstr(text, "number 1 is \"\""), "%s", text);
    cr_assert_neq(run_variables(&stage, (const char *[3]){"--rows", "1"}, text), 0);
    cr_expect(strstr(text, "needs the NAME"), "%s", text);
    cr_assert_neq(run_variables(&stage, (const char *[3]){"users"}, text), 0);
    cr_expect(strstr(text, "--rows KEY"), "%s", text);
    stage_close(&stage);
}

Test(conformance_clients, K14_the_program_counts_its_own_closures_apart_from_those_of_clients)
{
    stage_t stage;
    open_job(&stage, 1, 1, true);
    cadre_function_t *add_one = stage_function(&stage, "add_one");
    cadre_client_t *client = attach(&stage);
    cadre_client_closure_t *closure = NULL;
    OK(cadre_client_schedule(client, "add_one", NULL, &closure));
    OK(cadre_client_closure_wait(closure, LOCAL_WAIT_MS));
    cadre_client_closure_destroy(&closure);
    for (int i = 0; i < 3; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, add_one, NULL, LOCAL_WAIT_MS, NULL));
    }
    OK(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS));
    const cadre_totals_t all = cadre_coordinator_totals(stage.coordinator);
    const cadre_totals_t own = cadre_coordinator_own_totals(stage.coordinator);
    cr_expect(all.scheduled == 4 && all.finished == 4 && all.attempts >= 4);
    cr_expect(own.scheduled == 3 && own.finished == 3 && own.attempts >= 3);
    cadre_client_close(&client);
    stage_close(&stage);
}

/* --- records of a program beside clients --- */

enum { OWN_CLOSURES = 6, CLIENT_CLOSURES = 4 };

/* What the program says of a cut: how many closures below it are its own, and clients'. */
static char *
count_at(void *context, uint64_t cut, uint64_t of_clients)
{
    (void)context;
    return cadre_asprintf("{\"clients\": %llu, \"own\": %llu}", (unsigned long long)of_clients,
                          (unsigned long long)(cut - 1 - of_clients));
}

static void
run_of_client(cadre_client_t *client, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_client_closure_t *closure = NULL;
        OK(cadre_client_schedule(client, "add_one", NULL, &closure));
        OK(cadre_client_closure_wait(closure, LOCAL_WAIT_MS));
        cadre_client_closure_destroy(&closure);
    }
}

/* A checkpoint is taken once ten closures were handed out, the program's and clients' in turn; what
 * comes behind it is in none. What it hands back counts what it holds, which the variable shows. */
Test(conformance_clients, K15_the_record_of_a_checkpoint_counts_both_kinds_of_what_it_holds)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.client_closures = true;
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_every_steps = OWN_CLOSURES + CLIENT_CLOSURES;
    stage_open_with(&stage, &options);
    cadre_checkpoint_on_cut(stage.coordinator, count_at, NULL);
    cadre_client_t *client = attach(&stage);
    stage_function(&stage, "add_one");
    run_of_client(client, 1);
    stage_schedule(&stage, "add_one", OWN_CLOSURES - 1);
    run_of_client(client, CLIENT_CLOSURES - 1);
    stage_join(&stage);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints, 0);
    stage_schedule(&stage, "add_one", 1);
    stage_join(&stage);
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).checkpoints == 1);
    run_of_client(client, 1);
    stage_schedule(&stage, "add_one", 2);
    stage_join(&stage);
    cadre_client_close(&client);
    local_cluster_end_job(&stage.cluster);

    options.coordinator.resume = CADRE_RESUME_AUTO;
    local_cluster_begin_job(&stage.cluster, &options);
    stage.coordinator = stage.cluster.coordinator;
    const char *progress = NULL;
    uint64_t cut = 0;
    cr_assert(cadre_checkpoint_resumed(stage.coordinator, NULL, &cut, &progress));
    cr_expect_eq(cut, 1 + OWN_CLOSURES + CLIENT_CLOSURES);
    cr_expect_str_eq(progress, "{\"clients\":4,\"own\":6}");
    cadre_variable_options_t wide = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    wide.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &wide, &stage.wide));
    stage_expect(&stage, OWN_CLOSURES + CLIENT_CLOSURES);
    stage_close(&stage);
}
