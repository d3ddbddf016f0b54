/* What a table's options change in a job that is run, and shipped examples whose models look rows
 * up: rows that go, how values are kept and travel, classes that are looked up. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/full.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(table_options, .timeout = 900);

enum {
    IDS = 500, /* of each of two columns */
    ROWS = 6000,
    ROWS_MAX = 100, /* on each of two ps */
};

/* Two ids, and whether both are odd or both even; each id is there. */
static void
write_rows(const char *path)
{
    uint32_t state = 1;
    FILE *file = fopen(path, "we");
    cr_assert(file);
    for (uint32_t i = 0; i < ROWS; i++) {
        state = state * 1664525 + 1013904223;
        const uint32_t a = i < IDS ? i : (state >> 16) % IDS;
        state = state * 1664525 + 1013904223;
        const uint32_t b = i < IDS ? i : (state >> 16) % IDS;
        fprintf(file, "%u,%u,%d\n", a, b, a % 2 == b % 2);
    }
    cr_assert_eq(fclose(file), 0);
}

/* A run of a job over a table, and what it left. */
typedef struct {
    command_t command;
    json_t *result;
    double pulled; /* bytes */
} table_run_t;

/* Returns how many bytes the only worker pulled, by its trace. */
static double
pulled_bytes(const char *traces)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/worker-0.json", traces);
    json_t *events = json_load_file(path, 0, NULL);
    cr_assert(events, "%s", path);
    double bytes = 0;
    size_t i = 0;
    const json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        bytes += strcmp(name, "pull") == 0 ? json_number_at(event, "args.bytes") : 0;
    }
    json_decref(events);
    return bytes;
}

/* Runs a factorization machine over two ids in steps that are the same each time. `table` is the
 * layer's key, `wire` that of the model. */
static void
table_run_open(table_run_t *self, const char *table, const char *wire)
{
    command_open(&self->command);
    cadre_auto(cadre_free) char *rows = scratch_path(&self->command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&self->command.scratch, "job.json");
    cadre_auto(cadre_free) char *traces = scratch_path(&self->command.scratch, "traces");
    write_rows(rows);
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 7, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\", "
            "\"label_kind\": \"binary\"}, \"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": "
            "\"layers\", \"wire\": \"%s\", \"layers\": [{\"type\": \"factorization_machine\", "
            "\"fields\": 2, \"factors\": 8, \"linear\": false, \"table\": %s}]}, \"optimizer\": "
            "{\"type\": \"adam\", \"learning_rate\": 0.02}, \"training\": {\"epochs\": 3, "
            "\"batch_size\": 20, \"consistency\": \"sync\"}, \"cluster\": {\"ps\": 2, \"workers\": "
            "1}}",
            wire, table);
    cr_assert_eq(fclose(file), 0);
    const char *run[] = {
        "run",  job, "--checkpoint-dir", self->command.checkpoints, "--trace", traces, "-o",
        "json", NULL};
    command_expect_exit(&self->command, command_run(&self->command, run), 0);
    self->result = command_result(&self->command);
    cr_assert(self->result);
    self->pulled = pulled_bytes(traces);
}

static void
table_run_close(table_run_t *self)
{
    json_decref(self->result);
    command_close(&self->command);
}

static double
count_of(const table_run_t *run, const char *name)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("tables.0.%s", name);
    return json_number_at(run->result, path);
}

/* Expects of the table that it has at most so many rows, and that every one that it had and has not
 * is counted by `gone`, the name of a count; NULL: it has all. */
static void
expect_rows(const char *table, const char *gone, double most)
{
    table_run_t run;
    table_run_open(&run, table, "f32");
    const double evicted = count_of(&run, "evicted");
    const double expired = count_of(&run, "expired");
    const double rows = count_of(&run, "rows");
    cr_expect(rows >= 0 && rows <= most, "%s: %g rows", table, rows);
    cr_expect_eq(count_of(&run, "created"), rows + evicted + expired, "%s", table);
    cr_expect_eq(evicted > 0, gone && strcmp(gone, "evicted") == 0, "%s: %g", table, evicted);
    cr_expect_eq(expired > 0, gone && strcmp(gone, "expired") == 0, "%s: %g", table, expired);
    cr_expect(gone || rows == most, "%s: %g rows", table, rows);
    table_run_close(&run);
}

Test(table_options, rows_go_as_they_say)
{
    expect_rows("{\"norm_min\": 1e-9}", NULL, 2 * IDS);
    expect_rows("{\"norm_min\": 1e-9, \"group_lasso\": 10}", "expired", 2 * IDS - 1);
    expect_rows("{\"norm_min\": 100}", "expired", 2 * IDS - 1);
    expect_rows("{\"age_max\": 3}", "expired", 2 * IDS - 1);
    expect_rows("{\"rows_max\": 100, \"when_full\": \"lfu\"}", "evicted", 2 * ROWS_MAX);
    expect_rows("{\"rows_max\": 100, \"when_full\": \"lru\"}", "evicted", 2 * ROWS_MAX);
}

/* Expects `cadre checkpoint variables` to say how the table is stored. */
static void
expect_storage(table_run_t *run, const char *wanted)
{
    const char *list[] = {"checkpoint", "variables", run->command.checkpoints, "-o", "json", NULL};
    command_expect_exit(&run->command, command_run(&run->command, list), 0);
    json_t *listed = command_result(&run->command);
    const json_t *table = json_array_get(json_object_get(listed, "variables"), 0);
    cr_assert(json_is_true(json_object_get(table, "table")));
    cr_expect_str_eq(json_string_value(json_object_get(table, "storage")), wanted);
    json_decref(listed);

    list[3] = NULL;
    command_expect_exit(&run->command, command_run(&run->command, list), 0);
    cadre_auto(cadre_free) char *text = command_output(&run->command);
    cr_expect_eq(strstr(text, ", stored as bf16\n") != NULL, strcmp(wanted, "bf16") == 0, "%s",
                 text);
}

/* The bytes are those of rows, and of the biases of the last layer. */
Test(table_options, values_are_kept_and_travel_as_they_say)
{
    static const struct {
        const char *table;
        const char *wire;
        const char *storage;
    } cases[] = {{"true", "f32", "f32"},
                 {"{\"storage\": \"bf16\"}", "f32", "bf16"},
                 {"true", "bf16", "f32"}};
    double pulled = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        table_run_t run;
        table_run_open(&run, cases[i].table, cases[i].wire);
        const double loss = json_number_at(run.result, "loss");
        cr_expect(loss > 0 && loss < 0.6, "case %zu: loss %g, which begins at 0.69", i, loss);
        cr_expect_eq(count_of(&run, "rows"), 2 * IDS);
        expect_storage(&run, cases[i].storage);
        pulled = i == 0 ? run.pulled : pulled;
        const bool is_half = run.pulled > 0.4 * pulled && run.pulled < 0.6 * pulled;
        cr_expect_eq(is_half, strcmp(cases[i].wire, "bf16") == 0, "case %zu: %g bytes, %g as f32",
                     i, run.pulled, pulled);
        table_run_close(&run);
    }
}

/* --- classes that are looked up --- */

enum { USERS = 60, ITEMS = 200, VIEWS = 6000 };

/* A user views the items of a third of the others at random, so that the 20 of the best scores have
 * a tenth of its views where nothing is learned, and a third where all is. */
static void
write_views(const char *path)
{
    uint32_t state = 1;
    FILE *file = fopen(path, "we");
    cr_assert(file);
    for (int i = 0; i < VIEWS; i++) {
        state = state * 1664525 + 1013904223;
        const uint32_t user = (state >> 16) % USERS;
        state = state * 1664525 + 1013904223;
        fprintf(file, "%u,%u\n", user, (state >> 16) % (ITEMS / 3) * 3 + user % 3);
    }
    cr_assert_eq(fclose(file), 0);
}

Test(table_options, candidates_are_told_from_those_of_their_batch)
{
    static const char *const kinds[] = {"in_batch", "in_batch_uncorrected"};
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *views = scratch_path(&command.scratch, "views.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_views(views);
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        FILE *file = fopen(job, "we");
        cr_assert(file);
        fprintf(file,
                "{\"seed\": 7, \"data\": {\"train\": {\"format\": \"csv\", \"path\": "
                "\"views.csv\", \"classes\": %d}, \"test\": {\"fraction\": 0.2}}, \"model\": "
                "{\"type\": \"layers\", \"softmax\": \"%s\", \"layers\": [{\"type\": "
                "\"embedding\", \"ids\": %d, \"units\": 8}, {\"type\": \"flatten\"}]}, "
                "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.02}, \"training\": "
                "{\"epochs\": 10, \"batch_size\": 64, \"consistency\": \"sync\", \"metrics\": "
                "[\"top_k_accuracy\"], \"top_k\": 20}, \"cluster\": {\"workers\": 1}}",
                ITEMS, kinds[i], USERS);
        cr_assert_eq(fclose(file), 0);
        const char *run[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
        command_expect_exit(&command, command_run(&command, run), 0);
        json_t *result = command_result(&command);
        const double recall = json_number_at(result, "metrics.top_k_accuracy");
        cr_expect(recall > 0.2, "%s: %g, by chance 0.1", kinds[i], recall);
        json_decref(result);
    }
    command_close(&command);
}

/* --- shipped examples --- */

/* Runs an epoch of an example, which may be too few for its target, and returns its result, which
 * the caller decrefs. */
static json_t *
epoch_of_example(command_t *command, const char *example, const char *data)
{
    cadre_auto(cadre_free) char *name = cadre_asprintf("examples/%s.json", example);
    cadre_auto(cadre_free) char *job = source_path(name);
    const char *run[] = {"run",  job,  "--data", data, "--epochs", "1", "--checkpoint-dir",
                         "none", "-o", "json",   NULL};
    const int code = command_run(command, run);
    command_expect_exit(command, code, code == 1 ? 1 : 0);
    json_t *result = command_result(command);
    cr_assert(result);
    return result;
}

Test(table_options, examples_over_sparse_rows_learn)
{
    static const char *const examples[] = {"adult_fm", "wide_deep"};
    const char *data = getenv("CADRE_TEST_DATA");
    if (!data) {
        cr_skip_test("CADRE_TEST_DATA names no folder");
    }
    cadre_auto(cadre_free) char *folder = cadre_asprintf("%s/adult", data);
    command_t command;
    command_open(&command);
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        json_t *result = epoch_of_example(&command, examples[i], folder);
        const double loss = json_number_at(result, "loss");
        const double area = json_number_at(result, "metrics.auc");
        cr_expect(loss > 0 && loss < 0.45, "%s: loss %g", examples[i], loss);
        cr_expect(area > 0.85, "%s: area under the curve %g", examples[i], area);
        json_decref(result);
    }
    command_close(&command);
}

/* The script makes the folder that it writes into. */
Test(table_options, the_example_over_a_table_of_words_admits_those_seen_twice)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *folder = scratch_path(&command.scratch, "clicks/of/a/day");
    cadre_auto(cadre_free) char *script = source_path("bench/criteo.py");
    const char *write[] = {
        "/usr/bin/env", "python3", script, folder, test_is_full() ? "60000" : "6000", NULL};
    char text[256];
    const int code = process_output(write, NULL, COMMAND_WAIT_MS, text, sizeof(text));
    if (code == 127) {
        command_close(&command);
        cr_skip_test("no python3");
    }
    cr_assert_eq(code, 0, "%s", text);
    json_t *result = epoch_of_example(&command, "dlrm_table", folder);
    const double loss = json_number_at(result, "loss");
    cr_expect(loss > 0 && loss < 1, "loss %g, which begins at 0.69", loss);
    cr_expect_gt(json_number_at(result, "tables.0.rows"), 100);
    cr_expect_gt(json_number_at(result, "tables.0.unadmitted"), 100);
    json_decref(result);
    command_close(&command);
}
