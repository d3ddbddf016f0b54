#include "worker/data/number.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXACT_POWER_MAX = 22, /* 10^22 is the largest power of ten that a double holds exactly */
    EXPONENT_MAX = 99999, /* larger exponents count as this one, which gives 0 or infinity too */
    MANTISSA_DIGITS_MAX = 19, /* so many decimal digits always fit 64 bits */
};

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct {
    const char *at; /* the first character that was not read */
    uint64_t mantissa;
    int digits;   /* significant digits in the mantissa */
    int exponent; /* power of ten that the mantissa is multiplied by */
    bool any;     /* a digit was seen */
    bool exact;   /* mantissa * 10^exponent is the number: no digits were left out */
} decimal_t;

static bool
is_digit(char character)
{
    return character >= '0' && character <= '9';
}

/* Reads digits, before or after the point (`fraction`), into the mantissa. Digits that it has no
 * room for make it inexact. */
static void
scan_digits(decimal_t *self, const char *end, bool fraction)
{
    for (; self->at < end && is_digit(*self->at); self->at++) {
        self->any = true;
        if (self->digits == MANTISSA_DIGITS_MAX) {
            self->exact = false;
            continue;
        }
        self->mantissa = self->mantissa * 10 + (uint64_t)(*self->at - '0');
        self->digits += self->mantissa > 0;
        self->exponent -= fraction;
    }
}

/* Reads the exponent, if any. An "e" without digits behind it does not belong to the number. */
static void
scan_exponent(decimal_t *self, const char *end)
{
    const char *at = self->at + 1;
    bool negative = at < end && *at == '-';

    if (at < end && (*at == '-' || *at == '+')) {
        at++;
    }
    if (at == end || !is_digit(*at)) {
        return;
    }

    int value = 0;
    for (; at < end && is_digit(*at); at++) {
        if (value <= EXPONENT_MAX) {
            value = value * 10 + (*at - '0');
        }
    }

    self->exponent += negative ? -value : value;
    self->at = at;
}

/* Converts by the C library, where `convert` cannot round correctly. */
static bool
convert_slowly(const char *text, size_t length, double *out)
{
    char copy[CADRE_NUMBER_SIZE_MAX + 1];
    memcpy(copy, text, length);
    copy[length] = '\0';
    /* glibc returns its static "C" locale: nothing is allocated. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *stop = copy;
    double value = plain ? strtod_l(copy, &stop, plain) : NAN;

    if (plain) {
        freelocale(plain);
    }
    if (stop != copy + length || !isfinite(value)) {
        return false;
    }

    *out = value;
    return true;
}

/* Converts to double, correctly rounded. When mantissa and power of ten are both exact in a double,
 * one multiplication or division does that (Clinger, "How to read floating point numbers
 * accurately", 1990); else the C library does. */
static bool
convert(const decimal_t *decimal, const char *text, bool negative, double *out)
{
    if (decimal->exact && decimal->mantissa <= UINT64_C(1) << 53 &&
        abs(decimal->exponent) <= EXACT_POWER_MAX) {
        double value = (double)decimal->mantissa;
        double power = powers_of_ten[abs(decimal->exponent)];
        value = decimal->exponent < 0 ? value / power : value * power;
        *out = negative ? -value : value;
        return true;
    }
    return convert_slowly(text, (size_t)(decimal->at - text), out);
}

/* Reads the longest decimal number at the start of [text, end), correctly rounded. Returns where it
 * stops, or NULL when there is none. */
const char *
cadre_number_scan(const char *text, const char *end, double *out)
{
    decimal_t decimal = {.at = text, .exact = true};
    bool negative = text < end && *text == '-';

    if (text < end && (*text == '-' || *text == '+')) {
        decimal.at++;
    }

    scan_digits(&decimal, end, false);
    if (decimal.at < end && *decimal.at == '.') {
        decimal.at++;
        scan_digits(&decimal, end, true);
    }

    if (!decimal.any) {
        return NULL;
    }
    if (decimal.at < end && (*decimal.at == 'e' || *decimal.at == 'E')) {
        scan_exponent(&decimal, end);
    }
    if (decimal.at - text > CADRE_NUMBER_SIZE_MAX || !convert(&decimal, text, negative, out)) {
        return NULL;
    }

    return decimal.at;
}

/* Reads digits as a whole number. Returns where they stop, or NULL when there are none or the
 * number exceeds `most`. */
const char *
cadre_number_scan_index(const char *text, const char *end, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; at < end && is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (digit > most || value > (most - digit) / 10) {
            return NULL;
        }
        value = value * 10 + digit;
    }

    if (at == text) {
        return NULL;
    }

    *out = value;
    return at;
}
