#include "worker/data/skip_gram.h"

#include <inttypes.h>
#include <math.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

/* Of Mikolov and others 2013, section 2.2: the best of those that they have tried. */
#define NEGATIVE_POWER 0.75

/* What random numbers are for, as their stream. */
enum { THINNING = 1, WINDOWS, NEGATIVES };

typedef struct {
    const cadre_data_spec_t *spec;
    cadre_row_store_t *store;
    double *ends; /* [size] where each word ends when 0 to 1 is shared out by frequency^0.75 */
    size_t size;
    cadre_random_t windows;
    cadre_random_t negatives;
} skip_gram_t;

/* Draws a number in [0, 1), of 53 random bits. */
static double
draw(cadre_random_t *random)
{
    return (double)(cadre_random_next_u64(random) >> 11) * 0x1p-53;
}

/* Leaves out words without an id and, at random, some of those that are frequent; writes the ids of
 * the others. Returns how many are left, breaks included. */
static size_t
thin_out(const cadre_data_spec_t *spec, const cadre_vocabulary_t *vocabulary, uint32_t *words,
         size_t count)
{
    double total = 0;
    for (size_t i = 0; i < cadre_vocabulary_size(vocabulary); i++) {
        total += (double)cadre_vocabulary_frequency(vocabulary, i);
    }

    cadre_random_t random;
    cadre_random_init(&random, (uint64_t)spec->sample_seed, THINNING);
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (words[i] == CADRE_SKIP_GRAM_BREAK) {
            words[left++] = CADRE_SKIP_GRAM_BREAK;
            continue;
        }
        const int64_t id = cadre_vocabulary_id(vocabulary, words[i]);
        if (id < 0) {
            continue;
        }
        const double share = (double)cadre_vocabulary_frequency(vocabulary, (size_t)id) / total;
        const double ratio = spec->subsample / share;
        if (spec->subsample == 0 || draw(&random) < sqrt(ratio) + ratio) {
            words[left++] = (uint32_t)id;
        }
    }
    return left;
}

/* Shares out 0 to 1 among the words. */
static void
share_out(skip_gram_t *self, const cadre_vocabulary_t *vocabulary)
{
    self->ends = cadre_calloc(self->size, sizeof(*self->ends));
    double end = 0;
    for (size_t i = 0; i < self->size; i++) {
        end += pow((double)cadre_vocabulary_frequency(vocabulary, i), NEGATIVE_POWER);
        self->ends[i] = end;
    }
    for (size_t i = 0; i < self->size; i++) {
        self->ends[i] /= end;
    }
}

/* Draws a word by its share: the first whose end is above a random number, by bisection. */
static uint32_t
draw_word(skip_gram_t *self)
{
    const double number = draw(&self->negatives);
    size_t low = 0;
    size_t high = self->size - 1; /* ends at 1, above every number */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (self->ends[middle] > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return (uint32_t)low;
}

static int
add_row(skip_gram_t *self, uint32_t center, uint32_t context, float label)
{
    const float x[] = {(float)center, (float)context}; /* exact: below CADRE_DATA_WORDS_MAX */
    return cadre_row_store_add(self->store, x, (cadre_label_t){.value = label});
}

/* Adds the row of two words of the text, and the rows with words that are drawn. */
static int
add_pair(skip_gram_t *self, uint32_t center, uint32_t context)
{
    int status = add_row(self, center, context, 1);
    for (int64_t i = 0; status == 0 && i < self->spec->negatives; i++) {
        const uint32_t drawn = draw_word(self);
        status = drawn == context ? 0 : add_row(self, center, drawn, 0);
    }
    return status;
}

/* Returns the place of the next word before (direction -1) or behind (1) the one at `at`; `count`
 * at an end of the text and at a break. */
static size_t
step(const uint32_t *words, size_t count, size_t at, int direction)
{
    if (direction < 0 ? at == 0 : at + 1 == count) {
        return count;
    }
    const size_t next = direction < 0 ? at - 1 : at + 1;
    return words[next] == CADRE_SKIP_GRAM_BREAK ? count : next;
}

/* Adds the rows of the word at `center` with those up to `reach` before it, and then behind it. */
static int
add_center(skip_gram_t *self, const uint32_t *words, size_t count, size_t center)
{
    const uint64_t reach = 1 + cadre_random_below(&self->windows, (uint64_t)self->spec->window);
    for (int direction = -1; direction <= 1; direction += 2) {
        size_t at = step(words, count, center, direction);
        for (uint64_t i = 0; i < reach && at < count; i++) {
            int status = add_pair(self, words[center], words[at]);
            if (status < 0) {
                return status;
            }
            at = step(words, count, at, direction);
        }
    }
    return 0;
}

/* Adds the rows of every word of a text that stays. */
int
cadre_skip_gram_add(const cadre_data_spec_t *spec, const cadre_vocabulary_t *vocabulary,
                    uint32_t *words, size_t count, cadre_row_store_t *store)
{
    skip_gram_t self = {.spec = spec, .store = store, .size = cadre_vocabulary_size(vocabulary)};
    if (self.size < 2) {
        return cadre_fail(CADRE_EDATA, "%zu words are there %" PRId64 " times or more, too few",
                          self.size, spec->min_count);
    }

    cadre_random_init(&self.windows, (uint64_t)spec->sample_seed, WINDOWS);
    cadre_random_init(&self.negatives, (uint64_t)spec->sample_seed, NEGATIVES);
    share_out(&self, vocabulary);
    count = thin_out(spec, vocabulary, words, count);
    int status = 0;
    for (size_t i = 0; status == 0 && i < count; i++) {
        status = words[i] == CADRE_SKIP_GRAM_BREAK ? 0 : add_center(&self, words, count, i);
    }
    cadre_free(&self.ends);
    return status;
}
