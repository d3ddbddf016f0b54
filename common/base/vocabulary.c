#include "common/base/vocabulary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/name_map.h"

typedef struct {
    uint64_t count;
    int64_t id;      /* -1: none */
    uint32_t number; /* in the order in which words are first there */
    char text[];
} word_t;

struct cadre_vocabulary {
    cadre_name_map_t by_text;
    word_t **words; /* [count] by number */
    size_t count;
    size_t capacity;
    word_t **ranked; /* [size] by id; the words behind these have none */
    size_t size;
    uint64_t size_bytes; /* of all words */
};

cadre_vocabulary_t *
cadre_vocabulary_new(void)
{
    return cadre_calloc(1, sizeof(cadre_vocabulary_t));
}

/* Frees the words; *self_p may be NULL. */
void
cadre_vocabulary_destroy(cadre_vocabulary_t **self_p)
{
    cadre_vocabulary_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_name_map_fini(&self->by_text);
    for (size_t i = 0; i < self->count; i++) {
        free(self->words[i]);
    }
    free(self->words);
    free(self->ranked);
    free(self);
}

/* Returns a character of a word, a small letter for a capital one; NUL for what is between words.
 */
static char
letter(char character)
{
    if (character >= 'A' && character <= 'Z') {
        return (char)(character - 'A' + 'a');
    }
    const bool belongs = (character >= 'a' && character <= 'z') ||
                         (character >= '0' && character <= '9') || character == '\'' ||
                         (unsigned char)character > 127;
    return belongs ? character : '\0';
}

/* Copies the next word of a text. */
size_t
cadre_vocabulary_next_word(const char **at, const char *end, char word[CADRE_WORD_SIZE])
{
    const char *from = *at;
    while (from < end && !letter(*from)) {
        from++;
    }

    size_t length = 0;
    for (; from < end && letter(*from); from++) {
        if (length < CADRE_WORD_SIZE - 1) {
            word[length++] = letter(*from);
        }
    }
    word[length] = '\0';
    *at = from;
    return length;
}

static word_t *
add_word(cadre_vocabulary_t *self, const char *text)
{
    const size_t size_bytes = sizeof(word_t) + strlen(text) + 1;
    cadre_assert(self->count < UINT32_MAX);
    word_t *word = cadre_calloc(1, size_bytes);
    word->id = -1;
    word->number = (uint32_t)self->count;
    memcpy(word->text, text, strlen(text));
    self->words = cadre_grow(self->words, self->count, &self->capacity, sizeof(word_t *));
    self->words[self->count++] = word;
    self->size_bytes += size_bytes;
    cadre_name_map_put(&self->by_text, word->text, word);
    return word;
}

uint32_t
cadre_vocabulary_count(cadre_vocabulary_t *self, const char *word)
{
    cadre_assert(!self->ranked);
    word_t *found = cadre_name_map_get(&self->by_text, word);
    found = found ? found : add_word(self, word);
    found->count++;
    return found->number;
}

uint64_t
cadre_vocabulary_size_bytes(const cadre_vocabulary_t *self)
{
    return self->size_bytes + self->capacity * sizeof(*self->words) +
           self->by_text.capacity * sizeof(*self->by_text.entries);
}

/* Orders words by falling frequency; of equal ones the smaller text is first. */
static int
compare(const void *left, const void *right)
{
    const word_t *a = *(word_t *const *)left;
    const word_t *b = *(word_t *const *)right;
    if (a->count != b->count) {
        return a->count > b->count ? -1 : 1;
    }
    return strcmp(a->text, b->text);
}

/* Gives ids to the most frequent words. */
void
cadre_vocabulary_rank(cadre_vocabulary_t *self, uint64_t least, size_t most)
{
    cadre_assert(!self->ranked);
    self->ranked = cadre_calloc(self->count + 1, sizeof(word_t *));
    for (size_t i = 0; i < self->count; i++) {
        self->ranked[i] = self->words[i];
    }
    qsort(self->ranked, self->count, sizeof(word_t *), compare);
    while (self->size < self->count && self->size < most &&
           self->ranked[self->size]->count >= least) {
        self->ranked[self->size]->id = (int64_t)self->size;
        self->size++;
    }
}

size_t
cadre_vocabulary_size(const cadre_vocabulary_t *self)
{
    return self->size;
}

int64_t
cadre_vocabulary_id(const cadre_vocabulary_t *self, uint32_t number)
{
    cadre_assert(number < self->count);
    return self->words[number]->id;
}

const char *
cadre_vocabulary_word(const cadre_vocabulary_t *self, size_t id)
{
    cadre_assert(id < self->size);
    return self->ranked[id]->text;
}

uint64_t
cadre_vocabulary_frequency(const cadre_vocabulary_t *self, size_t id)
{
    cadre_assert(id < self->size);
    return self->ranked[id]->count;
}
