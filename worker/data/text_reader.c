/*
 * Texts: rows of skip_gram.h. A line without words, and the end of a file, end a passage: no row
 * has words of two. Ids depend on how often words are in all files, so the last line is read before
 * the first row is made.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/vocabulary.h"
#include "worker/data/reader.h"
#include "worker/data/skip_gram.h"

enum { FEATURES = 2 }; /* ids of center and context */

struct cadre_text {
    cadre_vocabulary_t *vocabulary;
    uint32_t *words; /* [count] numbers of the vocabulary, and breaks */
    size_t count;
    size_t capacity;
};

static void
add_word(cadre_text_t *self, uint32_t word)
{
    self->words = cadre_grow(self->words, self->count, &self->capacity, sizeof(*self->words));
    self->words[self->count++] = word;
}

/* Adds a break, unless no word has come since the last. */
static void
add_break(cadre_text_t *self)
{
    if (self->count > 0 && self->words[self->count - 1] != CADRE_SKIP_GRAM_BREAK) {
        add_word(self, CADRE_SKIP_GRAM_BREAK);
    }
}

/* Adds the words of a line; one without any ends a passage. */
static int
add_line(cadre_reader_t *reader, const char *line, size_t length)
{
    cadre_text_t *self = reader->text;
    char word[CADRE_WORD_SIZE];
    const char *end = line + length;
    const size_t before = self->count;
    while (cadre_vocabulary_next_word(&line, end, word) > 0) {
        add_word(self, cadre_vocabulary_count(self->vocabulary, word));
    }
    if (self->count == before) {
        add_break(self);
    }
    if (cadre_vocabulary_size_bytes(self->vocabulary) + self->capacity * sizeof(*self->words) >
        reader->size_bytes_max) {
        return cadre_fail(CADRE_ETOOLARGE, "%s: the words take more than %" PRIu64 " bytes",
                          cadre_reader_path(reader), reader->size_bytes_max);
    }
    return 0;
}

/* Ends a file; makes the rows behind the last one. */
static int
end_file(cadre_reader_t *reader)
{
    cadre_text_t *self = reader->text;
    const cadre_data_spec_t *spec = reader->spec;
    add_break(self);
    if (reader->next_file < reader->files.count) {
        return 0;
    }
    cadre_vocabulary_rank(self->vocabulary, (uint64_t)spec->min_count, (size_t)spec->vocabulary);
    int status =
        cadre_skip_gram_add(spec, self->vocabulary, self->words, self->count, reader->store);
    return status < 0 ? cadre_reader_fail_whole(reader, status) : 0;
}

int
cadre_text_begin(cadre_reader_t *self)
{
    if (!self->text) {
        self->text = cadre_calloc(1, sizeof(*self->text));
        self->text->vocabulary = cadre_vocabulary_new();
        self->features = FEATURES;
        cadre_reader_make_store(self, CADRE_ROWS_F32, FEATURES);
    }
    return 0;
}

/* Reads the next line of a text. */
int
cadre_text_next(cadre_reader_t *self)
{
    const char *line = NULL;
    size_t length = 0;
    int more = cadre_data_file_line(self->file, &line, &length);
    if (more < 0) {
        return more;
    }
    if (more == 0) {
        return end_file(self);
    }
    int status = add_line(self, line, length);
    return status < 0 ? status : 1;
}

void
cadre_text_end(cadre_reader_t *self)
{
    if (self->text) {
        cadre_vocabulary_destroy(&self->text->vocabulary);
        free(self->text->words);
        cadre_free(&self->text);
    }
}
