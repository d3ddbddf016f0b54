#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/vocabulary.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/system/file_pattern.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/embedding.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"
#include "worker/data/data_file.h"
#include "worker/data/source.h"

enum { VARIABLE = 256, WORDS, MOST, LEAST, NEAREST = 10, LEAST_COUNT = 5, KEY_SIZE = 21 };

typedef struct {
    cadre_verb_words_t words; /* what to do, and a directory or a text */
    const char *variable;
    const char *words_file;
    char **of; /* [of_count]: words whose neighbours are wanted, or further texts */
    size_t of_count;
    long most;  /* neighbours of each, or words of a vocabulary; 0: the default */
    long least; /* how often a word of a vocabulary is there; 0: the default */
    bool json;
} flags_t;

/* Returns the number that an option has; ends the process where it is none in 1 to `most`. */
static long
number_of(const char *option, const char *argument, long most, const struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    const long number = strtol(argument, &end, 10);
    if (errno || *end || number < 1 || number > most || argument[0] < '0' || argument[0] > '9') {
        argp_error(state, "%s: \"%s\" is no number from 1 to %ld", option, argument, most);
    }
    return number;
}

/* Ends the process with a usage error unless the words and flags belong together. */
static void
check_end(const flags_t *self, const struct argp_state *state)
{
    cadre_verb_words_check(&self->words, (const char *const[]){"neighbours", "text", "words", NULL},
                           state);
    const bool of_text = strcmp(self->words.what, "words") == 0;
    const bool nearest = strcmp(self->words.what, "neighbours") == 0;
    if (!self->words.object) {
        argp_error(state, of_text ? "a text is missing" : "a directory of checkpoints is missing");
    }
    if (of_text ? self->variable || self->words_file : !self->variable) {
        argp_error(state, of_text ? "--variable and --words are not of words"
                                  : "say which variable: --variable NAME");
    }
    if (!of_text && nearest != (self->of_count > 0)) {
        argp_error(state, nearest ? "say of which words" : "one word too many: \"%s\"",
                   nearest ? "" : self->of[0]);
    }
    if ((!of_text && self->least > 0) || (self->json && !nearest)) {
        argp_error(state, self->json ? "-o is of neighbours" : "--min-count is of words");
    }
    if (nearest && self->most > CADRE_EMBEDDING_NEAREST_MAX) {
        argp_error(state, "--count: at most %d neighbours", (int)CADRE_EMBEDDING_NEAREST_MAX);
    }
}

/* Takes one option or word, or the end of the command line; called by argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case VARIABLE:
        self->variable = argument;
        break;
    case WORDS:
        self->words_file = argument;
        break;
    case MOST:
        self->most = number_of("--count", argument, CADRE_EMBEDDING_WORDS_MAX, state);
        break;
    case LEAST:
        self->least = number_of("--min-count", argument, INT32_MAX, state);
        break;
    case ARGP_KEY_ARG:
        if (!cadre_verb_words_take(&self->words, argument)) {
            self->of[self->of_count++] = argument;
        }
        break;
    case ARGP_KEY_END:
        check_end(self, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* Reads the variable of the newest sound checkpoint, and the words of its rows. */
static int
read_embedding(const flags_t *flags, cadre_embedding_t *embedding)
{
    uint64_t id = 0;
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    int status = cadre_checkpoint_directory_open(flags->words.object, false, &directory);
    status = status < 0 ? status : cadre_verb_newest(directory, &id);
    if (status < 0) {
        return status;
    }

    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_checkpoint_name(id, name);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", flags->words.object, name);
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    status = cadre_checkpoint_reader_open(path, &reader);
    status = status < 0 ? status : cadre_embedding_read(reader, flags->variable, embedding);
    if (status < 0) {
        return cadre_fail_within(status, "%s", path);
    }
    return flags->words_file ? cadre_embedding_read_words(embedding, flags->words_file) : 0;
}

/* Prints the neighbours of a row as one line of text. */
static void
print_neighbours(const cadre_embedding_t *embedding, int64_t row,
                 const cadre_neighbour_t *neighbours, size_t count)
{
    cadre_embedding_print_word(embedding, row, stdout);
    fputc(':', stdout);
    for (size_t i = 0; i < count; i++) {
        fputc(' ', stdout);
        cadre_embedding_print_word(embedding, neighbours[i].row, stdout);
        printf(" %.3f", neighbours[i].cosine);
    }
    fputc('\n', stdout);
}

/* Returns a row as an object: a number "row" of a variable, of a table its "key", as text, since a
 * JSON reader may have no whole numbers of 64 bits; and the word, if there are any. */
static json_t *
row_object(const cadre_embedding_t *embedding, int64_t row)
{
    const char *word = cadre_embedding_word(embedding, row);
    if (!embedding->keys) {
        return json_pack("{s:I, s:s?}", "row", (json_int_t)row, "word", word);
    }
    char key[KEY_SIZE];
    snprintf(key, sizeof(key), "%" PRIu64, cadre_embedding_key(embedding, row));
    return json_pack("{s:s, s:s?}", "key", key, "word", word);
}

/* Prints the neighbours of a row as one line of JSON. */
static void
print_json(const cadre_embedding_t *embedding, int64_t row, const cadre_neighbour_t *neighbours,
           size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *other = row_object(embedding, neighbours[i].row);
        json_object_set_new(other, "cosine", json_real(neighbours[i].cosine));
        json_array_append_new(list, other);
    }
    json_t *object = json_pack("{s:s}", "schema", "cadre.neighbours/v1");
    json_auto_t *of = row_object(embedding, row);
    const bool whole = json_object_update(object, of) == 0 && json_array_size(list) == count;
    json_object_set_new(object, "neighbours", list);
    cadre_auto(cadre_free) char *text = whole ? json_dumps(object, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "null"); /* a word that is no UTF-8 */
    json_decref(object);
}

/* Prints the neighbours of each word that was given. */
static int
find_neighbours(const flags_t *flags, const cadre_embedding_t *embedding)
{
    cadre_neighbour_t neighbours[CADRE_EMBEDDING_NEAREST_MAX];
    const size_t most = flags->most > 0 ? (size_t)flags->most : NEAREST;
    for (size_t i = 0; i < flags->of_count; i++) {
        int64_t row = 0;
        int status = cadre_embedding_find(embedding, flags->of[i], &row);
        if (status < 0) {
            return status;
        }
        const size_t count = cadre_embedding_nearest(embedding, row, most, neighbours);
        (flags->json ? print_json : print_neighbours)(embedding, row, neighbours, count);
    }
    return 0;
}

static void
close_text(cadre_data_file_t **file)
{
    cadre_data_file_close(file);
}

/* Counts the words of a file, plain or compressed. */
static int
count_words(const char *path, cadre_vocabulary_t *vocabulary)
{
    cadre_auto(close_text) cadre_data_file_t *file = NULL;
    int status = cadre_data_file_open(path, NULL, UINT64_MAX, &file);
    if (status < 0) {
        return status;
    }
    const char *line = NULL;
    size_t length = 0;
    while ((status = cadre_data_file_line(file, &line, &length)) > 0) {
        const char *at = line;
        char word[CADRE_WORD_SIZE];
        while (cadre_vocabulary_next_word(&at, line + length, word) > 0) {
            cadre_vocabulary_count(vocabulary, word);
        }
    }
    return status;
}

/* Counts the words of all files that the paths and patterns stand for. */
static int
count_all(const flags_t *flags, cadre_vocabulary_t *vocabulary)
{
    cadre_auto(cadre_file_names_fini) cadre_file_names_t files = {0};
    int status =
        cadre_file_pattern_expand(NULL, flags->words.object, CADRE_SOURCE_FILES_MAX, &files);
    for (size_t i = 0; i < flags->of_count && status == 0; i++) {
        status = cadre_file_pattern_expand(NULL, flags->of[i], CADRE_SOURCE_FILES_MAX, &files);
    }
    for (size_t i = 0; i < files.count && status == 0; i++) {
        status = count_words(files.items[i], vocabulary);
    }
    return status;
}

/* Prints the words of a text by their ids, as format "text" has them. */
static int
print_words(const flags_t *flags)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    int status = count_all(flags, vocabulary);
    if (status < 0) {
        return status;
    }
    const long least = flags->least > 0 ? flags->least : LEAST_COUNT;
    cadre_vocabulary_rank(vocabulary, (uint64_t)least,
                          flags->most > 0 ? (size_t)flags->most : CADRE_EMBEDDING_WORDS_MAX);
    if (cadre_vocabulary_size(vocabulary) == 0) {
        return cadre_fail(CADRE_EDATA, "%s: no word is there %ld times or more: --min-count",
                          flags->words.object, least);
    }
    for (size_t i = 0; i < cadre_vocabulary_size(vocabulary); i++) {
        puts(cadre_vocabulary_word(vocabulary, i));
    }
    return 0;
}

/* Does what the words say. */
static int
run(const flags_t *flags)
{
    if (strcmp(flags->words.what, "words") == 0) {
        return print_words(flags);
    }
    cadre_auto(cadre_embedding_fini) cadre_embedding_t embedding = {0};
    int status = read_embedding(flags, &embedding);
    if (status < 0) {
        return status;
    }
    if (strcmp(flags->words.what, "text") == 0) {
        cadre_embedding_print(&embedding, stdout);
        return 0;
    }
    return find_neighbours(flags, &embedding);
}

/* Runs `cadre embedding`: looks at the vectors that a job has learned, and returns the exit code.
 */
int
cadre_command_embedding(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"variable", VARIABLE, "NAME", 0, "The variable or table whose rows are the vectors", 0},
        {"words", WORDS, "FILE", 0,
         "The words of the rows, a word a line; without it their numbers, or keys", 0},
        {"count", MOST, "N", 0, "neighbours: so many, 10; words: at most so many", 0},
        {"min-count", LEAST, "N", 0, "words: those that are there N times or more, 5", 0},
        {"output", 'o', "json|text", 0, "neighbours: as JSON, one line for each word", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "neighbours DIR WORD...\ntext DIR\nwords TEXT...",
        .doc = "Prints the rows that are nearest by cosine to those of the words, or all rows as "
               "word2vec's text, both of the newest sound checkpoint in DIR; or the words of "
               "texts by their ids, as format \"text\" of a job has them: plain, gzip or zstd, by "
               "name or pattern.",
    };
    flags_t flags = {.of = cadre_calloc((size_t)argc, sizeof(char *))};

    argv[0] = "cadre embedding";
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    int status = run(&flags);
    cadre_free(&flags.of);
    return status < 0 ? cadre_verb_fail(status) : CADRE_EXIT_OK;
}
