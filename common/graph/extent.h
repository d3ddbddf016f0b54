/*
 * extent - a dimension inside a program: a number, or a number times a symbol.
 *
 * Plain data. Symbols are numbered per program (program.h); `symbols` below is that table of names.
 */
#ifndef CADRE_COMMON_GRAPH_EXTENT_H
#define CADRE_COMMON_GRAPH_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/program.h>

enum {
    CADRE_EXTENT_NO_SYMBOL = -1,
    CADRE_SYMBOLS_MAX = 8,
    CADRE_SYMBOL_SIZE_MAX = 31,
    CADRE_EXTENTS_TEXT_SIZE = 256,
};

typedef struct {
    int64_t factor; /* at least 1 */
    int symbol;     /* index into the program's symbols, or CADRE_EXTENT_NO_SYMBOL */
} cadre_extent_t;

typedef struct {
    int rank;
    cadre_extent_t extents[CADRE_PROGRAM_RANK_MAX];
} cadre_extents_t;

/* The largest product of a shape's factors (its elements, if all symbols were 1). A shape with a
 * larger product is refused when it is made. */
#define CADRE_EXTENTS_FACTOR_MAX (INT64_C(1) << 44)

cadre_extent_t cadre_extent_number(int64_t factor);
bool cadre_extent_equal(cadre_extent_t left, cadre_extent_t right);
bool cadre_extents_equal(const cadre_extents_t *left, const cadre_extents_t *right);

/* Computes the product of the factors; fails with CADRE_ETOOLARGE beyond
 * CADRE_EXTENTS_FACTOR_MAX. */
int cadre_extents_factor(const cadre_extents_t *shape, int64_t *out);

/* Returns whether two shapes have the same number of elements for all values of the symbols. */
bool cadre_extents_same_count(const cadre_extents_t *left, const cadre_extents_t *right);

/* Computes the shape to which `left` and `right` are broadcast; false when they cannot be. */
bool cadre_extents_broadcast(const cadre_extents_t *left, const cadre_extents_t *right,
                             cadre_extents_t *out);

/* Merges all axes of `shape` but the last `kept` into one, which gives rank `kept` + 1. False when
 * two symbols would be multiplied, or the product of factors exceeds CADRE_EXTENTS_FACTOR_MAX. */
bool cadre_extents_collapse(const cadre_extents_t *shape, int kept, cadre_extents_t *out);

/* Computes the size of `extent`, where symbol_values[i] is what symbol i stands for. Fails with
 * CADRE_ETOOLARGE when the size overflows. */
int cadre_extent_value(cadre_extent_t extent, const int64_t *symbol_values, int64_t *out);

/* Writes a shape, such as "[B,512]", "[2*B,1]" or "[]", into `text` of CADRE_EXTENTS_TEXT_SIZE
 * bytes; returns `text`. */
const char *cadre_extents_text(const cadre_extents_t *shape, const char *const *symbols,
                               char *text);

#endif
