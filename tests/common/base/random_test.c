#include "common/base/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(random, .timeout = 240);

/* The philox4x32 10 lines of kat_vectors in the Random123 distribution. */
Test(random, gives_the_published_known_answers)
{
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t answer[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(vectors); i++) {
        uint32_t out[4];
        cadre_philox4x32(vectors[i].counter, vectors[i].key, out);
        cr_assert_arr_eq(out, vectors[i].answer, sizeof(out), "vector %zu", i);
        memcpy(out, vectors[i].counter, sizeof(out));
        cadre_philox4x32(out, vectors[i].key, out);
        cr_assert_arr_eq(out, vectors[i].answer, sizeof(out), "in place, vector %zu", i);
    }
}

Test(random, puts_index_stream_and_seed_in_their_words)
{
    uint32_t out[4];
    cadre_random_block(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e),
                       UINT64_C(0x85a308d3243f6a88), out);
    const uint32_t answer[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    cr_assert_arr_eq(out, answer, sizeof(out));
}

Test(random, gives_an_element_one_value_whatever_the_batch)
{
    enum { COUNT = 64 };
    float uniform[COUNT];
    float normal[COUNT];
    const uint64_t start = (UINT64_C(1) << 34) - 8; /* the block number crosses 2^32 */
    cadre_random_fill_uniform(7, 3, start, COUNT, uniform);
    cadre_random_fill_normal(7, 3, start, COUNT, normal);
    for (size_t first = 0; first < COUNT; first++) {
        float part[COUNT];
        for (size_t count = 1; count <= 9 && first + count <= COUNT; count++) {
            cadre_random_fill_uniform(7, 3, start + first, count, part);
            cr_assert_arr_eq(part, uniform + first, count * sizeof(float));
            cadre_random_fill_normal(7, 3, start + first, count, part);
            cr_assert_arr_eq(part, normal + first, count * sizeof(float));
        }
        cr_assert_eq(cadre_random_uniform(7, 3, start + first), uniform[first]);
    }
}

static void
check_moments(uint64_t seed, uint64_t stream)
{
    enum { COUNT = 200000 };
    static float values[COUNT];
    double sum = 0;
    double squares = 0;
    cadre_random_fill_uniform(seed, stream, 0, COUNT, values);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(values[i] >= 0 && values[i] < 1);
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    /* Five standard deviations of the mean. */
    cr_assert_float_eq(sum / COUNT, 0.5, 5 * sqrt(1.0 / 12 / COUNT));
    cr_assert_float_eq(squares / COUNT, 1.0 / 3, 5 * sqrt(4.0 / 45 / COUNT));

    sum = 0;
    squares = 0;
    double fourth = 0;
    double neighbours = 0;
    cadre_random_fill_normal(seed, stream, 0, COUNT, values);
    for (size_t i = 0; i < COUNT; i++) {
        double square = (double)values[i] * values[i];
        sum += values[i];
        squares += square;
        fourth += square * square;
        neighbours += i ? (double)values[i] * values[i - 1] : 0;
    }
    cr_assert_float_eq(sum / COUNT, 0, 5 * sqrt(1.0 / COUNT));
    cr_assert_float_eq(squares / COUNT, 1, 5 * sqrt(2.0 / COUNT));
    cr_assert_float_eq(fourth / COUNT, 3, 5 * sqrt(96.0 / COUNT));
    cr_assert_float_eq(neighbours / COUNT, 0, 5 * sqrt(1.0 / COUNT));
}

Test(random, has_the_moments_of_its_distributions)
{
    check_moments(0, 0);
    check_moments(UINT64_MAX, 1);
}

Test(random, stays_finite_at_the_ends_of_the_words)
{
    double pair[2];
    cadre_random_box_muller(0, 0, pair);
    cr_assert_float_eq(pair[0], sqrt(64 * log(2)), 1e-12);
    cr_assert_eq(pair[1], 0);
    cadre_random_box_muller(UINT32_MAX, UINT32_MAX, pair);
    cr_assert_eq(pair[0], 0);
    cr_assert(isfinite(pair[1]));
}

Test(random, tells_streams_and_seeds_apart)
{
    cr_assert_neq(cadre_random_uniform(1, 2, 0), cadre_random_uniform(2, 1, 0));
    cr_assert_neq(cadre_random_uniform(1, 2, 0), cadre_random_uniform(1, 3, 0));
}

Test(random, repeats_itself_from_one_seed)
{
    cadre_random_t left;
    cadre_random_t right;
    cadre_random_init(&left, 42, 0);
    cadre_random_init(&right, 42, 0);
    uint64_t first = cadre_random_next_u64(&left);
    cr_assert_eq(first, cadre_random_next_u64(&right));
    for (int i = 0; i < 1000; i++) {
        uint64_t next = cadre_random_next_u64(&left);
        cr_assert_eq(next, cadre_random_next_u64(&right));
        cr_assert_neq(next, first);
    }
}

Test(random, draws_below_a_bound_without_bias)
{
    cadre_random_t random;
    cadre_random_init(&random, 5, 0);
    /* With plain modulo the lower third of this range would come up twice as often as another. */
    const uint64_t bound = UINT64_C(3) << 62;
    int lower = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t number = cadre_random_below(&random, bound);
        cr_assert_lt(number, bound);
        lower += number < UINT64_C(1) << 62;
    }
    cr_assert(lower > 10000 - 450 && lower < 10000 + 450, "%d of 30000", lower);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        counts[cadre_random_below(&random, 7)]++;
    }
    for (int i = 0; i < 7; i++) {
        cr_assert(counts[i] > 9500 && counts[i] < 10500);
    }
    cr_assert_eq(cadre_random_below(&random, 1), 0);
    cr_assert_lt(cadre_random_below(&random, UINT64_MAX), UINT64_MAX);
}
