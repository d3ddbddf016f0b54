#include "coordinator/cli/embedding.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/checkpoint/table_rows.h"

static void
contents_fini(cadre_checkpoint_content_t **contents)
{
    free(*contents);
}

static void
file_close(FILE **file)
{
    if (*file) {
        fclose(*file);
    }
}

/* Returns the values of the variable among the contents of a checkpoint; NULL when it has none. */
static const cadre_checkpoint_content_t *
find_values(const cadre_checkpoint_content_t *contents, size_t count, const char *variable)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(contents[i].variable, variable) == 0 &&
            strcmp(contents[i].kind, CADRE_CHECKPOINT_KIND_VALUE) == 0) {
            return &contents[i];
        }
    }
    return NULL;
}

/* Fails because the checkpoint has no variable of this name; the text has the names that it has, as
 * many as find room. */
static int
fail_unknown(const cadre_checkpoint_reader_t *reader, const char *variable)
{
    enum { NAMES_SIZE = 240 };
    const cadre_manifest_t *manifest = cadre_checkpoint_reader_manifest(reader);
    char names[NAMES_SIZE] = "none";
    size_t length = 0;
    size_t i = 0;
    for (; i < manifest->variable_count; i++) {
        const char *name = manifest->variables[i].name;
        if (length + strlen(name) + sizeof(", ") > sizeof(names)) {
            break;
        }
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
                                   length > 0 ? ", " : "", name);
    }
    return cadre_fail(CADRE_ENOTFOUND, "the checkpoint has no variable \"%.64s\"; it has %s%s",
                      variable, names, i < manifest->variable_count ? " and more" : "");
}

/* --- reading --- */

/* Rows of a table that are being collected. */
typedef struct {
    cadre_embedding_t *embedding;
    int64_t count;
} collected_t;

static int
collect(void *context, uint64_t key, const float *values)
{
    collected_t *self = context;
    cadre_embedding_t *embedding = self->embedding;
    if (self->count == embedding->rows) {
        return cadre_fail(CADRE_ECORRUPT, "more rows than are described");
    }
    memcpy((float *)embedding->values.data + self->count * embedding->width, values,
           (size_t)embedding->width * sizeof(*values));
    embedding->keys[self->count] = (cadre_embedding_key_t){key, self->count};
    self->count++;
    return 0;
}

static int
compare_keys(const void *left, const void *right)
{
    const uint64_t a = ((const cadre_embedding_key_t *)left)->key;
    const uint64_t b = ((const cadre_embedding_key_t *)right)->key;
    return (a > b) - (a < b);
}

/* Reads all rows of a table, in the order of their keys. */
static int
read_table(cadre_checkpoint_reader_t *reader, const char *variable, cadre_embedding_t *out)
{
    uint64_t rows = 0;
    uint32_t dim = 0;
    int status = cadre_table_rows_count(reader, variable, &rows, &dim);
    if (status < 0) {
        return status;
    }
    if (rows == 0) {
        return cadre_fail(CADRE_EINVALID, "the table %s has no row yet", variable);
    }

    cadre_auto(cadre_embedding_fini) cadre_embedding_t read = {.rows = (int64_t)rows, .width = dim};
    status = cadre_tensor_init(&read.values, CADRE_F32, (int64_t[]){read.rows, read.width}, 2);
    if (status < 0) {
        return status;
    }
    read.keys = cadre_calloc((size_t)read.rows, sizeof(*read.keys));
    collected_t collected = {.embedding = &read};
    status = cadre_table_rows_each(reader, variable, collect, &collected);
    if (status == 0 && collected.count < read.rows) {
        status = cadre_fail(CADRE_ECORRUPT, "fewer rows than are described");
    }
    if (status < 0) {
        return cadre_fail_within(status, "%s", variable);
    }

    qsort(read.keys, (size_t)read.rows, sizeof(*read.keys), compare_keys);
    *out = read;
    read = (cadre_embedding_t){0};
    return 0;
}

/* Reads the values of a dense variable of two axes. */
static int
read_variable(cadre_checkpoint_reader_t *reader, const char *variable, cadre_embedding_t *out)
{
    size_t count = 0;
    cadre_auto(contents_fini) cadre_checkpoint_content_t *contents = NULL;
    int status = cadre_checkpoint_reader_contents(reader, &contents, &count);
    if (status < 0) {
        return status;
    }
    const cadre_checkpoint_content_t *content = find_values(contents, count, variable);
    if (!content) {
        return fail_unknown(reader, variable);
    }
    if (content->dtype != CADRE_F32 || content->rank != 2 || content->shape[0] < 1) {
        return cadre_fail(CADRE_EINVALID, "%s is no f32 [rows, width], which vectors are",
                          variable);
    }

    cadre_embedding_t read = {.rows = content->shape[0], .width = content->shape[1]};
    status = cadre_tensor_init(&read.values, CADRE_F32, content->shape, content->rank);
    if (status < 0) {
        return status;
    }
    const cadre_checkpoint_range_t range = {.variable = content->variable,
                                            .kind = content->kind,
                                            .dtype = content->dtype,
                                            .count = content->count};
    status = cadre_checkpoint_reader_read(reader, &range, read.values.data, NULL);
    if (status < 0) {
        cadre_embedding_fini(&read);
        return status;
    }
    *out = read;
    return 0;
}

int
cadre_embedding_read(cadre_checkpoint_reader_t *reader, const char *variable,
                     cadre_embedding_t *out)
{
    const cadre_manifest_variable_t *stored =
        cadre_manifest_find(cadre_checkpoint_reader_manifest(reader), variable);
    return stored && stored->table ? read_table(reader, variable, out)
                                   : read_variable(reader, variable, out);
}

/* --- words --- */

/* Cuts the end of a line; fails when what is left is no word. */
static int
check_word(char *line, const char *path, int64_t number)
{
    line[strcspn(line, "\r\n")] = '\0';
    const size_t length = strlen(line);
    if (length == 0 || length > CADRE_EMBEDDING_WORD_SIZE_MAX || strpbrk(line, " \t")) {
        return cadre_fail(CADRE_EDATA,
                          "%s:%" PRId64 ": no word of 1 to %d bytes without a space in it", path,
                          number, (int)CADRE_EMBEDDING_WORD_SIZE_MAX);
    }
    return 0;
}

/* Adds the lines of a file to the words. */
static int
read_lines(FILE *file, const char *path, cadre_embedding_t *self)
{
    /* A byte more than a word with CR, LF and NUL: a line that fills it is longer than a word. */
    char line[CADRE_EMBEDDING_WORD_SIZE_MAX + 4];
    size_t capacity = 0;
    while (fgets(line, sizeof(line), file)) {
        int status = check_word(line, path, self->word_count + 1);
        if (status < 0) {
            return status;
        }
        if (!self->keys && self->word_count == self->rows) {
            return cadre_fail(CADRE_EDATA, "%s: more words than the %" PRId64 " rows", path,
                              self->rows);
        }
        if (self->word_count == CADRE_EMBEDDING_WORDS_MAX) {
            return cadre_fail(CADRE_EDATA, "%s: more than %d words", path,
                              (int)CADRE_EMBEDDING_WORDS_MAX);
        }
        self->words =
            cadre_grow(self->words, (size_t)self->word_count, &capacity, sizeof(*self->words));
        self->words[self->word_count++] = cadre_strdup(line);
    }
    return self->word_count > 0 ? 0 : cadre_fail(CADRE_EDATA, "%s: no words", path);
}

/* Leaves out the rows whose keys have no word. */
static int
drop_wordless(cadre_embedding_t *self, const char *path)
{
    if (!self->keys) {
        self->rows = self->word_count;
        return 0;
    }
    while (self->rows > 0 && self->keys[self->rows - 1].key >= (uint64_t)self->word_count) {
        self->rows--;
    }
    return self->rows > 0
               ? 0
               : cadre_fail(CADRE_EDATA,
                            "%s: no row of the table has a key below the %" PRId64 " words", path,
                            self->word_count);
}

/* Takes words from a file. */
int
cadre_embedding_read_words(cadre_embedding_t *self, const char *path)
{
    cadre_assert(!self->words);
    cadre_auto(file_close) FILE *file = fopen(path, "re");
    if (!file) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno));
    }
    int status = read_lines(file, path, self);
    return status < 0 ? status : drop_wordless(self, path);
}

uint64_t
cadre_embedding_key(const cadre_embedding_t *self, int64_t row)
{
    return self->keys ? self->keys[row].key : (uint64_t)row;
}

const char *
cadre_embedding_word(const cadre_embedding_t *self, int64_t row)
{
    return self->words ? self->words[cadre_embedding_key(self, row)] : NULL;
}

/* Returns the key whose word this is; false when there is none. */
static bool
find_key(const cadre_embedding_t *self, const char *word, uint64_t *key)
{
    for (int64_t i = 0; i < self->word_count; i++) {
        if (strcmp(self->words[i], word) == 0) {
            *key = (uint64_t)i;
            return true;
        }
    }
    const char *end = NULL;
    return !self->words && cadre_whole_number_scan_key(word, key, &end) && !*end;
}

/* Finds the row of a key; false when there is none. */
static bool
find_row(const cadre_embedding_t *self, uint64_t key, int64_t *row)
{
    if (!self->keys) {
        *row = (int64_t)key;
        return key < (uint64_t)self->rows;
    }
    const cadre_embedding_key_t wanted = {.key = key};
    const cadre_embedding_key_t *found =
        bsearch(&wanted, self->keys, (size_t)self->rows, sizeof(wanted), compare_keys);
    *row = found ? found - self->keys : 0;
    return found != NULL;
}

int
cadre_embedding_find_key(const cadre_embedding_t *self, uint64_t key, const char *word,
                         int64_t *row)
{
    int64_t found = 0;
    if (!find_row(self, key, &found)) {
        return self->keys ? cadre_fail(CADRE_ENOTFOUND,
                                       "\"%.64s\" has no row among the %" PRId64
                                       " of the table: nothing was trained on key %" PRIu64,
                                       word, self->rows, key)
                          : cadre_fail(CADRE_ENOTFOUND, "no row of %" PRId64 " is \"%.64s\"",
                                       self->rows, word);
    }
    *row = found;
    return 0;
}

/* Finds the row of a word: by its key where there are no words. */
int
cadre_embedding_find(const cadre_embedding_t *self, const char *word, int64_t *row)
{
    uint64_t key = 0;
    if (!find_key(self, word, &key)) {
        return cadre_fail(CADRE_ENOTFOUND, "no row of %" PRId64 " is \"%.64s\"", self->rows, word);
    }
    return cadre_embedding_find_key(self, key, word, row);
}

/* --- vectors --- */

static const float *
vector_at(const cadre_embedding_t *self, int64_t row)
{
    const int64_t place = self->keys ? self->keys[row].place : row;
    return (const float *)self->values.data + place * self->width;
}

static double
product(const cadre_embedding_t *self, const float *left, const float *right)
{
    double sum = 0;
    for (int64_t i = 0; i < self->width; i++) {
        sum += (double)left[i] * (double)right[i];
    }
    return sum;
}

static double
cosine(const cadre_embedding_t *self, int64_t row, int64_t other)
{
    const float *left = vector_at(self, row);
    const float *right = vector_at(self, other);
    const double squares = product(self, left, left) * product(self, right, right);
    return squares > 0 ? product(self, left, right) / sqrt(squares) : 0;
}

/* Returns whether the row is another one, with one of the keys. */
static bool
is_candidate(const cadre_embedding_t *self, int64_t row, const cadre_embedding_keys_t *among,
             int64_t other)
{
    return other != row &&
           (!among || cadre_embedding_key(self, other) - among->first < among->count);
}

/* Finds the other rows with the largest cosine: keeps the best so far in order. */
size_t
cadre_embedding_nearest(const cadre_embedding_t *self, int64_t row,
                        const cadre_embedding_keys_t *among, size_t most, cadre_neighbour_t *out)
{
    size_t count = 0;
    for (int64_t i = 0; i < self->rows; i++) {
        if (!is_candidate(self, row, among, i)) {
            continue;
        }
        const cadre_neighbour_t found = {i, cosine(self, row, i)};
        if (count == most && !(found.cosine > out[count - 1].cosine)) {
            continue;
        }
        size_t at = count < most ? count++ : count - 1;
        for (; at > 0 && found.cosine > out[at - 1].cosine; at--) {
            out[at] = out[at - 1];
        }
        out[at] = found;
    }
    return count;
}

void
cadre_embedding_print_word(const cadre_embedding_t *self, int64_t row, FILE *file)
{
    if (self->words) {
        fputs(cadre_embedding_word(self, row), file);
    } else {
        fprintf(file, "%" PRIu64, cadre_embedding_key(self, row));
    }
}

/* Writes all vectors as word2vec's text. */
void
cadre_embedding_print(const cadre_embedding_t *self, FILE *file)
{
    fprintf(file, "%" PRId64 " %" PRId64 "\n", self->rows, self->width);
    for (int64_t row = 0; row < self->rows; row++) {
        cadre_embedding_print_word(self, row, file);
        for (int64_t i = 0; i < self->width; i++) {
            fprintf(file, " %.9g", (double)vector_at(self, row)[i]);
        }
        fputc('\n', file);
    }
}

void
cadre_embedding_fini(cadre_embedding_t *self)
{
    for (int64_t i = 0; i < self->word_count; i++) {
        free(self->words[i]);
    }
    free(self->words);
    free(self->keys);
    cadre_tensor_fini(&self->values);
    *self = (cadre_embedding_t){0};
}
