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

/* --- words by their hash --- */

enum { PAIRS = 2000, NAMES = 10 }; /* rows of a file, and words of each of its two columns */

/* Two words, u0 to u9 and i0 to i9, and whether the numbers of both are odd or both even. */
static void
write_pairs(const char *path)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fputs("user,item,label\n", file);
    uint32_t state = 1;
    for (int i = 0; i < PAIRS; i++) {
        state = state * 1664525 + 1013904223;
        const unsigned user = (state >> 16) % NAMES;
        const unsigned item = (state >> 24) % NAMES;
        fprintf(file, "u%u,i%u,%d\n", user, item, user % 2 == item % 2);
    }
    cr_assert_eq(fclose(file), 0);
}

/* Trains vectors of both columns in one table; `user` and `item` say how words become ids, and
 * `keys` whether these have 64 bits. */
static void
train_pairs(command_t *command, const char *user, const char *item, const char *keys)
{
    cadre_auto(cadre_free) char *pairs = scratch_path(&command->scratch, "pairs.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command->scratch, "job.json");
    write_pairs(pairs);
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 5, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"pairs.csv\", "
            "\"label_kind\": \"binary\", \"columns\": [{\"column\": \"user\", %s}, "
            "{\"column\": \"item\", %s}]}, \"test\": {\"fraction\": 0.1}}, \"model\": {\"type\": "
            "\"layers\", \"layers\": [{\"type\": \"factorization_machine\", \"factors\": 4, "
            "\"linear\": false, \"columns\": [\"user\", \"item\"], \"fields\": 2, \"table\": true, "
            "\"keys\": %s}]}, \"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.02}, "
            "\"training\": {\"epochs\": 5, \"batch_size\": 20}, \"cluster\": {\"ps\": 1, "
            "\"workers\": 1}}",
            user, item, keys);
    cr_assert_eq(fclose(file), 0);
    const char *run[] = {"run", job, "--checkpoint-dir", command->checkpoints, NULL};
    command_expect_exit(command, command_run(command, run), 0);
}

/* Looks for neighbours of `word` with four further flags: four rows, of one field, that have the
 * larger cosines to it, and then the five of the other half. */
static void
expect_halves(command_t *command, const char *word, const char *const flags[6])
{
    const char *arguments[] = {"embedding",  "neighbours", command->checkpoints,
                               "--variable", "v1",         word,
                               "-o",         "json",       flags[0],
                               flags[1],     flags[2],     flags[3],
                               flags[4],     flags[5],     NULL};
    cadre_auto(cadre_free) char *text = output_of(command, arguments);
    json_t *found = json_loads(text, 0, NULL);
    cr_assert(found, "%s", text);
    cr_expect_str_eq(json_string_value(json_object_get(found, "word")), word);
    const json_t *neighbours = json_object_get(found, "neighbours");
    cr_expect_eq(json_array_size(neighbours), NAMES - 1, "%s", text);
    for (size_t i = 0; i < NAMES - 1; i++) {
        const json_t *cosine = json_object_get(json_array_get(neighbours, i), "cosine");
        const bool alike = json_number_value(cosine) > 0;
        cr_expect(alike == (i < NAMES / 2 - 1), "neighbour %zu: %s", i, text);
    }
    json_decref(found);
}

Test(embedding_command, finds_words_of_a_column_by_their_hash)
{
    command_t command;
    command_open(&command);
    train_pairs(&command, "\"hash\": 100000", "\"hash\": 100000, \"hash_seed\": 3", "false");
    expect_halves(&command, "u3",
                  (const char *[]){"--hash", "100000", "--rows", "0:16777216", NULL, NULL});
    expect_halves(&command, "i4",
                  (const char *[]){"--hash", "100000", "--hash-seed=3", "--hash-offset=16777216",
                                   "--rows=16777216:16777216", NULL});
    const char *wrong[] = {"embedding",  "neighbours", command.checkpoints,
                           "--variable", "v1",         "i4",
                           "--hash",     "100000",     NULL};
    command_expect_exit(&command, command_run(&command, wrong), 66);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, "\"i4\" has no row among the 20 of the table"), "%s", errors);
    static const char *const bad[] = {"--rows=1:", "--rows=1:0", "--rows=1:-1", "--rows=1:1:1",
                                      "--rows=1:18446744073709551616"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        const char *refused[] = {"embedding", "neighbours", command.checkpoints,
                                 "u3",        bad[i],       NULL};
        command_expect_exit(&command, command_run(&command, refused), 2);
        cadre_auto(cadre_free) char *said = command_errors(&command);
        cadre_auto(cadre_free) char *quoted =
            cadre_asprintf("--rows: \"%s\" is no key", bad[i] + strlen("--rows="));
        cr_expect(strstr(said, quoted), "%s", said);
    }
    const char *none[] = {"embedding", "neighbours", command.checkpoints, "--variable", "v1", "u3",
                          "--hash",    "100000",     "--rows=1:1",        NULL};
    command_expect_exit(&command, command_run(&command, none), 66);
    cadre_auto(cadre_free) char *empty = command_errors(&command);
    cr_expect(strstr(empty, "--rows: no other row than that of \"u3\""), "%s", empty);
    command_close(&command);
}

/* Of keys of two fields any may be larger: all rows are candidates. */
Test(embedding_command, finds_words_of_a_column_by_their_keys)
{
    command_t command;
    command_open(&command);
    train_pairs(&command, "\"key\": \"word\", \"hash_seed\": 8", "\"key\": \"word\"", "true");
    static const char *const cases[][2] = {{"u3", "--hash-seed=8"},
                                           {"\tu3\t", "--hash-seed=8"}, /* no part of the word */
                                           {"i4", "--hash-offset=11400714819323198485"}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const char *arguments[] = {
            "embedding", "neighbours", command.checkpoints, "--variable", "v1", cases[i][0],
            "--hash",    "keys",       cases[i][1],         NULL};
        cadre_auto(cadre_free) char *found = output_of(&command, arguments);
        size_t blanks = 0; /* two before each of ten neighbours and its cosine */
        for (const char *at = found; (at = strchr(at, ' ')); at++) {
            blanks++;
        }
        cr_expect_eq(blanks, 20, "%s", found);
    }
    command_close(&command);
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
    static const char *const cases[][8] = {
        {"embedding", NULL},
        {"embedding", "words", NULL},
        {"embedding", "text", "/tmp", NULL},
        {"embedding", "neighbours", "/tmp", "--variable", "v1", NULL},
        {"embedding", "text", "/tmp", "word", "--variable=v1", NULL},
        {"embedding", "words", "/tmp", "--variable=v1", NULL},
        {"embedding", "text", "/tmp", "--variable=v1", "--min-count=2", NULL},
        {"embedding", "words", "/tmp", "--count=0", NULL},
        {"embedding", "text", "/tmp", "--variable=v1", "--rows=0:2", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--rows=0:0", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--rows=0:-1", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--rows=3", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--hash=1", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--hash=word", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--hash-seed=1", NULL},
        {"embedding", "neighbours", "/tmp", "--variable=v1", "w", "--hash=9", "--words=x"},
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
