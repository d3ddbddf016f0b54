#include "coordinator/cli/embedding.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum { NUMBER_SIZE = 24 }; /* of an int64 as text */

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

/* Reads the values of a variable of two axes. */
int
cadre_embedding_read(cadre_checkpoint_reader_t *reader, const char *variable,
                     cadre_embedding_t *out)
{
    size_t count = 0;
    cadre_auto(contents_fini) cadre_checkpoint_content_t *contents = NULL;
    int status = cadre_checkpoint_reader_contents(reader, &contents, &count);
    if (status < 0) {
        return status;
    }
    const cadre_checkpoint_content_t *content = find_values(contents, count, variable);
    if (!content) {
        return cadre_fail(CADRE_ENOTFOUND, "the checkpoint has no variable \"%s\"", variable);
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

/* Reads the lines of a file into words [rows]; `*count` says how many there are. */
static int
read_lines(FILE *file, const char *path, char **words, int64_t rows, int64_t *count)
{
    /* A byte more than a word with CR, LF and NUL: a line that fills it is longer than a word. */
    char line[CADRE_EMBEDDING_WORD_SIZE_MAX + 4];
    for (*count = 0; fgets(line, sizeof(line), file); (*count)++) {
        int status = check_word(line, path, *count + 1);
        if (status < 0) {
            return status;
        }
        if (*count == rows) {
            return cadre_fail(CADRE_EDATA, "%s: more words than the %" PRId64 " rows", path, rows);
        }
        words[*count] = cadre_strdup(line);
    }
    return *count > 0 ? 0 : cadre_fail(CADRE_EDATA, "%s: no words", path);
}

/* Takes the word of each row from a file. */
int
cadre_embedding_read_words(cadre_embedding_t *self, const char *path)
{
    cadre_assert(!self->words);
    cadre_auto(file_close) FILE *file = fopen(path, "re");
    if (!file) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno));
    }
    self->words = cadre_calloc((size_t)self->rows, sizeof(*self->words));
    int64_t count = 0;
    int status = read_lines(file, path, self->words, self->rows, &count);
    self->rows = status < 0 ? self->rows : count;
    return status;
}

/* Finds the row of a word: by its number where rows have no words. */
int
cadre_embedding_find(const cadre_embedding_t *self, const char *word, int64_t *row)
{
    for (int64_t i = 0; i < self->rows; i++) {
        char number[NUMBER_SIZE];
        snprintf(number, sizeof(number), "%" PRId64, i);
        if (strcmp(self->words ? self->words[i] : number, word) == 0) {
            *row = i;
            return 0;
        }
    }
    return cadre_fail(CADRE_ENOTFOUND, "no row of %" PRId64 " is \"%.64s\"", self->rows, word);
}

static const float *
vector_at(const cadre_embedding_t *self, int64_t row)
{
    return (const float *)self->values.data + row * self->width;
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

/* Finds the other rows with the largest cosine: keeps the best so far in order. */
size_t
cadre_embedding_nearest(const cadre_embedding_t *self, int64_t row, size_t most,
                        cadre_neighbour_t *out)
{
    size_t count = 0;
    for (int64_t i = 0; i < self->rows; i++) {
        const cadre_neighbour_t found = {i, i == row ? 0 : cosine(self, row, i)};
        if (i == row || (count == most && !(found.cosine > out[count - 1].cosine))) {
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
        fputs(self->words[row], file);
    } else {
        fprintf(file, "%" PRId64, row);
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
    for (int64_t i = 0; self->words && i < self->rows; i++) {
        free(self->words[i]);
    }
    free(self->words);
    cadre_tensor_fini(&self->values);
    *self = (cadre_embedding_t){0};
}
