/*
 * vocabulary - the words of a text, each with an id by how often it is there.
 *
 * First all words are counted, then ranked: the most frequent word has id 0, and of words that are
 * there equally often the one whose bytes come first has the lower id.
 *
 * A word is a run of letters, digits and apostrophes, and of bytes above 127, which UTF-8 has for
 * all other letters; A to Z become a to z. Everything else is between words.
 *
 * Memory is that of the different words, not of the text; ranking gives back that of those without
 * an id.
 *
 * Owner:   whoever reads the text.
 * Thread:  one at a time.
 */
#ifndef CADRE_COMMON_BASE_VOCABULARY_H
#define CADRE_COMMON_BASE_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CADRE_WORD_SIZE = 101 }; /* bytes of a word and its NUL; of a longer one the rest is cut */

typedef struct cadre_vocabulary cadre_vocabulary_t;

/* Returns a character of a word, a small letter for a capital one; NUL for what is between words.
 */
static inline char
cadre_vocabulary_letter(char character)
{
    if (character >= 'A' && character <= 'Z') {
        return (char)(character - 'A' + 'a');
    }
    const bool belongs = (character >= 'a' && character <= 'z') ||
                         (character >= '0' && character <= '9') || character == '\'' ||
                         (unsigned char)character > 127;
    return belongs ? character : '\0';
}

cadre_vocabulary_t *cadre_vocabulary_new(void);

/* Frees and nulls the pointer; NULL inside is fine. */
void cadre_vocabulary_destroy(cadre_vocabulary_t **self_p);

/* Counts a word, which is there once more. */
void cadre_vocabulary_count(cadre_vocabulary_t *self, const char *word);

/* Returns how many words were counted, each as often as it was. */
uint64_t cadre_vocabulary_total(const cadre_vocabulary_t *self);

/* Returns the memory that words and counts take, in bytes. */
uint64_t cadre_vocabulary_size_bytes(const cadre_vocabulary_t *self);

/* Gives ids to the `most` words that are there most often, but to none that is there fewer than
 * `least` times, and forgets the others. Called once, when all words are counted. */
void cadre_vocabulary_rank(cadre_vocabulary_t *self, uint64_t least, size_t most);

/* Returns how many words have an id; 0 before they are ranked. */
size_t cadre_vocabulary_size(const cadre_vocabulary_t *self);

/* Returns the id of a word; -1 when it has none. */
int64_t cadre_vocabulary_find(const cadre_vocabulary_t *self, const char *word);

/* Return the word with an id, and how often it was counted. */
const char *cadre_vocabulary_word(const cadre_vocabulary_t *self, size_t id);
uint64_t cadre_vocabulary_frequency(const cadre_vocabulary_t *self, size_t id);

#endif
