/* Models of job files that read ids and sequences, trained by `cadre run`. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(models, .timeout = 900);

/* A model, as JSON, of rows that `write_rows` writes as CSV, of which a tenth is held out. Its
 * steps are synchronous, so that it is as accurate on any machine. */
typedef struct {
    void (*write_rows)(FILE *file);
    const char *data; /* more keys of data.train */
    const char *model;
    const char *training;
} training_t;

/* Runs it; what was said, freed by the caller, and the accuracy where the run is to succeed. */
static char *
train(const training_t *training, int code, double *accuracy)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    FILE *file = fopen(rows, "we");
    cr_assert(file);
    training->write_rows(file);
    fclose(file);
    file = fopen(job, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 5, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"%s},"
            " \"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": \"layers\", %s},"
            " \"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.01},"
            " \"training\": {\"consistency\": \"sync\", %s}, \"cluster\": {\"workers\": 1}}",
            training->data, training->model, training->training);
    fclose(file);

    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), code);
    if (accuracy) {
        json_t *result = command_result(&command);
        cr_assert(result);
        *accuracy = json_number_at(result, "accuracy");
        json_decref(result);
    }
    char *errors = command_errors(&command);
    command_close(&command);
    return errors;
}

static void
expect_accuracy(const training_t *training, double wanted)
{
    double accuracy = 0;
    cadre_auto(cadre_free) char *errors = train(training, 0, &accuracy);
    cr_expect_geq(accuracy, wanted, "%g: %s", accuracy, errors);
}

/* --- shipped examples --- */

/* Each job has a target, below which it ends with 1. */
static void
expect_example(const char *example)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *name = cadre_asprintf("examples/%s.json", example);
    cadre_auto(cadre_free) char *job = source_path(name);
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "--workers", "1", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    command_close(&command);
}

Test(models, digits_are_told_by_embedded_shades)
{
    expect_example("digits_embedding");
}

Test(models, digits_are_told_by_branches_and_a_way_around)
{
    expect_example("digits_residual");
}

Test(models, digits_are_told_by_convolutions_along_their_rows)
{
    expect_example("digits_conv1d");
}

Test(models, digits_are_told_by_recurrent_layers_row_by_row)
{
    expect_example("digits_gru");
    expect_example("digits_lstm");
}

/* --- pairs of ids --- */

/* Steps are the same in each run: all rows are told after 5 epochs, and there are 10. */

enum { KINDS = 10, PAIRS = 6000 };

/* Two ids, the second of them from `second` on, then what `more` says, and the class: whether both
 * are odd or both even. No sum over single ids tells that. */
static void
write_ids(FILE *rows, unsigned second, const char *more)
{
    unsigned state = 1;
    for (int i = 0; i < PAIRS; i++) {
        state = state * 1103515245U + 12345U;
        const unsigned a = state >> 16 & 0x7fff;
        state = state * 1103515245U + 12345U;
        const unsigned b = state >> 16 & 0x7fff;
        fprintf(rows, "%u,%u%s,%d\n", a % KINDS, second + b % KINDS, more, a % 2 == b % 2);
    }
}

/* Items: each id has a value, which is 1. */
static void
write_pairs(FILE *rows)
{
    write_ids(rows, KINDS, ",1,1");
}

/* Fields: the ids of each begin at 0. */
static void
write_fields(FILE *rows)
{
    write_ids(rows, 0, "");
}

#define PAIRS_BY(layers)                                                                           \
    (training_t)                                                                                   \
    {                                                                                              \
        .write_rows = write_pairs, .data = "", .model = "\"layers\": [" layers "]",                \
        .training = "\"epochs\": 10"                                                               \
    }

Test(models, pairs_are_told_by_a_factorization_machine)
{
    training_t machine = PAIRS_BY("{\"type\": \"factorization_machine\", \"ids\": 20, "
                                  "\"factors\": 4}");
    expect_accuracy(&machine, 0.95);
}

Test(models, pairs_are_told_by_fields_with_ids_of_their_own)
{
    training_t machine = {
        .write_rows = write_fields,
        .data = "",
        .model = "\"layers\": [{\"type\": \"factorization_machine\", \"fields\": [10, 10], "
                 "\"factors\": 4}]",
        .training = "\"epochs\": 10"};
    expect_accuracy(&machine, 0.95);

    /* Id 9 of the first field is not taken for id 0 of the second. */
    machine.model =
        "\"layers\": [{\"type\": \"embedding_bag\", \"fields\": [9, 10], \"units\": 2}]";
    cadre_auto(cadre_free) char *errors = train(&machine, 65, NULL);
    cr_expect(
        strstr(errors, "has 9 (row 3, column 0, from 0), and ids are whole numbers from 0 to 8"),
        "%s", errors);
}

/* The same ids, of which nobody says how many there are. */
Test(models, pairs_are_told_by_the_rows_of_a_table)
{
    training_t machine = {
        .write_rows = write_fields,
        .data = "",
        .model = "\"layers\": [{\"type\": \"factorization_machine\", \"fields\": 2, \"table\": "
                 "true, \"factors\": 4}]",
        .training = "\"epochs\": 10"};
    expect_accuracy(&machine, 0.95);

    training_t items = PAIRS_BY("{\"type\": \"factorization_machine\", \"table\": true, "
                                "\"factors\": 4}");
    expect_accuracy(&items, 0.95);

    training_t embedding = {
        .write_rows = write_fields,
        .data = "",
        .model = "\"layers\": [{\"type\": \"embedding\", \"columns\": [0, 2], \"fields\": 2, "
                 "\"units\": 4, \"table\": "
                 "{\"optimizer\": {\"type\": \"adagrad\", \"learning_rate\": 0.3}, \"row_wise\": "
                 "true}}, {\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 16, "
                 "\"activation\": \"relu\"}]",
        .training = "\"epochs\": 10"};
    expect_accuracy(&embedding, 0.95);
}

/* Two ids, and whether the first is odd. */
static void
write_first(FILE *rows)
{
    for (int i = 0; i < PAIRS; i++) {
        fprintf(rows, "%d,%d,%d\n", i % KINDS, i / KINDS % KINDS, i % 2);
    }
}

/* A sum over ids that did not know of which column they are would be right about three of four. */
Test(models, an_id_of_one_column_has_another_row_of_a_table_than_that_of_another)
{
    training_t training = {
        .write_rows = write_first,
        .data = "",
        .model = "\"layers\": [{\"type\": \"embedding_bag\", \"fields\": 2, \"table\": true, "
                 "\"units\": 2}]",
        .training = "\"epochs\": 6"};
    expect_accuracy(&training, 0.95);
}

/* An id that is not whole, or that the other column's would begin with, is no key. */
Test(models, what_is_no_id_ends_a_run_with_a_table)
{
    static const char *const scales[] = {"0.5", "33554432"};
    static const char *const said[] = {"has 0.5 (row 0, column 0, from 0), and ids are whole",
                                       "has 33554432 (row 0, column 0, from 0), and ids are whole"};
    for (size_t i = 0; i < CADRE_COUNT_OF(scales); i++) {
        cadre_auto(cadre_free) char *data = cadre_asprintf(", \"scale\": %s", scales[i]);
        training_t training = {
            .write_rows = write_fields,
            .data = data,
            .model = "\"layers\": [{\"type\": \"embedding_bag\", \"fields\": 2, \"table\": true, "
                     "\"units\": 2}]",
            .training = "\"epochs\": 1"};
        cadre_auto(cadre_free) char *errors = train(&training, 65, NULL);
        cr_expect(strstr(errors, said[i]), "%s", errors);
    }
}

Test(models, pairs_are_told_by_an_interaction)
{
    training_t interaction =
        PAIRS_BY("{\"type\": \"dense\", \"units\": 4, \"columns\": [2, 2], \"name\": \"d\"}, "
                 "{\"type\": \"embedding\", \"ids\": 20, \"units\": 4, \"columns\": [0, 2], "
                 "\"name\": \"e\"}, {\"type\": \"interaction\", \"from\": [\"d\", \"e\"]}");
    expect_accuracy(&interaction, 0.95);
}

/* A wide part over the ids beside a deep one: the wide part alone is right about half of the
 * rows. */
Test(models, pairs_are_told_by_wide_and_deep)
{
    training_t both = PAIRS_BY(
        "{\"type\": \"embedding_bag\", \"ids\": 20, \"units\": 2, \"name\": \"wide\"}, "
        "{\"type\": \"embedding\", \"ids\": 20, \"units\": 4, \"columns\": [0, 2]}, "
        "{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 16, \"activation\": "
        "\"relu\", \"name\": \"deep\"}, {\"type\": \"concat\", \"from\": [\"wide\", \"deep\"]}");
    expect_accuracy(&both, 0.95);
    training_t wide = PAIRS_BY("{\"type\": \"embedding_bag\", \"ids\": 20, \"units\": 2}");
    double accuracy = 0;
    cadre_auto(cadre_free) char *errors = train(&wide, 0, &accuracy);
    cr_expect_lt(accuracy, 0.65, "%g: %s", accuracy, errors);
}

/* --- ids --- */

enum { LETTERS = 8, ROWS = 30000 };

/* Eight letters of the text and, as the class, the next; letters are numbered by their bytes. */
static void
write_text(FILE *rows)
{
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/text/tinyshakespeare.txt", getenv("CADRE_TEST_DATA"));
    FILE *text = fopen(path, "re");
    cr_assert(text, "%s", path);
    char letters[LETTERS + 1];
    for (int row = 0; row < ROWS; row++) {
        cr_assert_eq(fread(letters, 1, sizeof(letters), text), sizeof(letters));
        for (int i = 0; i <= LETTERS; i++) {
            fprintf(rows, "%d%c", letters[i], i < LETTERS ? ',' : '\n');
        }
    }
    fclose(text);
}

#define LETTER_MODEL                                                                               \
    "\"layers\": [{\"type\": \"embedding\", \"ids\": 128, \"units\": 8}, {\"type\": "              \
    "\"flatten\"}, "                                                                               \
    "{\"type\": \"dense\", \"units\": 64, \"activation\": \"relu\"}]"

/* The commonest letter, the blank, is 15 %. */
Test(models, embedded_letters_tell_the_next_one)
{
    if (!getenv("CADRE_TEST_DATA")) {
        cr_skip_test("CADRE_TEST_DATA names no folder");
    }
    const training_t training = {write_text, ", \"classes\": 128", LETTER_MODEL,
                                 "\"epochs\": 8, \"batch_size\": 64"};
    expect_accuracy(&training, 0.36);
}

static void
write_bad_id(FILE *rows)
{
    for (int i = 0; i < 60; i++) {
        fprintf(rows, "%d,%d,%d\n", i % 7, i == 50 ? 7 : 3, i % 2);
    }
}

Test(models, an_id_that_is_none_is_told_with_its_row)
{
    const training_t training = {
        write_bad_id, "",
        "\"layers\": [{\"type\": \"embedding\", \"ids\": 7, \"units\": 2}, {\"type\": \"mean\"}]",
        "\"epochs\": 1, \"batch_size\": 60, \"shuffle\": false"};
    cadre_auto(cadre_free) char *errors = train(&training, 65, NULL);
    cr_expect(strstr(errors, "take: index 7 in row "), "%s", errors);
    cr_expect(strstr(errors, " at 1 is not in 0..6"), "%s", errors);
}

/* --- sequences --- */

/* Twelve of four symbols, and as the class the fifth of them, which is seen seven positions before
 * the end. */
static void
write_echo(FILE *rows)
{
    uint32_t random = 1;
    for (int row = 0; row < 4000; row++) {
        int symbols[12];
        for (int i = 0; i < 12; i++) {
            random = random * 1664525 + 1013904223;
            symbols[i] = (int)(random >> 30);
            fprintf(rows, "%d,", symbols[i]);
        }
        fprintf(rows, "%d\n", symbols[4]);
    }
}

static void
expect_echo(const char *type)
{
    cadre_auto(cadre_free) char *model = cadre_asprintf(
        "\"layers\": [{\"type\": \"embedding\", \"ids\": 4, \"units\": 8}, {\"type\": \"%s\", "
        "\"units\": 16}]",
        type);
    const training_t training = {write_echo, "", model, "\"epochs\": 12, \"batch_size\": 32"};
    expect_accuracy(&training, 0.98);
}

/* A quarter is right by chance; after 12 epochs it is all, and 98 % is asked for. */
Test(models, recurrent_layers_remember_a_symbol)
{
    expect_echo("gru");
    expect_echo("lstm");
}
