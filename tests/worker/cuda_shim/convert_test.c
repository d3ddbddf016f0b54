/*
 * bf16 and the search for numbers beyond a limit, by the CUDA kernels.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/random.h"
#include "common/tensor/bf16.h"
#include "tests/worker/cuda_shim/shim/shim.h"
#include "worker/device/cuda/kernels.h"

TestSuite(convert, .timeout = 240);

enum { COUNT = 2500 };

static uint32_t
bits_of(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float
float_of(uint32_t bits)
{
    float x = 0;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* What is pushed does not depend on who converted it: bit for bit, NaN and infinity included. */
Test(convert, rounds_as_the_host_does)
{
    enum { ROUNDS = 40 };
    /* Zeros, the least f32, the largest bf16. */
    static const uint32_t few[] = {0, 0x80000000, 1, 0x7f7f0000};
    static float x[COUNT];
    static uint16_t out[COUNT];
    static uint16_t host[COUNT];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        bool finite_only = round % 2 == 1;
        for (int i = 0; i < COUNT; i++) {
            uint32_t block[4];
            cadre_random_block(3, round, (uint64_t)i, block);
            uint32_t bits = i % 3 == 0 ? (block[0] & 0xffff0000U) | 0x8000 : block[0];
            bits = i % 7 == 0 ? bits | 0x7f000000U : bits; /* large, infinite, NaN */
            bits = i < 4 ? few[i] : bits;
            x[i] = finite_only && (bits & 0x7f000000U) == 0x7f000000U ? 1.0F : float_of(bits);
        }
        int32_t flag = 0;
        cr_assert_eq(cadre_cuda_to_bf16(x, out, COUNT, &flag, NULL), 0);
        cr_assert_eq(cadre_bf16_from_f32(x, host, COUNT), flag == 0);
        cr_assert_eq(flag == 0, finite_only);
        cr_assert_arr_eq(out, host, sizeof(host), "round %d", (int)round);
    }
}

Test(convert, tells_what_is_not_finite_as_bf16)
{
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
                                   0xffffffff, 0x7f7fffff, 0x7f7f8000, 0xff7f8000};
    static float x[COUNT];
    static uint16_t out[COUNT];
    for (int at = 0; at < COUNT; at += 7) {
        uint32_t bits = bad[at % 8];
        x[at] = float_of(bits);
        int32_t flag = 0;
        cr_assert_eq(cadre_cuda_to_bf16(x, out, COUNT, &flag, NULL), 0);
        cr_assert_eq(flag, 1);
        cr_assert_eq(out[at] & 0x7f80, 0x7f80);
        cr_assert_eq((out[at] & 0x7f) != 0, isnan(x[at]) != 0, "NaN stays NaN");
        x[at] = float_of(0x7f7f7fff); /* rounds down */
        flag = 0;
        cr_assert_eq(cadre_cuda_to_bf16(x, out, COUNT, &flag, NULL), 0);
        cr_assert_eq(flag, 0);
    }
}

/* From the beginning of an array and from its second element: vectors and single numbers; what lies
 * beyond is not looked at. */
Test(convert, finds_a_number_beyond_a_limit_anywhere)
{
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000,
                                   0xff800001, 0x45800001, 0xc5800001};
    static float x[COUNT];
    for (int shift = 0; shift < 2; shift++) {
        for (int at = shift; at < COUNT; at += 3) {
            int32_t flag = 0;
            cr_assert_eq(cadre_cuda_check_limit(x + shift, COUNT - shift, 4096, &flag, NULL), 0);
            cr_assert_eq(flag, 0);
            x[at] = float_of(bad[at / 3 % 6]);
            cr_assert_eq(cadre_cuda_check_limit(x + shift, COUNT - shift, 4096, &flag, NULL), 0);
            cr_assert_eq(flag, 1);
            flag = 0;
            cr_assert_eq(cadre_cuda_check_limit(x + shift, at - shift, 4096, &flag, NULL), 0);
            cr_assert_eq(flag, 0);
            x[at] = at % 2 ? 4096.0F : -4096.0F;
        }
    }
}

Test(convert, every_bf16_goes_to_f32_and_back)
{
    static uint16_t in[65536 + 1];
    static float wide[65536 + 1];
    static uint16_t out[65536 + 1];
    for (int shift = 0; shift < 2; shift++) {
        for (int i = 0; i < 65536; i++) {
            in[i + shift] = (uint16_t)i;
        }
        memset(wide, 0x55, sizeof(wide));
        memset(out, 0x55, sizeof(out));
        int32_t flag = 0;
        cr_assert_eq(cadre_cuda_from_bf16(in + shift, wide + shift, 65536, NULL), 0);
        cr_assert_eq(cadre_cuda_to_bf16(wide + shift, out + shift, 65536, &flag, NULL), 0);
        cr_assert_eq(flag, 1);
        for (int i = 0; i < 65536; i++) {
            cr_assert_eq(bits_of(wide[i + shift]), (uint32_t)i << 16);
            bool nan = (i & 0x7f80) == 0x7f80 && (i & 0x7f);
            cr_assert_eq(out[i + shift], nan ? i | 0x40 : i);
        }
        cr_assert_eq(out[shift ? 0 : 65536], 0x5555);
    }
}
