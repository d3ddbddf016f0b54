#include "common/graph/extent.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/status.h"

cadre_extent_t
cadre_extent_number(int64_t factor)
{
    return (cadre_extent_t){.factor = factor, .symbol = CADRE_EXTENT_NO_SYMBOL};
}

bool
cadre_extent_equal(cadre_extent_t left, cadre_extent_t right)
{
    return left.factor == right.factor && left.symbol == right.symbol;
}

/* Returns whether two shapes have the same factors and symbols, axis by axis. */
bool
cadre_extents_equal(const cadre_extents_t *left, const cadre_extents_t *right)
{
    if (left->rank != right->rank) {
        return false;
    }
    for (int i = 0; i < left->rank; i++) {
        if (!cadre_extent_equal(left->extents[i], right->extents[i])) {
            return false;
        }
    }
    return true;
}

/* Computes the product of a shape's factors, which is the number of its elements if each symbol
 * were 1. */
int
cadre_extents_factor(const cadre_extents_t *shape, int64_t *out)
{
    int64_t product = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (__builtin_mul_overflow(product, shape->extents[i].factor, &product) ||
            product > CADRE_EXTENTS_FACTOR_MAX) {
            return cadre_fail(CADRE_ETOOLARGE, "the shape has more than 2^44 elements");
        }
    }
    *out = product;
    return 0;
}

/* Returns whether two shapes have the same number of elements whatever the symbols stand for: the
 * factors have the same product, and each symbol occurs as often in one shape as in the other. */
bool
cadre_extents_same_count(const cadre_extents_t *left, const cadre_extents_t *right)
{
    int64_t left_factor = 0;
    int64_t right_factor = 0;
    if (cadre_extents_factor(left, &left_factor) < 0 ||
        cadre_extents_factor(right, &right_factor) < 0 || left_factor != right_factor) {
        return false;
    }
    int powers[CADRE_SYMBOLS_MAX] = {0};
    for (int i = 0; i < left->rank; i++) {
        if (left->extents[i].symbol >= 0) {
            powers[left->extents[i].symbol]++;
        }
    }
    for (int i = 0; i < right->rank; i++) {
        if (right->extents[i].symbol >= 0) {
            powers[right->extents[i].symbol]--;
        }
    }
    for (int i = 0; i < CADRE_SYMBOLS_MAX; i++) {
        if (powers[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool
is_one(cadre_extent_t extent)
{
    return extent.factor == 1 && extent.symbol < 0;
}

/* Computes the shape to which two shapes are broadcast, as in NumPy: aligned at the last axis; a
 * missing axis counts as 1, and 1 gives way to the other size. False when two sizes differ
 * otherwise. */
bool
cadre_extents_broadcast(const cadre_extents_t *left, const cadre_extents_t *right,
                        cadre_extents_t *out)
{
    cadre_extents_t shape = {.rank = left->rank > right->rank ? left->rank : right->rank};
    for (int i = 0; i < shape.rank; i++) {
        int l = i - (shape.rank - left->rank);
        int r = i - (shape.rank - right->rank);
        cadre_extent_t a = l < 0 ? cadre_extent_number(1) : left->extents[l];
        cadre_extent_t b = r < 0 ? cadre_extent_number(1) : right->extents[r];
        if (!cadre_extent_equal(a, b) && !is_one(a) && !is_one(b)) {
            return false;
        }
        shape.extents[i] = is_one(a) ? b : a;
    }
    *out = shape;
    return true;
}

/* Merges all axes but the last `kept` into one, the first of the result. False when that axis would
 * have two symbols, which an extent cannot hold, or a factor beyond the limit. */
bool
cadre_extents_collapse(const cadre_extents_t *shape, int kept, cadre_extents_t *out)
{
    cadre_extents_t result = {.rank = kept + 1, .extents = {cadre_extent_number(1)}};
    cadre_extent_t *rows = &result.extents[0];
    for (int i = 0; i < shape->rank - kept; i++) {
        cadre_extent_t next = shape->extents[i];
        if ((rows->symbol >= 0 && next.symbol >= 0) ||
            __builtin_mul_overflow(rows->factor, next.factor, &rows->factor) ||
            rows->factor > CADRE_EXTENTS_FACTOR_MAX) {
            return false;
        }
        rows->symbol = rows->symbol >= 0 ? rows->symbol : next.symbol;
    }
    for (int i = 0; i < kept; i++) {
        result.extents[i + 1] = shape->extents[shape->rank - kept + i];
    }
    *out = result;
    return true;
}

/* Computes the size of an extent from the numbers that the symbols stand for. */
int
cadre_extent_value(cadre_extent_t extent, const int64_t *symbol_values, int64_t *out)
{
    int64_t times = extent.symbol >= 0 ? symbol_values[extent.symbol] : 1;
    int64_t value = 0;
    if (__builtin_mul_overflow(extent.factor, times, &value)) {
        return cadre_fail(CADRE_ETOOLARGE, "a dimension is beyond 2^63");
    }
    *out = value;
    return 0;
}

/* Writes a shape as "[2*B,10]". CADRE_EXTENTS_TEXT_SIZE has room for the longest numbers and
 * symbols on every axis. */
const char *
cadre_extents_text(const cadre_extents_t *shape, const char *const *symbols, char *text)
{
    size_t at = 0;
    text[at++] = '[';
    for (int i = 0; i < shape->rank; i++) {
        cadre_extent_t extent = shape->extents[i];
        const char *symbol = extent.symbol >= 0 ? symbols[extent.symbol] : "";
        size_t room = CADRE_EXTENTS_TEXT_SIZE - at;
        int length = 0;
        if (i > 0) {
            text[at++] = ',';
            room--;
        }
        if (extent.symbol < 0) {
            length = snprintf(text + at, room, "%" PRId64, extent.factor);
        } else if (extent.factor == 1) {
            length = snprintf(text + at, room, "%s", symbol);
        } else {
            length = snprintf(text + at, room, "%" PRId64 "*%s", extent.factor, symbol);
        }
        at += (size_t)length;
    }
    text[at++] = ']';
    text[at] = '\0';
    return text;
}
