#include "worker/data/skip_gram.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(skip_gram, .timeout = 240);

enum { WORDS = 20, DRAWS = 200000, WINDOW = 7 };

/* Word i is there 1000 / (i + 1) times. */
static cadre_vocabulary_t *
make_vocabulary(void)
{
    cadre_vocabulary_t *vocabulary = cadre_vocabulary_new();
    for (int i = 0; i < WORDS; i++) {
        char word[CADRE_WORD_SIZE];
        snprintf(word, sizeof(word), "w%02d", i);
        for (int count = 0; count < 1000 / (i + 1); count++) {
            cadre_vocabulary_count(vocabulary, word);
        }
    }
    cadre_vocabulary_rank(vocabulary, 1, WORDS);
    return vocabulary;
}

static cadre_skip_gram_t *
make_draws(const cadre_vocabulary_t *vocabulary, double subsample)
{
    const cadre_data_spec_t spec = {.subsample = subsample, .window = WINDOW, .sample_seed = 3};
    cadre_skip_gram_t *draws = NULL;
    cr_assert_eq(cadre_skip_gram_new(&spec, vocabulary, &draws), 0, "%s", cadre_error_text());
    return draws;
}

/* Neighbours in a row, and those at one row of neighbouring centers, are equal as often as two that
 * have nothing to do with each other. */
Test(skip_gram, draws_negatives_by_frequency_each_for_itself)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = make_vocabulary();
    cadre_auto(cadre_skip_gram_destroy) cadre_skip_gram_t *draws = make_draws(vocabulary, 0);
    double shares[WORDS];
    double all = 0;
    for (size_t i = 0; i < WORDS; i++) {
        shares[i] = pow((double)cadre_vocabulary_frequency(vocabulary, i), 0.75);
        all += shares[i];
    }
    int counts[WORDS] = {0};
    int equal[3] = {0};
    for (uint64_t position = 0; position < DRAWS / 4; position++) {
        uint32_t drawn[4];
        for (uint32_t row = 0; row < 4; row++) {
            drawn[row] = cadre_skip_gram_negative(draws, position, row);
            counts[drawn[row]]++;
        }
        equal[0] += drawn[0] == drawn[1];
        equal[1] += drawn[1] == drawn[2];
        equal[2] += drawn[0] == cadre_skip_gram_negative(draws, position + 1, 0);
    }
    double chance = 0;
    for (size_t i = 0; i < WORDS; i++) {
        const double share = shares[i] / all;
        chance += share * share;
        cr_expect_float_eq((double)counts[i] / DRAWS, share, 0.005, "word %zu: %d", i, counts[i]);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(equal); i++) {
        cr_expect_float_eq((double)equal[i] / (DRAWS / 4), chance, 0.01, "%zu: %d", i, equal[i]);
    }
}

Test(skip_gram, draws_the_same_wherever_it_begins)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = make_vocabulary();
    cadre_auto(cadre_skip_gram_destroy) cadre_skip_gram_t *draws = make_draws(vocabulary, 0.01);
    cadre_auto(cadre_skip_gram_destroy) cadre_skip_gram_t *others = make_draws(vocabulary, 0.01);
    enum { ROWS = 64 };
    uint32_t drawn[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        drawn[i] = cadre_skip_gram_negative(draws, i / 7, i % 7);
    }
    for (uint32_t i = ROWS; i-- > 0;) {
        cr_expect_eq(cadre_skip_gram_negative(others, i / 7, i % 7), drawn[i], "%u", i);
        cr_expect_eq(cadre_skip_gram_stays(draws, i, 0), cadre_skip_gram_stays(others, i, 0));
        cr_expect_eq(cadre_skip_gram_reach(draws, i), cadre_skip_gram_reach(others, i));
    }
}

Test(skip_gram, thins_out_by_share)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = make_vocabulary();
    cadre_auto(cadre_skip_gram_destroy) cadre_skip_gram_t *draws = make_draws(vocabulary, 0.01);
    for (uint32_t id = 0; id < WORDS; id++) {
        const double share = (double)cadre_vocabulary_frequency(vocabulary, id) /
                             (double)cadre_vocabulary_total(vocabulary);
        const double wanted = fmin(1, sqrt(0.01 / share) + 0.01 / share);
        int stayed = 0;
        for (uint64_t position = 0; position < DRAWS; position++) {
            stayed += cadre_skip_gram_stays(draws, position, id);
        }
        cr_expect_float_eq((double)stayed / DRAWS, wanted, 0.005, "word %u: %d", id, stayed);
    }
}

Test(skip_gram, draws_each_distance_of_the_window_as_often)
{
    cadre_auto(cadre_vocabulary_destroy) cadre_vocabulary_t *vocabulary = make_vocabulary();
    cadre_auto(cadre_skip_gram_destroy) cadre_skip_gram_t *draws = make_draws(vocabulary, 0);
    int counts[WINDOW + 2] = {0};
    for (uint64_t position = 0; position < DRAWS; position++) {
        const uint32_t reach = cadre_skip_gram_reach(draws, position);
        cr_assert(reach >= 1 && reach <= WINDOW);
        counts[reach]++;
    }
    for (int i = 1; i <= WINDOW; i++) {
        cr_expect_float_eq((double)counts[i] / DRAWS, 1.0 / WINDOW, 0.005, "%d: %d", i, counts[i]);
    }
}
