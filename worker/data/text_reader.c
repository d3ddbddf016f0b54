/*
 * Texts: rows of skip-gram with negative sampling. A word of the text and one that is near it are a
 * row with label 1, ids [center, context]; behind it come `negatives` rows with label 0, whose
 * context is drawn; one that is the context itself is left out.
 *
 * A line without words, and the end of a file, end a passage: no row has words of two. Ids depend
 * on how often words are in all files, so these are read twice: first the words are counted, then
 * rows are made while they are read. Held are the words of the window around the center alone.
 *
 * What is drawn follows from the position of a word in the text, counted over all files. So a place
 * is where the first word of the window is, with its position, and which row of which center is
 * next: from there on the window is read again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/vocabulary.h"
#include "worker/data/reader.h"
#include "worker/data/skip_gram.h"
#include "worker/data/word_reader.h"

enum { FEATURES = 2 }; /* ids of center and context */

/* A word of the text that stays. */
typedef struct {
    uint64_t position; /* in the text */
    uint64_t offset;   /* in the content of its file */
    uint32_t id;
} word_t;

struct cadre_text {
    cadre_vocabulary_t *vocabulary;
    cadre_skip_gram_t *draws;
    cadre_word_reader_t words;
    uint64_t position; /* of the word that is read next */
    /* The window: words of one passage, [first, first + count) of [capacity], the center and up to
     * `window` before it, and behind it those that were read. */
    word_t *window;
    size_t capacity;
    size_t first;
    size_t count;
    size_t center; /* counted from `first`; `count`: it is not read yet */
    bool has_center;
    bool is_passage_read; /* the last word of the passage is in the window */
    bool is_file_read;
    /* Rows of the center; some of them may be left out. */
    uint32_t before; /* words before it that are near */
    uint32_t rows;
    uint32_t row; /* the next one */
    /* Where rows begin after cadre_text_go_to: words in front are no centers. */
    uint64_t begin;
    uint32_t begin_row; /* of the center at `begin` */
};

/* --- counting --- */

static void
close_file(cadre_data_file_t **file)
{
    cadre_data_file_close(file);
}

/* Fails when the words that were counted take too much memory. */
static int
check_size(const cadre_reader_t *reader, const char *path)
{
    const cadre_data_spec_t *spec = reader->spec;
    if (cadre_vocabulary_size_bytes(reader->text->vocabulary) <= reader->size_bytes_max) {
        return 0;
    }
    const double mib = (double)reader->size_bytes_max / (1 << 20);
    const bool is_chosen = spec->is_streamed && mib >= (double)spec->memory_mib;
    return cadre_fail(CADRE_ETOOLARGE,
                      "%s: the different words take more than the %.1f MiB of %s while they are "
                      "counted: more of it, or a text without words that are there once",
                      path, mib, is_chosen ? "memory_mib" : "the worker's share of memory");
}

/* Counts the words of a file. */
static int
count_file(cadre_reader_t *reader, const char *path)
{
    cadre_text_t *self = reader->text;
    cadre_auto(close_file) cadre_data_file_t *file = NULL;
    int status = cadre_data_file_open(path, reader->root, reader->content_bytes_max, &file);
    if (status < 0) {
        return status;
    }
    int more = 0;
    cadre_word_reader_begin_checked(&self->words);
    while (status == 0 && (more = cadre_word_reader_next(&self->words, file)) > 0) {
        if (*self->words.word) {
            cadre_vocabulary_count(self->vocabulary, self->words.word);
            status = check_size(reader, path);
        }
    }
    return status < 0 ? status : more;
}

/* Counts the words of all files, and ranks them. They stay, so rows get what is left of the memory.
 */
static int
count_all(cadre_reader_t *reader)
{
    cadre_text_t *self = reader->text;
    const cadre_data_spec_t *spec = reader->spec;
    for (size_t i = 0; i < reader->files.count; i++) {
        int status = count_file(reader, reader->files.items[i]);
        if (status < 0) {
            return status;
        }
    }

    cadre_vocabulary_rank(self->vocabulary, (uint64_t)spec->min_count, (size_t)spec->vocabulary);
    int status = cadre_skip_gram_new(spec, self->vocabulary, &self->draws);
    if (status < 0) {
        return cadre_reader_fail_whole(reader, status);
    }
    const uint64_t size_bytes =
        cadre_vocabulary_size_bytes(self->vocabulary) + cadre_skip_gram_size_bytes(self->draws);
    reader->size_bytes_max -= cadre_min_u64(size_bytes, reader->size_bytes_max);
    return 0;
}

/* --- the window --- */

static void
clear_window(cadre_text_t *self)
{
    self->first = 0;
    self->count = 0;
    self->center = 0;
    self->has_center = false;
    self->is_passage_read = false;
    self->row = 0;
    self->rows = 0;
}

/* Adds a word behind the others; moves these to the front where there is no room. */
static void
add_word(cadre_text_t *self, uint32_t id)
{
    if (self->first + self->count == self->capacity) {
        memmove(self->window, self->window + self->first, self->count * sizeof(word_t));
        self->first = 0;
    }
    self->window[self->first + self->count++] =
        (word_t){.position = self->position, .offset = self->words.offset, .id = id};
}

static const word_t *
word_at(const cadre_text_t *self, size_t index)
{
    return &self->window[self->first + index];
}

/* Reads on until `wanted` words are in the window, or all of the passage that are left. */
static int
read_words(cadre_reader_t *reader, size_t wanted)
{
    cadre_text_t *self = reader->text;
    while (self->count < wanted && !self->is_passage_read) {
        int more = cadre_word_reader_next(&self->words, reader->file);
        if (more < 0) {
            return more;
        }
        if (more == 0 || !*self->words.word) {
            self->is_file_read = more == 0;
            self->is_passage_read = more == 0 || self->count > 0;
            continue;
        }
        const int64_t id = cadre_vocabulary_find(self->vocabulary, self->words.word);
        if (id >= 0 && cadre_skip_gram_stays(self->draws, self->position, (uint32_t)id)) {
            add_word(self, (uint32_t)id);
        }
        self->position++;
    }
    return 0;
}

/* Goes to the next word that stays and is not in front of where rows begin. Returns 1; 0 at the end
 * of the file. */
static int
find_center(cadre_reader_t *reader)
{
    cadre_text_t *self = reader->text;
    self->center += self->has_center ? 1 : 0;
    for (;;) {
        if (self->center > (size_t)reader->spec->window) {
            self->center--;
            self->first++;
            self->count--;
        }
        int status = read_words(reader, self->center + 1);
        if (status < 0) {
            return status;
        }
        if (self->center < self->count) {
            if (word_at(self, self->center)->position >= self->begin) {
                return 1;
            }
            self->center++;
        } else if (self->is_file_read) {
            return 0;
        } else {
            clear_window(self);
        }
    }
}

/* Goes to the next center, and reads what is near it. Returns 1; 0 at the end of the file. */
static int
next_center(cadre_reader_t *reader)
{
    cadre_text_t *self = reader->text;
    int more = find_center(reader);
    if (more <= 0) {
        return more;
    }
    const uint64_t position = word_at(self, self->center)->position;
    const uint32_t reach = cadre_skip_gram_reach(self->draws, position);
    int status = read_words(reader, self->center + 1 + reach);
    if (status < 0) {
        return status;
    }

    const size_t behind = cadre_min_u64(reach, self->count - self->center - 1);
    self->has_center = true;
    self->before = (uint32_t)cadre_min_u64(reach, self->center);
    self->rows = (self->before + (uint32_t)behind) * (1 + (uint32_t)reader->spec->negatives);
    self->row = position == self->begin ? self->begin_row : 0;
    return 1;
}

/* --- rows --- */

/* Adds the center's next row. Returns 1, 0 where it is left out. */
static int
add_row(cadre_reader_t *reader)
{
    cadre_text_t *self = reader->text;
    const uint32_t each = 1 + (uint32_t)reader->spec->negatives;
    const uint32_t row = self->row++;
    const uint32_t pair = row / each;
    const word_t *center = word_at(self, self->center);
    const word_t *near = pair < self->before ? center - 1 - pair : center + 1 + pair - self->before;
    const bool is_drawn = row % each > 0;
    const uint32_t context =
        is_drawn ? cadre_skip_gram_negative(self->draws, center->position, row) : near->id;
    if (is_drawn && context == near->id) {
        return 0;
    }

    const float x[] = {(float)center->id, (float)context}; /* exact: below CADRE_DATA_WORDS_MAX */
    int status = cadre_row_store_add(reader->store, x, (cadre_label_t){.value = !is_drawn});
    return status < 0 ? cadre_reader_fail_whole(reader, status) : 1;
}

/* Ends a file. Fails at the end of the last one when the files had other words while these were
 * counted. */
static int
end_file(const cadre_reader_t *reader)
{
    const cadre_text_t *self = reader->text;
    if (reader->is_indexed || reader->next_file < reader->files.count ||
        self->position == cadre_vocabulary_total(self->vocabulary)) {
        return 0;
    }
    return cadre_reader_fail_whole(
        reader, cadre_fail(CADRE_EDATA,
                           "%" PRIu64 " words, and %" PRIu64
                           " when they were counted: it has changed meanwhile",
                           self->position, cadre_vocabulary_total(self->vocabulary)));
}

/* Reads from where the file is on. */
static void
begin_reading(cadre_text_t *self)
{
    clear_window(self);
    cadre_word_reader_begin(&self->words);
    self->is_file_read = false;
}

int
cadre_text_begin(cadre_reader_t *self)
{
    if (!self->text) {
        self->text = cadre_calloc(1, sizeof(*self->text));
        self->text->vocabulary = cadre_vocabulary_new();
        self->text->capacity = 4 * (size_t)self->spec->window + 2; /* twice the largest window */
        self->text->window = cadre_calloc(self->text->capacity, sizeof(word_t));
        self->features = FEATURES;
        int status = count_all(self);
        if (status < 0) {
            return status;
        }
        cadre_reader_make_store(self, CADRE_ROWS_F32, FEATURES);
    }
    begin_reading(self->text);
    return 0;
}

/* Reads on by one row. Returns 1, 0 at the end of the file. */
static int
next_row(cadre_reader_t *reader)
{
    cadre_text_t *self = reader->text;
    for (;;) {
        while (self->row < self->rows) {
            int added = add_row(reader);
            if (added != 0) {
                return added;
            }
        }
        int more = next_center(reader);
        if (more <= 0) {
            return more < 0 ? more : end_file(reader);
        }
    }
}

/* Reads on by one row of a text. */
int
cadre_text_next(cadre_reader_t *self)
{
    int more = next_row(self);
    if (more <= 0) {
        clear_window(self->text);
    }
    if (more < 0) {
        self->text->begin = UINT64_MAX; /* no place is like this one */
    }
    return more;
}

void
cadre_text_end(cadre_reader_t *self)
{
    if (self->text) {
        cadre_vocabulary_destroy(&self->text->vocabulary);
        cadre_skip_gram_destroy(&self->text->draws);
        free(self->text->window);
        cadre_free(&self->text);
    }
}

/* --- places --- */

void
cadre_text_tell(const cadre_reader_t *self, cadre_reader_place_t *place)
{
    const cadre_text_t *text = self->text;
    if (text->has_center) {
        place->offset = word_at(text, 0)->offset;
        place->number = word_at(text, 0)->position;
        place->center = word_at(text, text->center)->position;
        place->row = text->row;
        return;
    }
    place->number = text->position;
    place->center = cadre_max_u64(text->position, text->begin);
    place->row = place->center == text->begin ? text->begin_row : 0;
}

void
cadre_text_go_to(cadre_reader_t *self, const cadre_reader_place_t *place)
{
    cadre_text_t *text = self->text;
    begin_reading(text);
    text->position = place->number;
    text->begin = place->center;
    text->begin_row = place->row;
}
