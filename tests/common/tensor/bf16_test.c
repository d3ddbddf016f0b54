#include "common/tensor/bf16.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"

TestSuite(bf16, .timeout = 240);

enum { COUNT = 100003, BF16_NUMBERS = 65536 };

static float
float_of(uint32_t bits)
{
    float x = 0;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t
bits_of(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* The nearest of two neighbours, found by distance in double; ties to the even one. Beyond the
 * largest finite number stands the one that would come next. */
static uint16_t
nearest(float x)
{
    uint16_t low = (uint16_t)(bits_of(x) >> 16);
    uint16_t high = (uint16_t)(low + 1);
    double next = (high & 0x7f80) == 0x7f80 ? copysign(0x1p128, (double)x)
                                            : (double)float_of((uint32_t)high << 16);
    double below = fabs((double)x - (double)float_of((uint32_t)low << 16));
    double above = fabs(next - (double)x);
    return below < above || (below == above && low % 2 == 0) ? low : high;
}

/* Random bits, a third of them exactly between two bf16; all finite. */
static float *
new_numbers(void)
{
    float *numbers = cadre_calloc(COUNT, sizeof(*numbers));
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t block[4];
        cadre_random_block(7, 7, i, block);
        uint32_t bits = i % 3 == 0 ? (block[0] & 0xffff0000U) | 0x8000 : block[0];
        numbers[i] = (bits & 0x7f800000U) == 0x7f800000U ? 1.0F : float_of(bits);
    }
    return numbers;
}

Test(bf16, rounds_to_the_nearest_and_ties_to_even)
{
    cadre_auto(cadre_free) float *numbers = new_numbers();
    cadre_auto(cadre_free) uint16_t *words = cadre_calloc(COUNT, sizeof(*words));
    cadre_bf16_from_f32(numbers, words, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert_eq(words[i], nearest(numbers[i]), "%a: %x, not %x", (double)numbers[i],
                     (unsigned)words[i], (unsigned)nearest(numbers[i]));
    }
}

Test(bf16, every_one_of_them_goes_to_f32_and_back)
{
    cadre_auto(cadre_free) uint16_t *words = cadre_calloc(BF16_NUMBERS, sizeof(*words));
    cadre_auto(cadre_free) uint16_t *back = cadre_calloc(BF16_NUMBERS, sizeof(*back));
    cadre_auto(cadre_free) float *wide = cadre_calloc(BF16_NUMBERS, sizeof(*wide));
    for (size_t i = 0; i < BF16_NUMBERS; i++) {
        words[i] = (uint16_t)i;
    }
    cadre_bf16_to_f32(words, wide, BF16_NUMBERS);
    cr_assert_not(cadre_bf16_from_f32(wide, back, BF16_NUMBERS), "there are infinities");
    for (uint32_t i = 0; i < BF16_NUMBERS; i++) {
        bool nan = (i & 0x7fff) > 0x7f80;
        cr_assert_eq(bits_of(wide[i]), i << 16);
        cr_assert_eq(back[i], nan ? i | 0x40 : i);
    }
}

Test(bf16, tells_what_is_not_finite_wherever_it_stands)
{
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
                                   0xffffffff, 0x7f7fffff, 0x7f7f8000, 0xff7f8000};
    static const uint32_t good[] = {0x7f7f7fff, 0xff7f7fff, 0, 0x80000000, 1, 0x007fffff};
    float numbers[67] = {0};
    uint16_t words[67];
    for (size_t place = 0; place < CADRE_COUNT_OF(numbers); place++) {
        for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
            numbers[place] = float_of(bad[i]);
            cr_assert_not(cadre_bf16_from_f32(numbers, words, CADRE_COUNT_OF(numbers)), "%x at %zu",
                          (unsigned)bad[i], place);
            cr_assert_not(cadre_bf16_finite(words, CADRE_COUNT_OF(words)));
            bool nan = (bad[i] & 0x7fffffff) > 0x7f800000;
            cr_assert_eq((words[place] & 0x7fff) > 0x7f80, nan,
                         "NaN stays, and nothing becomes it");
        }
        for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
            numbers[place] = float_of(good[i]);
            cr_assert(cadre_bf16_from_f32(numbers, words, CADRE_COUNT_OF(numbers)), "%x",
                      (unsigned)good[i]);
            cr_assert(cadre_bf16_finite(words, CADRE_COUNT_OF(words)));
        }
        numbers[place] = 0;
    }
}

Test(bf16, takes_any_count_and_any_address)
{
    float numbers[70];
    float wide[70];
    char bytes[2 * 70 + 1];
    for (size_t i = 0; i < CADRE_COUNT_OF(numbers); i++) {
        numbers[i] = (float)i - 20;
    }
    for (size_t count = 0; count <= CADRE_COUNT_OF(numbers); count++) {
        memset(bytes, 0x55, sizeof(bytes));
        wide[count < 70 ? count : 69] = -1;
        cr_assert(cadre_bf16_from_f32(numbers, bytes + 1, count));
        cr_assert(cadre_bf16_finite(bytes + 1, count));
        cadre_bf16_to_f32(bytes + 1, wide, count);
        cr_assert_arr_eq(wide, numbers, count * sizeof(float));
        cr_assert(count == 70 || (wide[count] == -1 && bytes[1 + 2 * count] == 0x55),
                  "and no more");
    }
}
