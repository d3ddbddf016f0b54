#include "worker/data/skip_gram.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

/* Of Mikolov and others 2013, section 2.2: the best of those that they have tried. */
#define NEGATIVE_POWER 0.75

/* What random numbers are for: the lower bits of their stream, whose blocks are the positions. The
 * upper bits tell the blocks of a position apart. */
enum { THINNING = 1, WINDOWS, NEGATIVES, PURPOSE_BITS = 2 };

struct cadre_skip_gram {
    uint64_t seed;
    uint64_t window;
    size_t size;
    double *stays;    /* [size] with which probability each word stays; from 1 on: with certainty */
    double *ends;     /* [size] where each word ends when 0 to 1 is shared out by frequency^0.75 */
    uint32_t *firsts; /* [size] the first word that ends behind i / size: draws begin there */
    /* The block of random bits that was made last, which has two numbers. */
    uint32_t block[4];
    uint64_t block_position;
    uint64_t block_stream; /* 0: none was made */
};

/* Turns random bits into a number in [0, 1), of 53 of them. */
static double
unit_from(const uint32_t words[2])
{
    return (double)(((uint64_t)words[1] << 32 | words[0]) >> 11) * 0x1p-53;
}

/* Draws the one number that a position has for a purpose. */
static double
draw(const cadre_skip_gram_t *self, uint64_t purpose, uint64_t position)
{
    uint32_t block[4];
    cadre_random_block(self->seed, purpose, position, block);
    return unit_from(block);
}

/* Computes with which probability each word stays. */
static void
thin_out(cadre_skip_gram_t *self, const cadre_data_spec_t *spec,
         const cadre_vocabulary_t *vocabulary)
{
    double total = 0;
    for (size_t i = 0; i < self->size; i++) {
        total += (double)cadre_vocabulary_frequency(vocabulary, i);
    }
    for (size_t i = 0; i < self->size; i++) {
        const double share = (double)cadre_vocabulary_frequency(vocabulary, i) / total;
        const double ratio = spec->subsample / share;
        self->stays[i] = spec->subsample == 0 ? 1 : sqrt(ratio) + ratio;
    }
}

/* Shares out 0 to 1 among the words. */
static void
share_out(cadre_skip_gram_t *self, const cadre_vocabulary_t *vocabulary)
{
    double end = 0;
    for (size_t i = 0; i < self->size; i++) {
        end += pow((double)cadre_vocabulary_frequency(vocabulary, i), NEGATIVE_POWER);
        self->ends[i] = end;
    }
    uint32_t first = 0;
    for (size_t i = 0; i < self->size; i++) {
        self->ends[i] /= end;
    }
    for (size_t i = 0; i < self->size; i++) {
        while (self->ends[first] <= (double)i / (double)self->size) {
            first++;
        }
        self->firsts[i] = first;
    }
}

int
cadre_skip_gram_new(const cadre_data_spec_t *spec, const cadre_vocabulary_t *vocabulary,
                    cadre_skip_gram_t **out)
{
    const size_t size = cadre_vocabulary_size(vocabulary);
    if (size < 2) {
        return cadre_fail(CADRE_EDATA, "%zu words are there %" PRId64 " times or more, too few",
                          size, spec->min_count);
    }

    cadre_skip_gram_t *self = cadre_calloc(1, sizeof(*self));
    self->seed = (uint64_t)spec->sample_seed;
    self->window = (uint64_t)spec->window;
    self->size = size;
    self->stays = cadre_calloc(size, sizeof(*self->stays));
    self->ends = cadre_calloc(size, sizeof(*self->ends));
    self->firsts = cadre_calloc(size, sizeof(*self->firsts));
    thin_out(self, spec, vocabulary);
    share_out(self, vocabulary);
    *out = self;
    return 0;
}

void
cadre_skip_gram_destroy(cadre_skip_gram_t **self_p)
{
    cadre_skip_gram_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    free(self->stays);
    free(self->ends);
    free(self->firsts);
    free(self);
}

uint64_t
cadre_skip_gram_size_bytes(const cadre_skip_gram_t *self)
{
    return sizeof(*self) +
           self->size * (sizeof(*self->stays) + sizeof(*self->ends) + sizeof(*self->firsts));
}

bool
cadre_skip_gram_stays(const cadre_skip_gram_t *self, uint64_t position, uint32_t id)
{
    return self->stays[id] >= 1 || draw(self, THINNING, position) < self->stays[id];
}

uint32_t
cadre_skip_gram_reach(const cadre_skip_gram_t *self, uint64_t position)
{
    /* Below the window: the largest number that is drawn is as far below 1 as a double can be. */
    return 1 + (uint32_t)(draw(self, WINDOWS, position) * (double)self->window);
}

uint32_t
cadre_skip_gram_negative(cadre_skip_gram_t *self, uint64_t position, uint32_t row)
{
    const uint64_t stream = (uint64_t)(row / 2) << PURPOSE_BITS | NEGATIVES;
    if (self->block_stream != stream || self->block_position != position) {
        cadre_random_block(self->seed, stream, position, self->block);
        self->block_stream = stream;
        self->block_position = position;
    }

    /* The first word whose end is above the number; the last one ends at 1, above every number.
     * As there are as many places to begin at as words, it is two steps away on average at most. */
    const double number = unit_from(self->block + row % 2 * 2);
    uint32_t word = self->firsts[(size_t)(number * (double)self->size)];
    while (self->ends[word] <= number) {
        word++;
    }
    return word;
}
