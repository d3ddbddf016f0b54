/* A job whose layer keeps its rows in a table: killed, resumed with other numbers of ps, with
 * another optimizer and other admission, evaluated, exported. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_tables, .timeout = 900);

enum {
    IDS = 500, /* of each of two columns */
    ROWS = 20000,
    UNITS = 3,
    EVERY_MS = 300, /* between kills */
    KILLS_MAX = 4,
};

/* Two ids, and whether both are odd or both even. */
static void
write_rows(const char *path)
{
    unsigned state = 1;
    FILE *file = fopen(path, "we");
    cr_assert(file);
    for (int i = 0; i < ROWS; i++) {
        state = state * 1103515245U + 12345U;
        const unsigned a = (state >> 16) % IDS;
        state = state * 1103515245U + 12345U;
        const unsigned b = i < IDS ? (unsigned)i : (state >> 16) % IDS; /* each id is there */
        fprintf(file, "%u,%u,%d\n", i < IDS ? (unsigned)i : a, b, i < IDS ? 1 : a % 2 == b % 2);
    }
    fclose(file);
}

static void
write_job(const char *path)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(
        file,
        "{\"seed\": 7, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"}, "
        "\"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": \"layers\", \"layers\": [{\"type\": "
        "\"factorization_machine\", \"fields\": 2, \"table\": true, \"factors\": %d}]}, "
        "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.01}, \"training\": {\"epochs\": "
        "30, "
        "\"steps_per_epoch\": 100}, \"cluster\": {\"ps\": 2, \"workers\": 2, \"max_restarts\": "
        "\"unlimited\"}, \"checkpoint\": {\"every_epochs\": 1}}",
        UNITS);
    fclose(file);
}

/* The word behind which the next number of a text stands. */
static double
number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at ? strtod(at + strlen(word), NULL) : -1;
}

/* Runs the job again, on so many ps, and tests its last checkpoint: that has the loss that the run
 * ended with. */
static void
resume(command_t *command, const char *job, const char *ps, const char *epochs)
{
    const char *run[] = {"run",
                         job,
                         "--ps",
                         ps,
                         "--epochs",
                         epochs,
                         "--checkpoint-dir",
                         command->checkpoints,
                         "--resume",
                         "auto",
                         "-o",
                         "json",
                         NULL};
    command_expect_exit(command, command_run(command, run), 0);
    json_t *result = command_result(command);
    cr_assert(result);
    const double loss = json_number_at(result, "loss");
    cr_expect_eq(json_number_at(result, "closures.finished"), 100 * strtod(epochs, NULL));
    cr_expect_geq(json_number_at(result, "accuracy"), 0.9);
    json_decref(result);

    const char *evaluate[] = {"evaluate", job, "--checkpoint-dir", command->checkpoints, "-o",
                              "json",     NULL};
    command_expect_exit(command, command_run(command, evaluate), 0);
    cadre_auto(cadre_free) char *text = command_output(command);
    cr_expect_float_eq(number_behind(text, "\"loss\":"), loss, 1e-5, "%s", text);
}

static int64_t
size_of_file(const char *folder, const char *name)
{
    struct stat about;
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, name);
    cr_assert_eq(stat(path, &about), 0, "%s", path);
    return (int64_t)about.st_size;
}

/* Each table is two arrays of as many rows, or one text. */
static void
expect_export(command_t *command)
{
    cadre_auto(cadre_free) char *to = scratch_path(&command->scratch, "arrays");
    cadre_auto(cadre_free) char *text = scratch_path(&command->scratch, "text");
    const char *arrays[] = {"checkpoint", "export", command->checkpoints, "--to", to, NULL};
    command_expect_exit(command, command_run(command, arrays), 0);
    cr_expect_eq(size_of_file(to, "v1@keys.npy"), 128 + 2 * IDS * 8);
    cr_expect_eq(size_of_file(to, "v1.npy"), 128 + 2 * IDS * UNITS * 4);
    cr_expect_eq(size_of_file(to, "w1.npy"), 128 + 2 * IDS * 4);
    command_expect_exit(command, command_run(command, arrays), 77);

    const char *lines[] = {"checkpoint", "export", command->checkpoints, "--to", text,
                           "--text",     NULL};
    command_expect_exit(command, command_run(command, lines), 0);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/v1.txt", text);
    FILE *file = fopen(path, "re");
    cr_assert(file);
    int rows = 0;
    int units = 0;
    cr_assert_eq(fscanf(file, "%d %d", &rows, &units), 2);
    cr_expect(rows == 2 * IDS && units == UNITS);
    uint64_t key = 0;
    float numbers[UNITS];
    int count = 0;
    while (fscanf(file, "%lu %f %f %f", &key, &numbers[0], &numbers[1], &numbers[2]) == 1 + UNITS) {
        cr_expect_lt(key % (1 << 24), IDS);
        cr_expect_lt(key >> 24, 2);
        count++;
    }
    cr_expect_eq(count, rows);
    fclose(file);
}

/* Changes a byte in the middle of a shard's file. */
static void
damage(const char *path)
{
    FILE *file = fopen(path, "r+be");
    cr_assert(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    const long middle = ftell(file) / 2;
    cr_assert_eq(fseek(file, middle, SEEK_SET), 0);
    const int byte = fgetc(file);
    cr_assert_eq(fseek(file, middle, SEEK_SET), 0);
    cr_assert_eq(fputc(byte ^ 1, file), byte ^ 1);
    fclose(file);
}

/* The newest checkpoint needs the one before it, by whose name its damage is told. */
static void
expect_damage_of_a_base(command_t *command)
{
    const char *list[] = {"checkpoint", "list", command->checkpoints, "-o", "json", NULL};
    command_expect_exit(command, command_run(command, list), 0);
    json_t *result = command_result(command);
    const int newest = (int)json_number_at(result, "checkpoints.0.id");
    const int base = (int)json_number_at(result, "checkpoints.0.since");
    json_decref(result);
    cr_assert_eq(base, newest - 1);

    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/ckpt-%08d/shard-0.mdb", command->checkpoints, base);
    cadre_auto(cadre_free) char *wanted = cadre_asprintf("ckpt-%08d    damaged: %s", newest, path);
    damage(path);
    const char *verify[] = {"checkpoint", "verify", command->checkpoints, NULL};
    command_expect_exit(command, command_run(command, verify), 65);
    cadre_auto(cadre_free) char *text = command_output(command);
    cr_expect(strstr(text, wanted), "%s", text);

    char number[16];
    snprintf(number, sizeof(number), "%d", newest);
    const char *variables[] = {"checkpoint",   "variables", command->checkpoints,
                               "--checkpoint", number,      NULL};
    command_expect_exit(command, command_run(command, variables), 65);
    cadre_auto(cadre_free) char *errors = command_errors(command);
    cr_expect(strstr(errors, path), "%s", errors);
}

/* Runs the job in synchronous steps, with so much memory for rows of tables, and exports what it
 * has trained to the folder `to`. */
static void
train_in_steps(command_t *command, const char *job, const char *row_cache, const char *to)
{
    cadre_auto(cadre_free) char *checkpoints = scratch_path(&command->scratch, row_cache);
    const char *run[] = {
        "run", job,           "--checkpoint-dir", checkpoints, "--consistency", "sync", "--epochs",
        "2",   "--row-cache", row_cache,          "-o",        "json",          NULL};
    command_expect_exit(command, command_run(command, run), 0);
    const char *export[] = {"checkpoint", "export", checkpoints, "--to", to, NULL};
    command_expect_exit(command, command_run(command, export), 0);
}

static void
expect_same_file(const char *left, const char *right, const char *name)
{
    cadre_auto(cadre_free) char *left_path = cadre_asprintf("%s/%s", left, name);
    cadre_auto(cadre_free) char *right_path = cadre_asprintf("%s/%s", right, name);
    const size_t size_bytes = (size_t)size_of_file(left, name);
    cr_assert_eq(size_of_file(right, name), (int64_t)size_bytes, "%s", name);
    cadre_auto(cadre_free) char *bytes = cadre_calloc(2 * size_bytes, 1);
    FILE *files[2] = {fopen(left_path, "re"), fopen(right_path, "re")};
    for (size_t i = 0; i < 2; i++) {
        cr_assert(files[i]);
        cr_assert_eq(fread(bytes + i * size_bytes, 1, size_bytes, files[i]), size_bytes);
        fclose(files[i]);
    }
    cr_expect_arr_eq(bytes, bytes + size_bytes, size_bytes, "%s", name);
}

Test(run_tables, rows_that_workers_keep_change_no_bit_of_what_is_trained)
{
    static const char *const names[] = {"v1@keys.npy", "v1.npy", "w1@keys.npy", "w1.npy"};
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    cadre_auto(cadre_free) char *with = scratch_path(&command.scratch, "with");
    cadre_auto(cadre_free) char *without = scratch_path(&command.scratch, "without");
    write_rows(rows);
    write_job(job);
    train_in_steps(&command, job, "1", with);
    train_in_steps(&command, job, "0", without);
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        expect_same_file(with, without, names[i]);
    }
    command_close(&command);
}

Test(run_tables, a_killed_job_goes_on_with_other_numbers_of_ps_and_is_exported)
{
    static const char *const tasks[] = {"ps/0", "worker/1", "ps/1"};
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_job(job);
    const char *run[] = {"run", job, "--checkpoint-dir", command.checkpoints, "-o", "json", NULL};
    command_start(&command, run);
    command_wait_checkpoint(&command);
    const int kills = digits_kill(&command, tasks, CADRE_COUNT_OF(tasks), KILLS_MAX, EVERY_MS);
    cr_expect_geq(kills, 1);
    command_expect_exit(&command, command_end(&command), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_eq(json_number_at(result, "closures.finished"), 3000);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.9);
    cr_expect_eq(json_number_at(result, "tables.0.rows"), 2 * IDS);
    cr_expect_eq(json_number_at(result, "tables.1.created"), 2 * IDS);
    cr_expect_eq(json_number_at(result, "tables.1.evicted"), 0);
    json_decref(result);

    resume(&command, job, "3", "32");
    resume(&command, job, "1", "34");
    const char *verify[] = {"checkpoint", "verify", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, verify), 0);
    expect_export(&command);
    expect_damage_of_a_base(&command);
    command_close(&command);
}

/* What a run says of its tables while it trains. */
Test(run_tables, status_has_a_line_for_each)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_job(job);
    const char *run[] = {"run",    job, "--checkpoint-dir", command.checkpoints, "--epochs",
                         "100000", NULL};
    command_start(&command, run);
    command_wait_checkpoint(&command);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    const char *said = strstr(errors, "coordinator=");
    cr_assert(said, "%s", errors);
    said += strlen("coordinator=");
    cadre_auto(cadre_free) char *address = cadre_strndup(said, strcspn(said, "\n"));

    command_t asking;
    command_open(&asking);
    const char *status[] = {"status", "--coordinator", address, NULL};
    cadre_auto(cadre_free) char *output = NULL;
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    do { /* all ids are in the first batches; the heartbeat that says so comes a little later */
        require(again(deadline), "a status with 1000 rows");
        cadre_free(&output);
        command_expect_exit(&asking, command_run(&asking, status), 0);
        output = command_output(&asking);
    } while (!strstr(output, "w1           table      1000 rows of 1, "));
    cr_expect(strstr(output, "v1           table      1000 rows of 3, "), "%s", output);
    cr_expect(strstr(output,
                     " bytes on 2 of 2 ps, 1000 made, 0 evicted, 0 expired, 0 gradients not "
                     "admitted\n"),
              "%s", output);
    command_close(&asking);
    command_close(&command);
}

/* --- resumed with another optimizer, and other admission --- */

/* Writes a job of so many epochs, of a table without an optimizer of its own. */
static void
write_other_job(const char *path, const char *optimizer, const char *table, int epochs)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 7, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"}, "
            "\"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": \"layers\", \"layers\": "
            "[{\"type\": \"factorization_machine\", \"fields\": 2, \"table\": %s, \"factors\": "
            "%d}]}, \"optimizer\": {\"type\": \"%s\", \"learning_rate\": 0.01}, \"training\": "
            "{\"epochs\": %d, \"steps_per_epoch\": 50}, \"cluster\": {\"ps\": 2, \"workers\": 1}, "
            "\"checkpoint\": {\"every_epochs\": 1}}",
            table, UNITS, optimizer, epochs);
    fclose(file);
}

Test(run_tables, a_job_goes_on_with_another_optimizer_and_other_admission)
{
    static const struct {
        const char *optimizer;
        const char *table;
        const char *ps;
        const char *says[2];
    } runs[] = {
        {"momentum", "{\"admit_after\": 2}", "2", {NULL, NULL}},
        {"adagrad",
         "{\"admit_after\": 2}",
         "2",
         {"was=momentum is=adagrad next=\"the values go on; its slots and steps are reset\"",
          NULL}},
        {"adagrad",
         "{\"admit_after\": 3, \"row_wise\": true}",
         "3",
         {"was=adagrad is=row_wise_adagrad next=\"the values go on; its slots and steps are "
          "reset\"",
          "sightings_reset variable=v1 was_ps=2 is_ps=3"}},
        {"adam", "true", "3", {"was=row_wise_adagrad is=adam", NULL}},
        {"adam", "{\"admit_after\": 2}", "3", {NULL, NULL}},
        {"ftrl", "{\"rows_max\": 5000, \"when_full\": \"lfu\"}", "1", {"was=adam is=ftrl", NULL}},
    };
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    for (size_t i = 0; i < CADRE_COUNT_OF(runs); i++) {
        write_other_job(job, runs[i].optimizer, runs[i].table, 2 * (int)i + 2);
        const char *run[] = {"run",
                             job,
                             "--ps",
                             runs[i].ps,
                             "--checkpoint-dir",
                             command.checkpoints,
                             i > 0 ? "--resume" : NULL,
                             "auto",
                             NULL};
        command_expect_exit(&command, command_run(&command, run), 0);
        cadre_auto(cadre_free) char *words = command_errors(&command);
        for (size_t k = 0; k < CADRE_COUNT_OF(runs[i].says); k++) {
            const char *says = runs[i].says[k];
            cr_expect(!says || strstr(words, says), "%zu: \"%s\" in %s", i, says, words);
        }
        cr_expect(runs[i].says[1] || !strstr(words, "sightings_reset"), "%zu: %s", i, words);
    }

    write_other_job(job, "adam", "{\"storage\": \"bf16\"}", 99);
    const char *run[] = {"run",  job, "--checkpoint-dir", command.checkpoints, "--resume",
                         "auto", NULL};
    cr_expect_neq(command_run(&command, run), 0);
    cadre_auto(cadre_free) char *words = command_errors(&command);
    cr_expect(strstr(words, "its rows were kept as f32, not bf16"), "%s", words);
    command_close(&command);
}

/* --- keys of 64 bits --- */

#define CSV    "\"format\": \"csv\", \"header\": false, "
#define LIBSVM "\"format\": \"libsvm\", \"items\": 2, "
#define SMALL  LIBSVM "\"path\": \"small.svm\", \"features\": 1000"
#define WIDE   LIBSVM "\"path\": \"wide.svm\", \"keys\": true"
#define TENTH  "\"fraction\": 0.1"

/* Returns a number beyond 2^53 for an id. Some differ in their highest two bits alone, some in the
 * lowest. */
static uint64_t
wide_of(unsigned id)
{
    return ((uint64_t)id & 3) << 62 | (UINT64_C(0x0123456789abcd00) + (id >> 2));
}

/* Writes the rows of write_rows with wide ids: the first column without a sign, the second with
 * one. */
static void
write_wide_rows(const char *from, const char *to)
{
    unsigned a = 0;
    unsigned b = 0;
    int y = 0;
    FILE *rows = fopen(from, "re");
    FILE *file = fopen(to, "we");
    cr_assert(rows && file);
    while (fscanf(rows, "%u,%u,%d\n", &a, &b, &y) == 3) {
        fprintf(file, "%llu,%lld,%d\n", (unsigned long long)wide_of(a), (long long)wide_of(b), y);
    }
    fclose(rows);
    fclose(file);
}

/* Writes the rows of write_rows as items of LIBSVM: the ids of the second column are behind those
 * of the first. Those that are `wide` are far apart, up to 2^62 and more. */
static void
write_items(const char *from, const char *to, bool wide)
{
    unsigned a = 0;
    unsigned b = 0;
    int y = 0;
    FILE *rows = fopen(from, "re");
    FILE *file = fopen(to, "we");
    cr_assert(rows && file);
    while (fscanf(rows, "%u,%u,%d\n", &a, &b, &y) == 3) {
        uint64_t first = a + 1;
        uint64_t second = IDS + b + 1;
        first = wide ? first << 52 | (first & 1) : first;
        second = wide ? second << 52 | (second & 1) : second;
        fprintf(file, "%d %llu:1 %llu:0.5\n", y, (unsigned long long)first,
                (unsigned long long)second);
    }
    fclose(rows);
    fclose(file);
}

/* Writes a job whose rows begin as the same numbers whatever their keys are. `train` and `test`:
 * what is in the braces of its data. */
static void
write_keyed_job(const char *path, const char *train, const char *test, const char *layer)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(
        file,
        "{\"seed\": 7, \"data\": {\"train\": {%s}, "
        "\"test\": {%s}}, \"model\": {\"type\": \"layers\", \"layers\": [{\"type\": "
        "\"factorization_machine\"%s, \"table\": {\"initializer\": {\"type\": "
        "\"constant\", \"value\": 0.1}}, \"factors\": %d}]}, \"optimizer\": {\"type\": \"adam\", "
        "\"learning_rate\": 0.01}, \"training\": {\"epochs\": 2}, \"cluster\": {\"ps\": 2, "
        "\"workers\": 1}}",
        train, test, layer, UNITS);
    fclose(file);
}

/* Trains the job in synchronous steps, checks how many rows its tables have, and returns its
 * loss. */
static double
loss_of_steps(command_t *command, const char *job, const char *checkpoints)
{
    cadre_auto(cadre_free) char *to = scratch_path(&command->scratch, checkpoints);
    const char *run[] = {"run",  job, "--checkpoint-dir", to, "--consistency", "sync", "-o",
                         "json", NULL};
    command_expect_exit(command, command_run(command, run), 0);
    json_t *result = command_result(command);
    cr_assert(result);
    const double loss = json_number_at(result, "loss");
    const json_t *tables = json_object_get(result, "tables");
    cr_expect_gt(json_array_size(tables), 0);
    for (size_t i = 0; i < json_array_size(tables); i++) {
        cr_expect_eq(json_number_at(json_array_get(tables, i), "rows"), 2 * IDS);
    }
    json_decref(result);
    return loss;
}

Test(run_tables, keys_of_64_bits_train_as_small_ids_do)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *wide_rows = scratch_path(&command.scratch, "wide.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_wide_rows(rows, wide_rows);
    write_keyed_job(job, CSV "\"path\": \"rows.csv\"", TENTH, ", \"fields\": 2");
    const double small = loss_of_steps(&command, job, "small");
    write_keyed_job(job,
                    CSV "\"path\": \"wide.csv\", \"columns\": [{\"column\": 0, \"key\": \"id\"}, "
                        "{\"column\": 1, \"key\": \"id\"}]",
                    TENTH, ", \"fields\": 2, \"keys\": true");
    const double wide = loss_of_steps(&command, job, "wide");
    cr_expect(small > 0 && small < 1, "%.9g", small);
    cr_expect_float_eq(small, wide, 1e-6, "%.9g, not %.9g", wide, small);
    command_close(&command);
}

Test(run_tables, indices_of_64_bits_train_as_small_ones_do)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *small_rows = scratch_path(&command.scratch, "small.svm");
    cadre_auto(cadre_free) char *wide_rows = scratch_path(&command.scratch, "wide.svm");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_items(rows, small_rows, false);
    write_items(rows, wide_rows, true);
    write_keyed_job(job, SMALL, TENTH, "");
    const double small = loss_of_steps(&command, job, "small");
    write_keyed_job(job, WIDE, TENTH, ", \"keys\": true");
    const double wide = loss_of_steps(&command, job, "wide");
    cr_expect(small > 0 && small < 1, "%.9g", small);
    cr_expect_float_eq(small, wide, 1e-6, "%.9g, not %.9g", wide, small);
    command_close(&command);
}

/* Tests the last checkpoint of the job; returns its loss. */
static double
loss_of_evaluate(command_t *command, const char *job, const char *checkpoints)
{
    cadre_auto(cadre_free) char *from = scratch_path(&command->scratch, checkpoints);
    const char *evaluate[] = {"evaluate", job, "--checkpoint-dir", from, "-o", "json", NULL};
    command_expect_exit(command, command_run(command, evaluate), 0);
    cadre_auto(cadre_free) char *text = command_output(command);
    return number_behind(text, "\"loss\":");
}

/* In memory, and streamed. */
Test(run_tables, indices_of_64_bits_are_tested_on_a_file_of_their_own)
{
    static const char *const small_data[] = {SMALL, SMALL ", \"streaming\": true"};
    static const char *const wide_data[] = {WIDE, WIDE ", \"streaming\": true"};
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *small_rows = scratch_path(&command.scratch, "small.svm");
    cadre_auto(cadre_free) char *wide_rows = scratch_path(&command.scratch, "wide.svm");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_items(rows, small_rows, false);
    write_items(rows, wide_rows, true);
    for (size_t i = 0; i < CADRE_COUNT_OF(wide_data); i++) {
        write_keyed_job(job, small_data[i], small_data[i], "");
        const double small = loss_of_steps(&command, job, i == 0 ? "small" : "small-streamed");
        write_keyed_job(job, wide_data[i], wide_data[i], ", \"keys\": true");
        const char *checkpoints = i == 0 ? "wide" : "wide-streamed";
        const double wide = loss_of_steps(&command, job, checkpoints);
        cr_expect(small > 0 && small < 1, "%.9g", small);
        cr_expect_float_eq(small, wide, 1e-6, "%.9g, not %.9g", wide, small);
        cr_expect_float_eq(loss_of_evaluate(&command, job, checkpoints), wide, 1e-6);
    }
    command_close(&command);
}

/* Writes a job of a model over items that is no "layers", with FTRL. */
static void
write_named_job(const char *path, const char *train, const char *kind, const char *model)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(
        file,
        "{\"seed\": 7, \"data\": {\"train\": {%s, \"label_kind\": \"%s\"}, \"test\": {%s}}, "
        "\"model\": {\"type\": \"%s, \"table\": {\"initializer\": {\"type\": \"constant\", "
        "\"value\": 0.1}}}, \"optimizer\": {\"type\": \"ftrl\", \"learning_rate\": 0.1, \"l1\": "
        "0.001}, \"training\": {\"epochs\": 2}, \"cluster\": {\"ps\": 2, \"workers\": 1}}",
        train, kind, TENTH, model);
    fclose(file);
}

/* Of logistic regression with an output for each class, too. */
Test(run_tables, named_models_over_keys_of_64_bits_train_as_those_over_small_ids)
{
    static const struct {
        const char *kind;
        const char *model;
    } models[] = {
        {"class", "logistic\""},
        {"binary", "logistic\""},
        {"value", "linear\""},
        {"binary", "factorization_machine\", \"factors\": 3"},
    };
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *small_rows = scratch_path(&command.scratch, "small.svm");
    cadre_auto(cadre_free) char *wide_rows = scratch_path(&command.scratch, "wide.svm");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_items(rows, small_rows, false);
    write_items(rows, wide_rows, true);
    for (size_t i = 0; i < CADRE_COUNT_OF(models); i++) {
        cadre_auto(cadre_free) char *keyed = cadre_asprintf("%s, \"keys\": true", models[i].model);
        write_named_job(job, SMALL, models[i].kind, models[i].model);
        const double small = loss_of_steps(&command, job, "checkpoints");
        write_named_job(job, WIDE, models[i].kind, keyed);
        const double wide = loss_of_steps(&command, job, "checkpoints");
        cr_expect(small > 0 && small < 1, "%zu: %.9g", i, small);
        cr_expect_float_eq(small, wide, 1e-6, "%zu: %.9g, not %.9g", i, wide, small);
    }
    command_close(&command);
}

/* Of the first column of wide.csv f32 makes numbers far beyond 2^24. */
Test(run_tables, a_number_that_is_no_id_is_named_with_those_that_are)
{
    static const struct {
        const char *path;
        const char *ids;
        const char *words[2];
    } jobs[] = {
        {"rows.csv", "\"fields\": [400, 500]", {"(row ", "from 0 to 399 "}},
        {"wide.csv", "\"fields\": 2, \"table\": true", {"from 0 to 16777215:", "\"keys\": true"}},
        {"wide.csv", "\"table\": true", {"from 0 to 16777215:", "\"keys\": true"}},
    };
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *wide_rows = scratch_path(&command.scratch, "wide.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_wide_rows(rows, wide_rows);
    for (size_t i = 0; i < CADRE_COUNT_OF(jobs); i++) {
        FILE *file = fopen(job, "we");
        cr_assert(file);
        fprintf(
            file,
            "{\"data\": {\"train\": {" CSV "\"path\": \"%s\"}}, \"model\": {\"type\": \"layers\", "
            "\"layers\": [{\"type\": \"embedding\", \"units\": 2, %s}, {\"type\": \"flatten\"}]}}",
            jobs[i].path, jobs[i].ids);
        fclose(file);
        const char *run[] = {"run", job, "--checkpoint-dir", "none", NULL};
        command_expect_exit(&command, command_run(&command, run), 65);
        cadre_auto(cadre_free) char *words = command_errors(&command);
        cr_expect(strstr(words, "take: argument x has "), "%zu: %s", i, words);
        cr_expect(strstr(words, jobs[i].words[0]) && strstr(words, jobs[i].words[1]), "%zu: %s", i,
                  words);
    }
    command_close(&command);
}

/* --- clipped by norms --- */

/* Trains a model over two ids in synchronous steps, so that nothing depends on when an update
 * comes; returns its loss. `rows`: the model's key for its ids. */
static double
loss_of_clipped(command_t *command, const char *rows, const char *optimizer)
{
    cadre_auto(cadre_free) char *job = scratch_path(&command->scratch, "clipped.json");
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 7, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"}, "
            "\"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": \"logistic\", %s}, "
            "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.5%s}, \"training\": "
            "{\"epochs\": 1, \"consistency\": \"sync\", \"step_closures\": 1}, \"cluster\": "
            "{\"ps\": 2, \"workers\": 1}}",
            rows, optimizer);
    fclose(file);
    const char *run[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
    command_expect_exit(command, command_run(command, run), 0);
    json_t *result = command_result(command);
    cr_assert(result);
    const double loss = json_number_at(result, "loss");
    json_decref(result);
    return loss;
}

/* Weights of both begin at zero, so that one is the other's oracle. */
Test(run_tables, gradients_of_a_table_are_clipped_as_those_of_a_variable)
{
    static const char *const ways[] = {", \"clip_norm\": 0.02", ", \"global_clip_norm\": 0.02"};
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *fields = cadre_asprintf("\"fields\": [%d, %d]", IDS, IDS);
    write_rows(rows);
    const double free_loss = loss_of_clipped(&command, "\"table\": true, \"fields\": 2", "");
    for (size_t i = 0; i < CADRE_COUNT_OF(ways); i++) {
        const double table = loss_of_clipped(&command, "\"table\": true, \"fields\": 2", ways[i]);
        const double dense = loss_of_clipped(&command, fields, ways[i]);
        cr_expect_float_eq(table, dense, 1e-6, "%s: %.9g, not %.9g", ways[i], table, dense);
        cr_expect_gt(fabs(table - free_loss), 1e-4, "%s: %.9g", ways[i], table);
    }
    command_close(&command);
}

/* --- resumed with other ids of words --- */

/* Writes a job whose two columns are words with ids below `hash`. */
static void
write_words_job(const char *path, int hash)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(
        file,
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\", \"header\": false, "
        "\"columns\": [{\"column\": 0, \"hash\": %d}, {\"column\": 1, \"hash\": 99}]}, "
        "\"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": \"layers\", \"layers\": "
        "[{\"type\": \"factorization_machine\", \"fields\": 2, \"table\": true, \"factors\": "
        "2}]}, \"training\": {\"epochs\": 1, \"steps_per_epoch\": 20}, \"cluster\": {\"ps\": "
        "1, \"workers\": 1}, \"checkpoint\": {\"every_epochs\": 1}}",
        hash);
    fclose(file);
}

Test(run_tables, a_job_whose_words_have_other_ids_is_not_resumed)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows);
    write_words_job(job, 500);
    const char *run[] = {"run",      job,    "--checkpoint-dir", command.checkpoints,
                         "--resume", "auto", "--epochs",         "1",
                         NULL};
    const char *evaluate[] = {"evaluate", job, "--checkpoint-dir", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, run), 0);
    run[7] = "2";
    command_expect_exit(&command, command_run(&command, run), 0);

    write_words_job(job, 501);
    const char *const *both[] = {run, evaluate};
    for (size_t i = 0; i < CADRE_COUNT_OF(both); i++) {
        command_expect_exit(&command, command_run(&command, both[i]), 78);
        cadre_auto(cadre_free) char *words = command_errors(&command);
        cr_expect(strstr(words, "was trained with \"hash\" 500 of column \"0\", and data.train has "
                                "501"),
                  "%s", words);
    }
    command_close(&command);
}
