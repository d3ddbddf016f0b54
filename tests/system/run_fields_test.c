/* Jobs over columns of words and bags: trained in memory and streamed, with rows by number and by
 * key, and refused with the place of a field that is wrong. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_fields, .timeout = 900);

enum { ROWS = 9000, WORDS = 40, ITEMS = 4 };

static unsigned
draw(unsigned *state)
{
    *state = *state * 1103515245U + 12345U;
    return *state >> 16;
}

/* A number, up to four words with weights, a name, and whether the weighted mean of what the words
 * stand for, 1 for each second one and else -1, is above what the name stands for; `by_sum`:
 * whether the weighted sum is above 0. */
static void
write_rows(const char *path, bool by_sum)
{
    unsigned state = 1;
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(file, "size,tags,who,y\n");
    for (int i = 0; i < ROWS; i++) {
        const int count = (int)(draw(&state) % (ITEMS + 1));
        double sum = 0;
        double total = 0;
        fprintf(file, "%u,", draw(&state) % 100);
        for (int k = 0; k < count; k++) {
            const unsigned word = draw(&state) % WORDS;
            const double weight = (double)(1 + draw(&state) % 3);
            fprintf(file, weight > 1 ? "%stag %u:%g" : "%stag %u", k ? "|" : "", word, weight);
            sum += word % 2 ? weight : -weight;
            total += weight;
        }
        const bool likes = draw(&state) % 2;
        const bool is_above = (total > 0 ? sum / total : 0) > (likes ? -0.5 : 0.5);
        fprintf(file, ",\"user %s\",%d\n", likes ? "a" : "b", by_sum ? sum > 0 : is_above);
    }
    fclose(file);
}

static void
write_job(const char *path, const char *data, const char *rows)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 3, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\", "
            "\"label_kind\": \"binary\", \"columns\": [{\"column\": \"who\", \"hash\": 100}, "
            "{\"column\": \"tags\", \"items\": %d, \"weights\": true, \"hash\": 1000000}]%s}, "
            "\"test\": {\"fraction\": 0.1}}, "
            "\"model\": {\"type\": \"layers\", \"layers\": ["
            "{\"type\": \"embedding\", \"units\": 2, \"columns\": \"who\", \"ids\": 100}, "
            "{\"type\": \"flatten\", \"name\": \"who\"}, "
            "{\"type\": \"embedding_bag\", \"units\": 4, \"columns\": [\"tags\"], \"combiner\": "
            "\"mean\", %s, \"name\": \"tags\"}, "
            "{\"type\": \"concat\", \"from\": [\"who\", \"tags\"]}]}, "
            "\"optimizer\": {\"type\": \"adam\", \"lazy\": true, \"learning_rate\": 0.02}, "
            "\"training\": {\"epochs\": 12}, \"cluster\": {\"ps\": 2, \"workers\": 2}}",
            ITEMS, data, rows);
    fclose(file);
}

Test(run_fields, words_and_bags_are_learned_from_memory_and_from_a_stream)
{
    static const struct {
        const char *data;
        const char *rows;
        const char *steps; /* of a closure */
    } cases[] = {
        {"", "\"ids\": 1000000", "1"},
        {", \"streaming\": true, \"shuffle_blocks\": 2", "\"table\": true", "1"},
        {"", "\"table\": true", "4"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
        cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
        write_rows(rows, false);
        write_job(job, cases[i].data, cases[i].rows);
        const char *run[] = {"run",
                             job,
                             "--checkpoint-dir",
                             command.checkpoints,
                             "--local-steps",
                             cases[i].steps,
                             "-o",
                             "json",
                             NULL};
        command_expect_exit(&command, command_run(&command, run), 0);
        json_t *result = command_result(&command);
        cr_assert(result);
        cr_expect_geq(json_number_at(result, "accuracy"), 0.95, "%zu: %g", i,
                      json_number_at(result, "accuracy"));
        if (i > 0) {
            cr_expect_eq(json_number_at(result, "tables.0.rows"), WORDS + 1); /* and no word */
        }
        json_decref(result);
        command_close(&command);
    }
}

/* A named model over a bag, whose rows are those of a table. */
Test(run_fields, a_logistic_model_learns_a_bag_over_a_table)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_rows(rows, true);
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fprintf(
        file,
        "{\"seed\": 3, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\", "
        "\"label\": \"y\", \"label_kind\": \"binary\", \"columns\": [{\"column\": \"tags\", "
        "\"items\": %d, \"weights\": true, \"hash\": 16777216}]}, \"test\": {\"fraction\": 0.1}}, "
        "\"model\": {\"type\": \"logistic\", \"table\": {\"optimizer\": {\"type\": \"adagrad\", "
        "\"learning_rate\": 0.1}}}, "
        "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.02}, "
        "\"training\": {\"epochs\": 12}, \"cluster\": {\"ps\": 2, \"workers\": 2}}",
        ITEMS);
    fclose(file);
    const char *run[] = {"run", job, "--checkpoint-dir", command.checkpoints, "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, run), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.95);
    cr_expect_eq(json_number_at(result, "tables.0.rows"), WORDS + 1);
    json_decref(result);
    command_close(&command);
}

Test(run_fields, a_bag_that_is_wrong_is_told_with_file_line_and_column)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    FILE *file = fopen(rows, "we");
    cr_assert(file);
    fputs("size,tags,who,y\n1,a|b,x,1\n1,a|b|c|d|e,x,0\n", file);
    fclose(file);
    write_job(job, "", "\"ids\": 1000000");
    const char *run[] = {"run", job, "--checkpoint-dir", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, run), 65);
    cadre_auto(cadre_free) char *text = command_errors(&command);
    cr_expect(strstr(text, "rows.csv:3: column 1 tags: 5 items, but \"items\" is 4"), "%s", text);
    command_close(&command);
}
