#include "common/base/vocabulary.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/name_map.h"

/* Words lie in chunks: malloc would add to each of many million some half of its own size, and keep
 * the memory of those that are forgotten. */
enum { CHUNK_SIZE = 256 << 10 };

typedef struct {
    uint64_t count;
    int64_t id; /* -1: none */
    char text[];
} word_t;

typedef struct chunk chunk_t;

struct chunk {
    chunk_t *next;
    size_t used; /* of `bytes` */
    alignas(word_t) char bytes[CHUNK_SIZE];
};

struct cadre_vocabulary {
    cadre_name_map_t by_text; /* once they are ranked, of those with an id */
    chunk_t *chunks;          /* the one that is being filled first */
    word_t **ranked;          /* [size] by id; NULL: not ranked yet */
    size_t size;
    uint64_t total;
    uint64_t size_bytes; /* of all words */
};

cadre_vocabulary_t *
cadre_vocabulary_new(void)
{
    return cadre_calloc(1, sizeof(cadre_vocabulary_t));
}

static void
free_chunks(chunk_t *chunks)
{
    while (chunks) {
        chunk_t *next = chunks->next;
        free(chunks);
        chunks = next;
    }
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
    free_chunks(self->chunks);
    free(self->ranked);
    free(self);
}

/* Adds a word that is not there yet. */
static word_t *
add_word(cadre_vocabulary_t *self, const char *text)
{
    const size_t size = sizeof(word_t) + strlen(text) + 1;
    const size_t size_bytes = (size + alignof(word_t) - 1) / alignof(word_t) * alignof(word_t);
    cadre_assert(size_bytes <= CHUNK_SIZE);
    if (!self->chunks || self->chunks->used + size_bytes > CHUNK_SIZE) {
        chunk_t *chunk = cadre_calloc(1, sizeof(*chunk));
        chunk->next = self->chunks;
        self->chunks = chunk;
    }

    word_t *word = (void *)(self->chunks->bytes + self->chunks->used);
    self->chunks->used += size_bytes;
    self->size_bytes += size_bytes;
    word->id = -1;
    memcpy(word->text, text, strlen(text));
    cadre_name_map_put(&self->by_text, word->text, word);
    return word;
}

void
cadre_vocabulary_count(cadre_vocabulary_t *self, const char *word)
{
    cadre_assert(!self->ranked);
    word_t *found = cadre_name_map_get(&self->by_text, word);
    found = found ? found : add_word(self, word);
    found->count++;
    self->total++;
}

uint64_t
cadre_vocabulary_total(const cadre_vocabulary_t *self)
{
    return self->total;
}

uint64_t
cadre_vocabulary_size_bytes(const cadre_vocabulary_t *self)
{
    return self->size_bytes + self->size * sizeof(*self->ranked) +
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

/* Returns all words in the order of their ranks; the caller frees the array. */
static word_t **
sort_words(const cadre_vocabulary_t *self)
{
    word_t **sorted = cadre_calloc(self->by_text.count + 1, sizeof(word_t *));
    size_t count = 0;
    for (size_t i = 0; i < self->by_text.capacity; i++) {
        if (self->by_text.entries[i].value) {
            sorted[count++] = self->by_text.entries[i].value;
        }
    }
    qsort(sorted, count, sizeof(word_t *), compare);
    return sorted;
}

/* Gives ids to the most frequent words, and keeps these alone. */
void
cadre_vocabulary_rank(cadre_vocabulary_t *self, uint64_t least, size_t most)
{
    cadre_assert(!self->ranked);
    const size_t count = self->by_text.count;
    cadre_auto(cadre_free) word_t **sorted = sort_words(self);
    chunk_t *counted = self->chunks;
    cadre_name_map_fini(&self->by_text);
    self->chunks = NULL;
    self->size_bytes = 0;
    while (self->size < count && self->size < most && sorted[self->size]->count >= least) {
        self->size++;
    }

    self->ranked = cadre_calloc(self->size + 1, sizeof(word_t *));
    for (size_t i = 0; i < self->size; i++) {
        self->ranked[i] = add_word(self, sorted[i]->text);
        self->ranked[i]->count = sorted[i]->count;
        self->ranked[i]->id = (int64_t)i;
    }
    free_chunks(counted);
}

size_t
cadre_vocabulary_size(const cadre_vocabulary_t *self)
{
    return self->size;
}

int64_t
cadre_vocabulary_find(const cadre_vocabulary_t *self, const char *word)
{
    const word_t *found = cadre_name_map_get(&self->by_text, word);
    return found ? found->id : -1;
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
