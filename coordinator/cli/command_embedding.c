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
#include "common/base/whole_number.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/system/file_pattern.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/embedding.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"
#include "worker/data/column_ids.h"
#include "worker/data/data_file.h"
#include "worker/data/source.h"
#include "worker/data/word_reader.h"

enum {
    VARIABLE = 256,
    WORDS,
    MOST,
    LEAST,
    ROWS,
    HASH,
    HASH_SEED,
    HASH_OFFSET,
    NEAREST = 10,
    LEAST_COUNT = 5,
    KEY_SIZE = 21,
};

#define BLANKS " \t"

/* How a column of a job makes keys of words. */
typedef struct {
    bool given;
    int64_t buckets; /* ids, as "hash" of the column says; 0: keys of 64 bits */
    bool has_seed;
    int64_t seed;
    bool has_offset;
    uint64_t offset; /* is added: where the rows of the column's field begin */
} word_hash_t;

typedef struct {
    cadre_verb_words_t words; /* what to do, and a directory or a text */
    const char *variable;
    const char *words_file;
    char **of; /* [of_count]: words whose neighbours are wanted, or further texts */
    size_t of_count;
    long most;                    /* neighbours of each, or words of a vocabulary; 0: the default */
    long least;                   /* how often a word of a vocabulary is there; 0: the default */
    cadre_embedding_keys_t among; /* neighbours have these keys; none: any */
    word_hash_t hash;
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

/* Returns the keys that FIRST:COUNT says; ends the process where it says none. */
static cadre_embedding_keys_t
keys_of(const char *argument, const struct argp_state *state)
{
    const char *at = argument;
    cadre_embedding_keys_t keys = {.first = 0};
    const bool is_sound = cadre_whole_number_scan_key(at, &keys.first, &at) && *at == ':' &&
                          at[1] != '-' && cadre_whole_number_scan_key(at + 1, &keys.count, &at) &&
                          *at == '\0' && keys.count > 0;
    if (!is_sound) {
        argp_error(state,
                   "--rows: \"%s\" is no key from -2^63 to 2^64 - 1, a colon, and how many, from 1 "
                   "to 2^64 - 1",
                   argument);
    }
    return keys;
}

/* Returns the key that a text says; ends the process where it says none. */
static uint64_t
offset_of(const char *argument, const struct argp_state *state)
{
    uint64_t offset = 0;
    const char *end = NULL;
    if (!cadre_whole_number_scan_key(argument, &offset, &end) || *end) {
        argp_error(state, "--hash-offset: \"%s\" is no whole number from -2^63 to 2^64 - 1",
                   argument);
    }
    return offset;
}

/* Takes an option that says how words become keys; `option` is one of them. */
static void
take_hash(word_hash_t *self, int option, const char *argument, const struct argp_state *state)
{
    int status = 0;
    if (option == HASH) {
        self->given = true;
        self->buckets = 0;
        status =
            strcmp(argument, "keys") == 0
                ? 0
                : cadre_whole_number_parse(argument, 2, CADRE_DATA_BUCKETS_MAX, &self->buckets);
    } else if (option == HASH_SEED) {
        self->has_seed = true;
        status = cadre_whole_number_parse(argument, 0, INT64_MAX, &self->seed);
    } else {
        self->has_offset = true;
        self->offset = offset_of(argument, state);
    }
    if (status < 0) {
        argp_error(state, "--hash%s: %s%s", option == HASH ? "" : "-seed", cadre_error_text(),
                   option == HASH ? ", or keys" : "");
    }
}

/* Ends the process with a usage error where flags that are of neighbours alone are given. */
static void
check_neighbours(const flags_t *self, bool nearest, const struct argp_state *state)
{
    const word_hash_t *hash = &self->hash;
    if (!nearest && (self->among.count > 0 || hash->given || hash->has_seed || hash->has_offset)) {
        argp_error(state, "--rows, --hash, --hash-seed and --hash-offset are of neighbours");
    }
    if ((hash->has_seed || hash->has_offset) && !hash->given) {
        argp_error(state, "--hash-seed and --hash-offset need --hash");
    }
    if (hash->given && self->words_file) {
        argp_error(state, "--hash or --words: a row is found by one of them");
    }
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
    check_neighbours(self, nearest, state);
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
    case ROWS:
        self->among = keys_of(argument, state);
        break;
    case HASH:
    case HASH_SEED:
    case HASH_OFFSET:
        take_hash(&self->hash, key, argument, state);
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

/* Prints the neighbours of a row as one line of text. `word`: what it is called; NULL: by its word
 * or key. */
static void
print_neighbours(const cadre_embedding_t *embedding, int64_t row, const char *word,
                 const cadre_neighbour_t *neighbours, size_t count)
{
    if (word) {
        fputs(word, stdout);
    } else {
        cadre_embedding_print_word(embedding, row, stdout);
    }
    fputc(':', stdout);
    for (size_t i = 0; i < count; i++) {
        fputc(' ', stdout);
        cadre_embedding_print_word(embedding, neighbours[i].row, stdout);
        printf(" %.3f", neighbours[i].cosine);
    }
    fputc('\n', stdout);
}

/* Returns a row as an object: a number "row" of a variable, of a table its "key", as text, since a
 * JSON reader may have no whole numbers of 64 bits; and the word: what it is called, if anything,
 * or its own, if there are any. */
static json_t *
row_object(const cadre_embedding_t *embedding, int64_t row, const char *called)
{
    const char *word = called ? called : cadre_embedding_word(embedding, row);
    if (!embedding->keys) {
        return json_pack("{s:I, s:s?}", "row", (json_int_t)row, "word", word);
    }
    char key[KEY_SIZE];
    snprintf(key, sizeof(key), "%" PRIu64, cadre_embedding_key(embedding, row));
    return json_pack("{s:s, s:s?}", "key", key, "word", word);
}

/* Prints the neighbours of a row as one line of JSON. */
static void
print_json(const cadre_embedding_t *embedding, int64_t row, const char *word,
           const cadre_neighbour_t *neighbours, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *other = row_object(embedding, neighbours[i].row, NULL);
        json_object_set_new(other, "cosine", json_real(neighbours[i].cosine));
        json_array_append_new(list, other);
    }
    json_t *object = json_pack("{s:s}", "schema", "cadre.neighbours/v1");
    json_auto_t *of = row_object(embedding, row, word);
    const bool whole = json_object_update(object, of) == 0 && json_array_size(list) == count;
    json_object_set_new(object, "neighbours", list);
    cadre_auto(cadre_free) char *text = whole ? json_dumps(object, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "null"); /* a word that is no UTF-8 */
    json_decref(object);
}

/* Returns the key that a column of a job makes of a word, of which blanks around it are no part. */
static uint64_t
key_of_word(const word_hash_t *self, const char *word)
{
    const uint64_t seed = (uint64_t)self->seed;
    word += strspn(word, BLANKS);
    size_t length = strlen(word);
    while (length > 0 && strchr(BLANKS, word[length - 1])) {
        length--;
    }
    return self->offset +
           (self->buckets > 0
                ? (uint64_t)cadre_column_ids_of_word(word, length, seed, self->buckets)
                : cadre_column_ids_key_of_word(word, length, seed));
}

/* Prints the neighbours of each word that was given. */
static int
find_neighbours(const flags_t *flags, const cadre_embedding_t *embedding)
{
    cadre_neighbour_t neighbours[CADRE_EMBEDDING_NEAREST_MAX];
    const size_t most = flags->most > 0 ? (size_t)flags->most : NEAREST;
    const cadre_embedding_keys_t *among = flags->among.count > 0 ? &flags->among : NULL;
    for (size_t i = 0; i < flags->of_count; i++) {
        int64_t row = 0;
        const char *word = flags->of[i];
        int status =
            flags->hash.given
                ? cadre_embedding_find_key(embedding, key_of_word(&flags->hash, word), word, &row)
                : cadre_embedding_find(embedding, word, &row);
        if (status < 0) {
            return status;
        }
        const size_t count = cadre_embedding_nearest(embedding, row, among, most, neighbours);
        if (count == 0 && among) {
            return cadre_fail(CADRE_ENOTFOUND,
                              "--rows: no other row than that of \"%.64s\" has one of these keys",
                              word);
        }
        (flags->json ? print_json : print_neighbours)(
            embedding, row, flags->hash.given ? word : NULL, neighbours, count);
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
    cadre_word_reader_t words;
    cadre_word_reader_begin_checked(&words);
    while ((status = cadre_word_reader_next(&words, file)) > 0) {
        if (*words.word) {
            cadre_vocabulary_count(vocabulary, words.word);
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
        {"rows", ROWS, "FIRST:COUNT", 0,
         "neighbours: only among so many rows from the number, or key, FIRST on, such as those of "
         "one field",
         0},
        {"hash", HASH, "N|keys", 0,
         "neighbours: the words are those of a column with \"hash\": N, or with \"key\": \"word\", "
         "and a row is found by their hash",
         0},
        {"hash-seed", HASH_SEED, "SEED", 0,
         "with --hash: the column's \"hash_seed\", 0; of criteo its number, from 0", 0},
        {"hash-offset", HASH_OFFSET, "KEY", 0,
         "with --hash: is added to the hash, the key at which the column's field begins, 0", 0},
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
    argv[0] = "cadre embedding";
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return cadre_verb_fail(CADRE_EINVALID);
    }

    flags_t flags = {.of = cadre_calloc((size_t)argc, sizeof(char *))};
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    int status = run(&flags);
    cadre_free(&flags.of);
    return status < 0 ? cadre_verb_fail(status) : CADRE_EXIT_OK;
}
