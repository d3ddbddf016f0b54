/* Vectors of words: trained by a job, then looked at. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/base/memory.h"
#include "tests/system/command.h"

TestSuite(embedding_command, .timeout = 900);

/* Two passages of six words each, over and over: words of one are near each other, never those of
 * both. */
static void
write_text(const char *path)
{
    static const char *const words[] = {"sun",  "day",  "noon", "light", "warm", "bright",
                                        "moon", "dusk", "star", "dark",  "cold", "dim"};
    FILE *file = fopen(path, "we");
    cr_assert(file);
    uint32_t state = 1; /* of a linear congruential generator */
    for (unsigned i = 0; i < 4000; i++) {
        const unsigned passage = i / 10 % 2;
        state = state * 1664525 + 1013904223;
        fprintf(file, "%s%s", words[passage * 6 + (state >> 16) % 6], i % 10 == 9 ? "\n\n" : " ");
    }
    cr_assert_eq(fclose(file), 0);
}

static void
write_job(const char *path, const char *model)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 5, \"data\": {\"train\": {\"format\": \"text\", \"path\": \"text.txt\", "
            "\"label_kind\": \"binary\", \"vocabulary\": 20, \"subsample\": 0, \"window\": 3}, "
            "\"test\": {\"fraction\": 0.1}}, "
            "\"model\": %s, "
            "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.01}, "
            "\"training\": {\"epochs\": 3, \"metrics\": [\"auc\"]}}",
            model);
    cr_assert_eq(fclose(file), 0);
}

/* Runs the command and returns what it prints, freed by the caller. */
static char *
output_of(command_t *command, const char *const *arguments)
{
    command_expect_exit(command, command_run(command, arguments), 0);
    return command_output(command);
}

/* The words of a text are those of the rows, and the neighbours of each are of its passage. */
static void
expect_neighbours(command_t *command, const char *text)
{
    cadre_auto(cadre_free) char *words = scratch_path(&command->scratch, "words.txt");
    cadre_auto(cadre_free) char *listed =
        output_of(command, (const char *[]){"embedding", "words", text, NULL});
    FILE *file = fopen(words, "we");
    cr_assert(file);
    fputs(listed, file);
    cr_assert_eq(fclose(file), 0);

    const char *arguments[] = {"embedding", "neighbours", command->checkpoints,
                               "sun",       "dusk",       "--variable",
                               "v1",        "--words",    words,
                               "--count",   "2",          NULL};
    cadre_auto(cadre_free) char *found = output_of(command, arguments);
    char nearest[2][16];
    cr_assert_eq(sscanf(found, "sun: %15s %*f %*s %*f\ndusk: %15s", nearest[0], nearest[1]), 2,
                 "%s", found);
    cr_expect(strstr("day noon light warm bright", nearest[0]), "%s", found);
    cr_expect(strstr("moon star dark cold dim", nearest[1]), "%s", found);

    arguments[3] = "nowhere";
    command_expect_exit(command, command_run(command, arguments), 66);
    arguments[6] = "v9";
    command_expect_exit(command, command_run(command, arguments), 66);
    cadre_auto(cadre_free) char *errors = command_errors(command);
    cr_expect(strstr(errors, "the checkpoint has no variable \"v9\"; it has v1"), "%s", errors);
    arguments[6] = "v1";
    const char *as_text[] = {
        "embedding", "text", command->checkpoints, "--variable", "v1", "--words", words, NULL};
    cadre_auto(cadre_free) char *vectors = output_of(command, as_text);
    cr_expect_eq(strncmp(vectors, "12 4\n", 5), 0, "%.20s", vectors);
}

/* Trains the model on the text, and looks at its vectors. */
static void
expect_words(const char *model)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *text = scratch_path(&command.scratch, "text.txt");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_text(text);
    write_job(job, model);
    const char *arguments[] = {"run",  job, "--checkpoint-dir", command.checkpoints, "-o",
                               "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_expect_geq(json_number_at(result, "metrics.auc"), 0.7);
    json_decref(result);
    expect_neighbours(&command, text);
    command_close(&command);
}

Test(embedding_command, finds_words_that_stand_near_the_same_ones)
{
    expect_words("{\"type\": \"factorization_machine\", \"fields\": [20, 20], \"factors\": 4, "
                 "\"linear\": false}");
}

Test(embedding_command, finds_them_by_key_where_the_rows_are_those_of_a_table)
{
    expect_words("{\"type\": \"layers\", \"layers\": [{\"type\": \"factorization_machine\", "
                 "\"fields\": 2, \"table\": true, \"factors\": 4, \"linear\": false}]}");
}

/* Runs the command on two files of `text` in the scratch directory. */
static int
run_words(command_t *command, const char *text, const char *least)
{
    cadre_auto(cadre_free) char *one = scratch_path(&command->scratch, "part-1");
    cadre_auto(cadre_free) char *two = scratch_path(&command->scratch, "part-2");
    cadre_auto(cadre_free) char *pattern = scratch_path(&command->scratch, "part-?");
    const char *const paths[] = {one, two};
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        gzFile file = gzopen(paths[i], i == 0 ? "wb" : "wbT"); /* T: plain */
        cr_assert(file && gzputs(file, text) >= 0 && gzclose(file) == Z_OK);
    }
    return command_run(
        command, (const char *[]){"embedding", "words", pattern, two, "--min-count", least, NULL});
}

/* Of two files by a pattern, of which one is compressed, and once more by name. */
Test(embedding_command, counts_the_words_of_all_files_whatever_their_compression)
{
    command_t command;
    command_open(&command);
    command_expect_exit(&command, run_words(&command, "b a b\n", "3"), 0);
    cadre_auto(cadre_free) char *words = command_output(&command);
    cr_expect_str_eq(words, "b\na\n");
    command_expect_exit(&command, run_words(&command, "b a b\n", "4"), 0);
    cadre_auto(cadre_free) char *frequent = command_output(&command);
    cr_expect_str_eq(frequent, "b\n");
    command_expect_exit(&command, run_words(&command, "b a b\n", "7"), 65);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, "no word is there 7 times or more"), "%s", errors);
    command_expect_exit(&command, run_words(&command, "\n", "1"), 65);
    command_close(&command);
}

Test(embedding_command, says_what_is_missing)
{
    static const char *const cases[][6] = {
        {"embedding", NULL},
        {"embedding", "words", NULL},
        {"embedding", "text", "/tmp", NULL},
        {"embedding", "neighbours", "/tmp", "--variable", "v1", NULL},
        {"embedding", "text", "/tmp", "word", "--variable=v1", NULL},
        {"embedding", "words", "/tmp", "--variable=v1", NULL},
        {"embedding", "text", "/tmp", "--variable=v1", "--min-count=2", NULL},
        {"embedding", "words", "/tmp", "--count=0", NULL},
    };
    command_t command;
    command_open(&command);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        command_expect_exit(&command, command_run(&command, cases[i]), 2);
    }
    const char *missing[] = {"embedding", "words", "/tmp/no-such-text", NULL};
    command_expect_exit(&command, command_run(&command, missing), 66);
    command_close(&command);
}
